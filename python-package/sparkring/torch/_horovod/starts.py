# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Submissions of tensors: each function returns a `Pending` whose result is a tensor.

``output`` gets the result and may be the tensor itself; without it the result is a new tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sparkring._horovod import operations, ops
from sparkring._horovod.context import group
from sparkring._horovod.pending import Pending
from sparkring._horovod.process_sets import ProcessSet
from sparkring.torch import _streams as streams
from sparkring.torch import _tensor_view as view

Factors = tuple[float, float]


def _host(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the CPU; one on a GPU is copied, after the work of the current stream."""
    return streams.fetch(tensor) if streams.is_here(tensor) else tensor


class _Argument:
    """A tensor as an argument of a reduction, and what turns the result into the caller's.

    The core multiplies floating-point elements alone, so integers are multiplied here. Adasum takes
    no bfloat16, so it gets float32.
    """

    __slots__ = ("_device", "_dtype", "_output", "_postscale", "factors", "out", "x")

    def __init__(
        self, tensor: torch.Tensor, output: torch.Tensor | None, op: ops.ReduceOp, factors: Factors
    ) -> None:
        shared = self.x = view.plain(_host(tensor)).detach()
        self._dtype, self._postscale, self._output = tensor.dtype, 1.0, output
        self.factors = factors
        if op is ops.Adasum and tensor.dtype is torch.bfloat16:
            self.x = self.x.float()
        if factors != (1.0, 1.0) and not tensor.dtype.is_floating_point:
            self.factors, self._postscale = (1.0, 1.0), factors[1]
            self.x = self._multiply(self.x, factors[0])
        self.out: torch.Tensor | None = None
        self._device = tensor.device
        if output is None or streams.is_here(output):
            return
        if output.is_contiguous() and self.x.dtype is output.dtype:
            self.out = self.x if output is tensor and self.x is shared else output.detach()

    def _multiply(self, tensor: torch.Tensor, factor: float) -> torch.Tensor:
        if factor == 1.0:
            return tensor
        if tensor.is_complex():
            return tensor * factor
        return (tensor.double() * factor).to(self._dtype)

    def finish(self, result: Any) -> torch.Tensor:
        """Return the result as the caller's tensor."""
        if self.out is not None and self._output is not None and self._postscale == 1.0:
            return self._output
        made = self._multiply(torch.as_tensor(result).to(self._dtype), self._postscale)
        made = made.to(self._device)
        if self._output is None:
            return made
        self._output.detach().copy_(made)
        return self._output


def allreduce(
    tensor: torch.Tensor,
    output: torch.Tensor | None,
    name: str | None,
    op: ops.ReduceOp,
    factors: Factors,
    process_set: ProcessSet,
) -> Pending:
    """Combine the tensors of all ranks."""
    unscaled = factors == (1.0, 1.0) and op is not ops.Adasum
    if output is tensor and unscaled and view.is_plain(tensor):
        return operations.allreduce(tensor, name, op, 1.0, 1.0, process_set, out=tensor)
    argument = _Argument(tensor, output, op, factors)
    work = operations.allreduce(argument.x, name, op, *argument.factors, process_set, argument.out)
    return work.then(argument.finish)


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor] | None,
    name: str | None,
    op: ops.ReduceOp,
    factors: Factors,
    process_set: ProcessSet,
) -> Pending:
    """Combine lists of tensors."""
    targets: Sequence[Any] = [None] * len(tensors) if outputs is None else outputs
    arguments = [_Argument(x, out, op, factors) for x, out in zip(tensors, targets)]
    whole = all(each.out is not None for each in arguments)
    work = operations.grouped_allreduce(
        [each.x for each in arguments],
        name,
        op,
        *(arguments[0].factors if arguments else factors),
        process_set,
        [each.out for each in arguments] if whole and arguments else None,
    )

    def finish(results: list[Any]) -> list[torch.Tensor]:
        if not whole:
            for each in arguments:
                each.out = None
        return [each.finish(result) for each, result in zip(arguments, results)]

    return work.then(finish)


def allgather(tensor: torch.Tensor, name: str | None, process_set: ProcessSet) -> Pending:
    """Concatenate tensors along the first dimension."""
    work = operations.allgather(view.plain(_host(tensor)).detach(), name, process_set)
    return work.then(lambda result: result.to(tensor.device)) if streams.is_here(tensor) else work


def reducescatter(
    tensor: torch.Tensor,
    name: str | None,
    op: ops.ReduceOp,
    factors: Factors,
    process_set: ProcessSet,
) -> Pending:
    """Combine the tensors and give each rank rows."""
    argument = _Argument(tensor, None, op, factors)
    work = operations.reducescatter(argument.x, name, op, *argument.factors, process_set)
    return work.then(argument.finish)


def alltoall(
    tensor: torch.Tensor, splits: Any, name: str | None, process_set: ProcessSet
) -> Pending:
    """Send rows to each rank; the result is the tensor and the received numbers of rows."""
    if isinstance(splits, torch.Tensor):
        if splits.dtype is not torch.int32:
            raise ValueError(f"splits are of type {splits.dtype}: pass torch.int32")
        splits = splits.tolist()
    work = operations.alltoall(view.plain(_host(tensor)).detach(), splits, name, process_set)
    return work.then(
        lambda result: (result.to(tensor.device), torch.tensor(work.rows, dtype=torch.int32))
    )


def broadcast(
    tensor: torch.Tensor,
    output: torch.Tensor | None,
    root_rank: int,
    name: str | None,
    process_set: ProcessSet,
) -> Pending:
    """Send the tensor of the root, a global rank."""
    argument = _Argument(tensor, output, ops.Sum, (1.0, 1.0))
    work = operations.broadcast(argument.x, root_rank, name, process_set, argument.out)
    return work.then(argument.finish)


def sparse_allreduce(
    tensor: torch.Tensor, name: str | None, op: ops.ReduceOp, process_set: ProcessSet
) -> Pending:
    """Gather the entries of sparse tensors of all ranks, and add them."""
    if op not in (ops.Average, ops.Sum):
        raise ValueError(f"op is {op!r}: sparse_allreduce_async takes Average and Sum")
    mine = tensor.detach().coalesce()
    named = group(process_set).name("sparse_allreduce", name)
    indices = allgather(mine.indices().t().contiguous(), f"{named}.indices", process_set)
    values = allgather(mine.values(), f"{named}.values", process_set)
    parts = process_set.size() if op is ops.Average else 1

    def finish(_: Any) -> torch.Tensor:
        places, entries = indices.wait().t(), values.wait()
        return torch.sparse_coo_tensor(places, entries / parts, tensor.shape).coalesce()

    return Pending([indices, values], finish)
