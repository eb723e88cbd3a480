# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Submissions of tensors: each function returns a `Pending` whose result is a tensor.

``output`` gets the result and may be the tensor itself; without it the result is a new tensor.
Allreduces and broadcasts of tensors on GPUs go to the reducer as they are; what its device lacks is
copied to the host and back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from sparkring._horovod import operations, ops
from sparkring._horovod.arguments import join_texts
from sparkring._horovod.pending import Pending
from sparkring._horovod.process_sets import ProcessSet
from sparkring._horovod.reduction import Reduction
from sparkring.torch import _streams as streams
from sparkring.torch import _tensor_view as view
from sparkring.torch._horovod.arguments import check_tensor, check_tensors


def _host(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the CPU; one on a GPU is copied, after the work of the current stream."""
    check_tensor(tensor)
    return streams.fetch(tensor) if streams.is_here(tensor) else tensor


class _Argument:
    """A tensor as an argument of a reduction, and what turns the result into the caller's.

    Adasum takes no bfloat16, so it gets float32.
    """

    __slots__ = ("_device", "_dtype", "_output", "out", "x")

    def __init__(self, tensor: torch.Tensor, output: torch.Tensor | None, op: ops.ReduceOp) -> None:
        shared = self.x = view.plain(_host(tensor)).detach()
        self._dtype, self._output = tensor.dtype, output
        if op is ops.Adasum and tensor.dtype is torch.bfloat16:
            self.x = self.x.float()
        self.out: torch.Tensor | None = None
        self._device = tensor.device
        if output is None or streams.is_here(output):
            return
        if output.is_contiguous() and self.x.dtype is output.dtype:
            self.out = self.x if output is tensor and self.x is shared else output.detach()

    def finish(self, result: Any) -> torch.Tensor:
        """Return the result as the caller's tensor."""
        if self.out is not None and self._output is not None:
            return self._output
        made = torch.as_tensor(result).to(self._dtype).to(self._device)
        if self._output is None:
            return made
        self._output.detach().copy_(made)
        return self._output


class _DeviceArgument:
    """The same of a tensor on a GPU, for the device of the reducer."""

    __slots__ = ("_output", "_target", "out", "x")

    def __init__(self, tensor: torch.Tensor, output: torch.Tensor | None) -> None:
        own = tensor.detach().resolve_conj().resolve_neg().contiguous()
        fits = output is not None and output.is_contiguous() and output.dtype is own.dtype
        self._output = output
        self._target = output.detach() if fits and output is not None else torch.empty_like(own)
        self.x, self.out = streams.span(own), streams.span(self._target)

    def finish(self, _: Any) -> torch.Tensor:
        """Return the result, which the GPU has written, as the caller's tensor."""
        if self._output is None:
            return self._target
        if self._output.data_ptr() != self._target.data_ptr():
            self._output.detach().copy_(self._target)
        return self._output


def _suits_device(tensor: torch.Tensor, reduction: Reduction) -> bool:
    """Return whether the device of the reducer carries out an operation on a tensor on a GPU."""
    check_tensor(tensor)
    if not streams.is_here(tensor) or tensor.is_sparse or reduction.op is ops.Adasum:
        return False
    return _is_plain(reduction) or tensor.dtype.is_floating_point


def _is_plain(reduction: Reduction) -> bool:
    return (reduction.prescale, reduction.postscale) == (1.0, 1.0)


def allreduce(tensor: torch.Tensor, output: torch.Tensor | None, reduction: Reduction) -> Pending:
    """Combine the tensors of all ranks."""
    unscaled = _is_plain(reduction) and reduction.op is not ops.Adasum
    suits = _suits_device(tensor, reduction)
    if output is tensor and unscaled and view.is_plain(tensor) and not suits:
        return operations.allreduce(tensor, reduction, tensor)
    op = reduction.op
    argument = _DeviceArgument(tensor, output) if suits else _Argument(tensor, output, op)
    return operations.allreduce(argument.x, reduction, argument.out).then(argument.finish)


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor] | None,
    reduction: Reduction,
) -> Pending:
    """Combine lists of tensors."""
    check_tensors(tensors)
    targets: Sequence[Any] = [None] * len(tensors) if outputs is None else outputs
    suits = all(_suits_device(x, reduction) for x in tensors)
    arguments: list[Any] = [
        _DeviceArgument(x, out) if suits else _Argument(x, out, reduction.op)
        for x, out in zip(tensors, targets)
    ]
    whole = all(each.out is not None for each in arguments)
    outs = [each.out for each in arguments] if whole and arguments else None
    work = operations.grouped_allreduce([each.x for each in arguments], reduction, outs)

    def finish(results: list[Any]) -> list[torch.Tensor]:
        if not whole:
            for each in arguments:
                each.out = None
        return [each.finish(result) for each, result in zip(arguments, results)]

    return work.then(finish)


