# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""The operations of Horovod's API on tensors.

A name with ``_async`` returns a handle for `poll` and `synchronize`; a name that ends in ``_``
changes the tensor itself. All operations raise `HorovodInternalError` when ranks fail or pass
different tensors under a name, and ValueError for arguments that are wrong on this rank. Any thread
may call them, in any order on each rank, as long as names agree; operations without a name are
numbered. Gradients pass through the operations that return a new tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sparkring._horovod import operations, ops
from sparkring._horovod.ops import ReduceOp
from sparkring._horovod.pending import Pending, register, synchronize
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring.torch._horovod import autograd, starts
from sparkring.torch._horovod.compression import Compression

Tensors = Sequence[torch.Tensor]


# ---- allreduce -----------------------------------------------------------------------------------


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start `allreduce`; the result of the handle is a new tensor."""
    factors = (prescale_factor, postscale_factor)
    chosen = ops.choose(op, average)
    return register(starts.allreduce(tensor, None, name, chosen, factors, process_set))


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: Any = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Combine the tensors of all ranks, element by element.

    Parameters
    ----------
    tensor : Tensor
        Of the CPU, with the same shape and type on all ranks.
    average : bool
        Older than ``op``: True for `Average`, False for `Sum`.
    name : str
        Not in flight already.
    compression : class
        Of `Compression`.
    op : ReduceOp
        `Average` by default. Averages of integers truncate towards zero.
    prescale_factor, postscale_factor : float
        Multiply elements before and after. Products of integers are made in float64 and truncate.
    process_set : ProcessSet
        The ranks; all by default.

    Returns
    -------
    Tensor
    """
    factors = (prescale_factor, postscale_factor)
    small, ctx = compression.compress(tensor)
    result = autograd.Allreduce.apply(small, name, ops.choose(op, average), factors, process_set)
    return compression.decompress(result, ctx)


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start `allreduce_`."""
    factors = (prescale_factor, postscale_factor)
    chosen = ops.choose(op, average)
    return register(starts.allreduce(tensor, tensor, name, chosen, factors, process_set))


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Combine the tensors of all ranks in place."""
    factors = (prescale_factor, postscale_factor)
    return synchronize(allreduce_async_(tensor, average, name, op, *factors, process_set))


