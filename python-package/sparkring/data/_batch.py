# SPDX-License-Identifier: Apache-2.0
"""One batch of one rank: its arrays by name, its rows, and the rows of all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sparkring._tables.source import Chunk


class Batch(dict[Any, Any]):
    """Arrays or tensors by name. Their first dimension is the rows.

    Attributes
    ----------
    rows : int
        The number of own rows of this rank in this step. With ``equalize="pad"`` the arrays may
        have more rows, because repeated rows follow the own rows. With ``equalize="join"`` a rank
        without further rows has 0 rows.
    total : int or None
        The sum of the ranks' ``rows``, by which sums over the rows of all ranks are to be divided.
        None with ``equalize=None``.
    mask : array or tensor of bool
        For each row in the arrays, whether it counts: False for repeated rows.
    epoch : int
        The number of the epoch, from 0 on.
    step : int
        The number of the batch in its epoch, from 0 on.
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
    if isinstance(values, list):
        return f"list[{len(values)}]"
    if not hasattr(values, "dtype"):  # of Arrow
        return f"{values.type}[{len(values)}]"
    return f"{str(values.dtype).replace('torch.', '')}{list(values.shape)}"


def tensors(arrays: Chunk) -> dict[Any, Any]:
    """Make tensors of PyTorch."""
    return {name: tensor(values) for name, values in arrays.items()}


def tensor(values: Any) -> Any:
    """Make a tensor of PyTorch that shares the memory of the array.

    Tensors are always writable. So read-only arrays are copied: views of Arrow's memory, and arrays
    that are kept for the next epoch.
    """
    import torch  # type: ignore[import-not-found, unused-ignore]

    return torch.from_numpy(values if values.flags.writeable else np.array(values))
