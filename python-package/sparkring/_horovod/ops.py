# SPDX-License-Identifier: Apache-2.0
"""The reduction ops of Horovod's API."""

from __future__ import annotations

from typing import NamedTuple


class ReduceOp(NamedTuple):
    """A reduction, and the op of the core that carries it out."""

    name: str
    core: str

    def __repr__(self) -> str:
        return self.name


Average = ReduceOp("Average", "avg")
Sum = ReduceOp("Sum", "sum")
Adasum = ReduceOp("Adasum", "sum")
Min = ReduceOp("Min", "min")
Max = ReduceOp("Max", "max")
Product = ReduceOp("Product", "prod")


def choose(op: ReduceOp | None, average: bool | None = None) -> ReduceOp:
    """Return the op of a call; the average by default.

    ``average`` is Horovod's older argument, and excludes ``op``.
    """
    if average is not None:
        if op is not None:
            raise ValueError("op and average exclude each other: pass op alone")
        return Average if average else Sum
    if op is None:
        return Average
    if not isinstance(op, ReduceOp):
        raise ValueError(f"op is {op!r}: pass Average, Sum, Adasum, Min, Max or Product")
    return op