def grouped_allreduce_async(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start `grouped_allreduce`."""
    factors = (prescale_factor, postscale_factor)
    chosen = ops.choose(op, average)
    return register(starts.grouped_allreduce(tensors, None, name, chosen, factors, process_set))


def grouped_allreduce(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    compression: Any = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Combine lists of tensors as one operation; arguments as for `allreduce`."""
    factors = (prescale_factor, postscale_factor)
    packed = [compression.compress(tensor) for tensor in tensors]
    results = autograd.GroupedAllreduce.apply(
        name, ops.choose(op, average), factors, process_set, *(small for small, _ in packed)
    )
    return [compression.decompress(each, ctx) for each, (_, ctx) in zip(results, packed)]


def grouped_allreduce_async_(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start `grouped_allreduce_`."""
    factors = (prescale_factor, postscale_factor)
    chosen = ops.choose(op, average)
    return register(starts.grouped_allreduce(tensors, tensors, name, chosen, factors, process_set))


def grouped_allreduce_(
    tensors: Tensors,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Combine lists of tensors in place."""
    factors = (prescale_factor, postscale_factor)
    return synchronize(  # type: ignore[no-any-return]
        grouped_allreduce_async_(tensors, average, name, op, *factors, process_set)
    )


class SparseHandle(int):
    """A handle that is a function, too: a call of it is `synchronize`."""

    def __call__(self) -> torch.Tensor:
        """Wait for the result."""
        return synchronize(self)


def sparse_allreduce_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: ReduceOp | None = None,
    process_set: ProcessSet = global_process_set,
) -> SparseHandle:
    """Start the sum or the average of sparse tensors; the result is a sparse tensor.

    As with Horovod, the handle is also a function that waits for the result.
    """
    return SparseHandle(
        register(starts.sparse_allreduce(tensor, name, ops.choose(op), process_set))
    )


# ---- allgather -----------------------------------------------------------------------------------


def allgather_async(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Start `allgather`."""
    return register(starts.allgather(tensor, name, process_set))


def allgather(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Concatenate the tensors of all ranks along the first dimension, which may differ."""
    return autograd.Allgather.apply(tensor, name, process_set)


def grouped_allgather_async(
    tensors: Tensors, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Start `grouped_allgather`."""
    works = [
        starts.allgather(tensor, part, process_set)
        for tensor, part in zip(tensors, _parts(name, tensors))
    ]
    return register(Pending(works))


def grouped_allgather(
    tensors: Tensors, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[torch.Tensor]:
    """Concatenate each of the tensors with those of all ranks."""
    if autograd.differentiable(tensors):
        parts = _parts(name, tensors)
        return [allgather(x, part, process_set) for x, part in zip(tensors, parts)]
    return synchronize(  # type: ignore[no-any-return]
        grouped_allgather_async(tensors, name, process_set)
    )


def _parts(name: str | None, tensors: Tensors) -> list[str | None]:
    """Name the parts of a group."""
    return [None if name is None else f"{name}.{i}" for i in range(len(tensors))]


# ---- broadcast -----------------------------------------------------------------------------------


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start `broadcast`."""
    return register(starts.broadcast(tensor, None, root_rank, name, process_set))


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Send the tensor of the root, a global rank, to all ranks. Shapes and types agree."""
    return autograd.Broadcast.apply(tensor, root_rank, name, process_set)


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start `broadcast_`."""
    return register(starts.broadcast(tensor, tensor, root_rank, name, process_set))


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Overwrite the tensor with that of the root."""
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


# ---- alltoall ------------------------------------------------------------------------------------


def alltoall_async(
    tensor: torch.Tensor,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start `alltoall`."""
    work = starts.alltoall(tensor, splits, name, process_set)
    return register(work if splits is not None else work.then(lambda results: results[0]))


def alltoall(
    tensor: torch.Tensor,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send rows to each rank.

    Parameters
    ----------
    tensor : Tensor
        Its first dimension may differ between ranks.
    splits : list of int, or Tensor of int32
        The rows for each rank; equal parts by default.
    name, process_set
        As for `allreduce`.

    Returns
    -------
    Tensor, or (Tensor, Tensor)
        The received rows in the order of ranks; with ``splits`` also their number from each rank.
    """
    result, received = autograd.Alltoall.apply(tensor, splits, name, process_set)
    return result if splits is None else (result, received)


# ---- reducescatter -------------------------------------------------------------------------------


def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: ReduceOp = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Start `reducescatter`."""
    factors = (prescale_factor, postscale_factor)
    return register(starts.reducescatter(tensor, name, op, factors, process_set))


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: Any = Compression.none,
    op: ReduceOp = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Combine the tensors and return rows; the first ``rows % size`` ranks get one row more."""
    factors = (prescale_factor, postscale_factor)
    small, ctx = compression.compress(tensor)
    result = autograd.Reducescatter.apply(small, name, op, factors, process_set)
    return compression.decompress(result, ctx)


def grouped_reducescatter_async(
    tensors: Tensors,
    name: str | None = None,
    op: ReduceOp = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Start `grouped_reducescatter`."""
    factors = (prescale_factor, postscale_factor)
    works = [
        starts.reducescatter(tensor, part, op, factors, process_set)
        for tensor, part in zip(tensors, _parts(name, tensors))
    ]
    return register(Pending(works))


def grouped_reducescatter(
    tensors: Tensors,
    name: str | None = None,
    compression: Any = Compression.none,
    op: ReduceOp = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """Combine each of the tensors and return rows of each."""
    given = (compression, op, process_set, prescale_factor, postscale_factor)
    if autograd.differentiable(tensors):
        parts = _parts(name, tensors)
        return [reducescatter(x, part, *given) for x, part in zip(tensors, parts)]
    packed = [compression.compress(tensor) for tensor in tensors]
    results = synchronize(
        grouped_reducescatter_async([small for small, _ in packed], name, *given[1:])
    )
    return [compression.decompress(each, ctx) for each, (_, ctx) in zip(results, packed)]


# ---- join ----------------------------------------------------------------------------------------


def join(device: int = -1) -> int:
    """Give zeros to the operations of other ranks until all ranks have joined.

    Returns
    -------
    int
        The rank that joined last. ``device`` is Horovod's, and ignored.
    """
    return operations.join()