def allgather(
    tensor: torch.Tensor, name: str | None, process_set: ProcessSet, note: str | None = None
) -> Pending:
    """Concatenate tensors along the first dimension."""
    mine = view.plain(_host(tensor)).detach()
    work = operations.allgather(mine, name, process_set, note=note)
    return work.then(lambda result: result.to(tensor.device)) if streams.is_here(tensor) else work


def reducescatter(tensor: torch.Tensor, reduction: Reduction) -> Pending:
    """Combine the tensors and give each rank rows."""
    argument = _Argument(tensor, None, reduction.op)
    return operations.reducescatter(argument.x, reduction).then(argument.finish)


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
    suits = _suits_device(tensor, Reduction(op=ops.Sum))
    argument = _DeviceArgument(tensor, output) if suits else _Argument(tensor, output, ops.Sum)
    work = operations.broadcast(argument.x, root_rank, name, process_set, argument.out)
    return work.then(argument.finish)


def sparse_allreduce(tensor: torch.Tensor, reduction: Reduction) -> Pending:
    """Gather the entries of sparse tensors of all ranks, and add them."""
    check_tensor(tensor)
    op = reduction.op
    if op not in (ops.Average, ops.Sum):
        raise ValueError(f"op is {op!r}: sparse_allreduce_async takes Average and Sum")
    mine = tensor.detach().coalesce()
    what = f"sparse {str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}, {op}"
    noted = reduction._replace(note=join_texts(what, reduction.note))
    gathered = operations.gather_entries(_pack(mine), noted)

    def finish(rows: torch.Tensor) -> torch.Tensor:
        total = _unpack(rows, mine).to(tensor.device)
        return _divide(total, reduction.process_set.size()) if op is ops.Average else total

    return gathered.then(finish)


def _pack(sparse: torch.Tensor) -> torch.Tensor:
    """Return a row of bytes for each entry: its places, then its values."""
    values = _host(sparse.values())
    entries = values.reshape(len(values), math.prod(values.shape[1:]))
    return torch.cat([_bytes(_host(sparse.indices()).t()), _bytes(entries)], 1)


def _bytes(matrix: torch.Tensor) -> torch.Tensor:
    return matrix.clone(memory_format=torch.contiguous_format).view(torch.uint8)


def _unpack(rows: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return the sum of the entries in rows, as a sparse tensor."""
    parts = rows.tensor_split([8 * like.sparse_dim()], 1)
    places, entries = (each.clone(memory_format=torch.contiguous_format) for each in parts)
    values = entries.view(like.dtype).reshape(len(rows), *like.values().shape[1:])
    return torch.sparse_coo_tensor(
        places.view(torch.int64).t(), values, like.shape, check_invariants=True
    ).coalesce()


def _divide(sparse: torch.Tensor, parts: int) -> torch.Tensor:
    """Divide, with integers as a dense average does: towards zero."""
    real = sparse.dtype.is_floating_point or sparse.dtype.is_complex
    values = torch.div(sparse.values(), parts, rounding_mode=None if real else "trunc")
    return torch.sparse_coo_tensor(
        sparse.indices(), values, sparse.shape, check_invariants=False
    ).coalesce()
