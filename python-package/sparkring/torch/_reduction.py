# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Operations of PyTorch on tensors, as operations of the core on arrays."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from sparkring.torch import _tensor_view as view

Op = dist.ReduceOp.RedOpType

_SUMS = {Op.SUM: "sum", Op.AVG: "avg", Op.PRODUCT: "prod"}
_ORDERS = {Op.MIN: "min", Op.MAX: "max"}
_BITWISE = {Op.BAND: "band", Op.BOR: "bor", Op.BXOR: "bxor"}


class Reduction(NamedTuple):
    """An operation on elements of one type."""

    name: str  # of the core
    factor: Any  # of every input before the sum, or None

    @classmethod
    def of(cls, op: Any, dtype: torch.dtype) -> Reduction:
        """Return the reduction of a ``ReduceOp`` for a type."""
        kind, factor = op.__getstate__() if isinstance(op, dist.ReduceOp) else (op, None)
        return cls(_name(Op.SUM if kind == Op.PREMUL_SUM else kind, dtype), factor)

    @classmethod
    def asked(cls, opts: Any, dtype: torch.dtype) -> Reduction:
        """Return the reduction of the options of a call; without options, the sum."""
        return cls.of(Op.SUM if opts is None else opts.reduceOp, dtype)

    def scaled(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the input of the sum."""
        return tensor if self.factor is None else tensor * self.factor


@functools.lru_cache(maxsize=256)
def _name(kind: Any, dtype: torch.dtype) -> str:
    """Choose the operation of the core, or explain that there is none."""
    names: dict[Any, str] = dict(_SUMS)
    if not dtype.is_complex:
        names.update(_ORDERS)
        if not dtype.is_floating_point:
            names.update(_BITWISE)
    if dtype is torch.bool:
        del names[Op.AVG]
    if kind not in names or not (dtype in view.NATIVE or dtype is torch.bfloat16):
        raise RuntimeError(
            f"sparkring has no reduction {kind} for {dtype}: convert the tensor first"
        )
    return names[kind]


def arrays(*tensors: torch.Tensor) -> tuple[list[Any], str | None]:
    """Return plain tensors as arrays that the core reduces, and the name of their type."""
    pairs = [view.elements(tensor) for tensor in tensors]
    return [array for array, _ in pairs], pairs[0][1] if pairs else None
