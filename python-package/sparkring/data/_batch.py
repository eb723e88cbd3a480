# SPDX-License-Identifier: Apache-2.0
"""One batch of one rank: its arrays by name, and how many rows it and all ranks have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sparkring.data._source import Chunk


class Batch(dict[Any, Any]):
    """Arrays or tensors by name, whose first dimension is the rows.

    Attributes
    ----------
    rows : int
        How many rows of its own this rank has in this step. There are more in the arrays where
        ``equalize="pad"`` has repeated some behind these, and none where ``equalize="join"`` lets a
        rank take part that has run out of rows.
    total : int or None
        The sum of the ranks' ``rows``: what sums over the rows of all ranks are to be divided by.
        None with ``equalize=None``.
    mask : array or tensor of bool
        For each row in the arrays, whether it counts: False for those that are repeated.
    epoch : int
        In which epoch this is, from 0 on.
    step : int
        Which batch of its epoch this is, from 0 on.
    """

    __slots__ = ("epoch", "mask", "rows", "step", "total")

    def __init__(
        self, arrays: dict[Any, Any], mask: Any, rows: int, total: int | None, epoch: int, step: int
    ) -> None:
        super().__init__(arrays)
        self.mask, self.rows, self.total = mask, rows, total
        self.epoch, self.step = epoch, step

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name}: {_describe(values)}" for name, values in self.items())
        return (
            f"<sparkring.data.Batch {self.step} of epoch {self.epoch}: {self.rows} rows of"
            f" {self.total}; {arrays}>"
        )


def _describe(values: Any) -> str:
    return f"{str(values.dtype).replace('torch.', '')}{list(values.shape)}"


def tensors(arrays: Chunk) -> dict[Any, Any]:
    """Make tensors of PyTorch that share the memory of the arrays.

    Tensors can always be written to, so arrays that cannot, which are Arrow's or kept for the next
    epoch, are copied.
    """
    import torch  # type: ignore[import-not-found, unused-ignore]

    return {
        name: torch.from_numpy(values if values.flags.writeable else np.array(values))
        for name, values in arrays.items()
    }
