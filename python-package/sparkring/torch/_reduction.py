# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Operations of PyTorch on tensors, as operations of the core on arrays.

The core reduces the types in `NATIVE`, bfloat16, complex numbers as pairs and booleans as bytes.
For other types and for bitwise operations, every rank gathers the tensors of all ranks and folds
them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from sparkring.torch import _tensor_view as view

Op = dist.ReduceOp.RedOpType
Fold = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_NAMES = {Op.SUM: "sum", Op.AVG: "avg", Op.PRODUCT: "prod", Op.MIN: "min", Op.MAX: "max"}
_BOOLEAN = {Op.SUM: "lor", Op.MAX: "lor", Op.BOR: "lor"} | dict.fromkeys(
    (Op.MIN, Op.PRODUCT, Op.BAND), "land"
)
_FOLDS: dict[Any, Fold] = {
    Op.SUM: torch.add,
    Op.PRODUCT: torch.mul,
    Op.BAND: torch.bitwise_and,
    Op.BOR: torch.bitwise_or,
    Op.BXOR: torch.bitwise_xor,
}
_INTEGERS = (torch.int16, torch.uint16, torch.uint32, torch.uint64)


class Reduction(NamedTuple):
    """An operation on elements of one type."""

    name: str | None  # of the core; None: gather and fold
    fold: Fold | None
    factor: Any  # of every input before the sum, or None

    @classmethod
    def of(cls, op: Any, dtype: torch.dtype) -> Reduction:
        """Return the reduction of a ``ReduceOp`` for a type."""
        kind, factor = op.__getstate__() if isinstance(op, dist.ReduceOp) else (op, None)
        if kind == Op.PREMUL_SUM:
            kind = Op.SUM
        return _plain(kind, dtype) if factor is None else cls(*_plain(kind, dtype)[:2], factor)

    def scaled(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the input of the sum."""
        return tensor if self.factor is None else tensor * self.factor

    def fold_rows(self, rows: torch.Tensor) -> torch.Tensor:
        """Reduce the tensors of all ranks, which are the rows."""
        assert self.fold is not None
        return functools.reduce(self.fold, rows.unbind(0))


@functools.lru_cache(maxsize=256)
def _plain(kind: Any, dtype: torch.dtype) -> Reduction:
    """Choose how to reduce, or explain that there is no way."""
    if dtype is torch.bool and kind in _BOOLEAN:
        return Reduction(_BOOLEAN[kind], None, None)
    if dtype.is_complex and kind in (Op.SUM, Op.AVG):
        return Reduction(_NAMES[kind], None, None)
    if (dtype in view.NATIVE or dtype is torch.bfloat16) and kind in _NAMES:
        return Reduction(_NAMES[kind], None, None)
    if dtype in _INTEGERS and kind in (Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX):
        return Reduction(None, _widened(_FOLDS.get(kind) or _choose(kind)), None)
    if dtype.is_complex and kind == Op.PRODUCT:
        return Reduction(None, _FOLDS[kind], None)
    if not dtype.is_floating_point and not dtype.is_complex and kind in _FOLDS:
        return Reduction(None, _FOLDS[kind], None)
    raise RuntimeError(f"sparkring has no reduction {kind} for {dtype}: convert the tensor first")


def _choose(kind: Any) -> Fold:
    chosen: Fold = torch.minimum if kind == Op.MIN else torch.maximum
    return chosen


def _widened(
    fold: Fold,
) -> Fold:
    """Fold in int64; PyTorch has few operations on unsigned numbers. The result wraps."""
    return lambda a, b: fold(a.to(torch.int64), b.to(torch.int64)).to(a.dtype)


def arrays(dtype: torch.dtype, *tensors: torch.Tensor) -> tuple[list[Any], str | None]:
    """Return plain tensors as arrays that the core reduces, and the name of their type."""
    if dtype.is_complex:
        tensors = tuple(torch.view_as_real(tensor.detach()) for tensor in tensors)
    elif dtype is torch.bool:
        tensors = tuple(tensor.view(torch.uint8) for tensor in tensors)
    pairs = [view.elements(tensor) for tensor in tensors]
    return [array for array, _ in pairs], pairs[0][1] if pairs else None
