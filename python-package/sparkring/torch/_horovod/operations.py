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
from sparkring.torch._horovod.arguments import check_tensors, compress
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
    """Start `allreduce`; the result of the handle is a new tensor.

    Parameters
    ----------
    tensor, average, name, op, prescale_factor, postscale_factor, process_set
        As for `allreduce`. The tensor must not be changed until the operation is complete.

    Returns
    -------
    int
        A handle for `poll` and `synchronize`.

    Examples
    --------
    >>> handle = hvd.allreduce_async(gradient, name="gradient")
    >>> average = hvd.synchronize(handle)
    """
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
    [(small, ctx)] = compress(compression, [tensor])
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
    """Start `allreduce_`.

    Parameters
    ----------
    tensor, average, name, op, prescale_factor, postscale_factor, process_set
        As for `allreduce`. The result replaces the tensor, which must not be used until then.

    Returns
    -------
    int
        A handle for `poll` and `synchronize`.
    """
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
    """Combine the tensors of all ranks in place.

    Parameters
    ----------
    tensor, average, name, op, prescale_factor, postscale_factor, process_set
        As for `allreduce`. The result replaces the tensor.

    Returns
    -------
    Tensor
        ``tensor`` itself.
    """
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
    """Start `grouped_allreduce`.

    Parameters
    ----------
    tensors : list of Tensor
        As many on all ranks, of any types; not to be changed until the operation is complete.
    average, name, op, prescale_factor, postscale_factor, process_set
        As for `allreduce`.

    Returns
    -------
    int
        A handle for `poll` and `synchronize`.
    """
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
    """Combine lists of tensors as one operation: all of them or none.

    Parameters
    ----------
    tensors : list of Tensor
        As many on all ranks, of any types; those of one type travel together.
    average, name, compression, op, prescale_factor, postscale_factor, process_set
        As for `allreduce`.

    Returns
    -------
    list of Tensor
        New tensors, in the order of ``tensors``.

    Raises
    ------
    HorovodInternalError
        When ranks fail, or pass different tensors under the name.
    ValueError
        For arguments that are wrong on this rank.
    """
    factors = (prescale_factor, postscale_factor)
    packed = compress(compression, tensors)
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
    """Start `grouped_allreduce_`.

    Parameters
    ----------
    tensors : list of Tensor
        As many on all ranks, of any types; the results replace them, and they must not be used
        until then.
    average, name, op, prescale_factor, postscale_factor, process_set
        As for `allreduce`.

    Returns
    -------
    int
        A handle for `poll` and `synchronize`.
    """
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
    """Combine lists of tensors in place.

    Parameters
    ----------
    tensors : list of Tensor
        As many on all ranks, of any types; the results replace them.
    average, name, op, prescale_factor, postscale_factor, process_set
        As for `allreduce`.

    Returns
    -------
    list of Tensor
        ``tensors`` themselves.
    """
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

    Parameters
    ----------
    tensor : sparse Tensor
        Of layout COO, with the same shape on all ranks.
    name, process_set
        As for `allreduce`.
    op : ReduceOp
        `Average` (the default) or `Sum`.

    Returns
    -------
    SparseHandle
        A handle for `poll` and `synchronize`. A call of it is `synchronize`.

    Examples
    --------
    >>> handle = hvd.sparse_allreduce_async(embedding.weight.grad, "embedding", hvd.Sum)
    >>> gradient = handle()
    """
    return SparseHandle(
        register(starts.sparse_allreduce(tensor, name, ops.choose(op), process_set))
    )


# ---- allgather -----------------------------------------------------------------------------------


def allgather_async(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Start `allgather`.

    Parameters
    ----------
    tensor : Tensor
        As for `allgather`.
    name, process_set
        As for `allreduce`.

    Returns
    -------
    int
        A handle for `poll` and `synchronize`.
    """
    return register(starts.allgather(tensor, name, process_set))


def allgather(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Concatenate the tensors of all ranks along the first dimension, which may differ.

    Parameters
    ----------
    tensor : Tensor
        With the same type, and the same shape but for the first dimension, on all ranks.
    name, process_set
        As for `allreduce`.

    Returns
    -------
    Tensor
        The rows of all ranks, in the order of ranks.

    Raises
    ------
    HorovodInternalError
        When ranks fail, or pass different tensors under the name.
    ValueError
        For arguments that are wrong on this rank.
    """
    return autograd.Allgather.apply(tensor, name, process_set)


def grouped_allgather_async(
    tensors: Tensors, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Start `grouped_allgather`.

    Parameters
    ----------
    tensors : list of Tensor
        As many on all ranks.
    name, process_set
        As for `allreduce`.

    Returns
    -------
    int
        A handle for `poll` and `synchronize`.
    """
    works = [
        starts.allgather(tensor, part, process_set, f"one of {len(tensors)} tensors")
        for tensor, part in zip(tensors, _parts(name, tensors))
    ]
    return register(Pending(works))


def grouped_allgather(
    tensors: Tensors, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[torch.Tensor]:
    """Concatenate each of the tensors with those of all ranks.

    Parameters
    ----------
    tensors : list of Tensor
        As many on all ranks; each as for `allgather`.
    name, process_set
        As for `allreduce`.

    Returns
    -------
    list of Tensor
    """
    if autograd.differentiable(tensors):
        parts = _parts(name, tensors)
        return [allgather(x, part, process_set) for x, part in zip(tensors, parts)]
    return synchronize(  # type: ignore[no-any-return]
        grouped_allgather_async(tensors, name, process_set)
    )


def _parts(name: str | None, tensors: Tensors) -> list[str | None]:
    """Name the parts of a group."""
    check_tensors(tensors)
    return [None if name is None else f"{name}.{i}" for i in range(len(tensors))]


# ---- broadcast -----------------------------------------------------------------------------------


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start `broadcast`.

    Parameters
    ----------
    tensor : Tensor
        As for `broadcast`.
    root_rank : int
        The global rank that sends.
    name, process_set
        As for `allreduce`.

    Returns
    -------
    int
        A handle for `poll` and `synchronize`.
    """
    return register(starts.broadcast(tensor, None, root_rank, name, process_set))


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Send the tensor of the root, a global rank, to all ranks. Shapes and types agree.

    Parameters
    ----------
    tensor : Tensor
        With the same shape and type on all ranks; only the values of the root count.
    root_rank : int
        The global rank that sends.
    name, process_set
        As for `allreduce`.

    Returns
    -------
    Tensor
        A new tensor.

    Raises
    ------
    HorovodInternalError
        When ranks fail, or pass different tensors under the name.
    ValueError
        For arguments that are wrong on this rank.
    """
    return autograd.Broadcast.apply(tensor, root_rank, name, process_set)


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start `broadcast_`.

    Parameters
    ----------
    tensor : Tensor
        Is overwritten, and must not be used until the operation is complete.
    root_rank : int
        The global rank that sends.
    name, process_set
        As for `allreduce`.

    Returns
    -------
    int
        A handle for `poll` and `synchronize`.
    """
    return register(starts.broadcast(tensor, tensor, root_rank, name, process_set))


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Overwrite the tensor with that of the root.

    Parameters
    ----------
    tensor : Tensor
        Is overwritten, except on the root.
    root_rank : int
        The global rank that sends.
    name, process_set
        As for `allreduce`.

    Returns
    -------
    Tensor
        ``tensor`` itself.
    """
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


# ---- alltoall ------------------------------------------------------------------------------------


def alltoall_async(
    tensor: torch.Tensor,
    splits: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start `alltoall`.

    Parameters
    ----------
    tensor, splits, name, process_set
        As for `alltoall`.

    Returns
    -------
    int
        A handle for `poll` and `synchronize`.
    """
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
    """Start `reducescatter`.

    Parameters
    ----------
    tensor, name, op, process_set, prescale_factor, postscale_factor
        As for `reducescatter`.

    Returns
    -------
    int
        A handle for `poll` and `synchronize`.
    """
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
    """Combine the tensors and return rows; the first ``rows % size`` ranks get one row more.

    Parameters
    ----------
    tensor : Tensor
        Of one dimension or more, with the same shape and type on all ranks.
    op : ReduceOp
        `Average` (the default) or `Sum`.
    name, compression, process_set, prescale_factor, postscale_factor
        As for `allreduce`.

    Returns
    -------
    Tensor of shape (own rows, ...)
        The rows of this rank.

    Raises
    ------
    HorovodInternalError
        When ranks fail, or pass different tensors under the name.
    ValueError
        For arguments that are wrong on this rank.
    """
    factors = (prescale_factor, postscale_factor)
    [(small, ctx)] = compress(compression, [tensor])
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
    """Start `grouped_reducescatter`.

    Parameters
    ----------
    tensors, name, op, process_set, prescale_factor, postscale_factor
        As for `grouped_reducescatter`.

    Returns
    -------
    int
        A handle for `poll` and `synchronize`.
    """
    factors = (prescale_factor, postscale_factor)
    works = [
        starts.reducescatter(
            tensor, part, op, factors, process_set, f"one of {len(tensors)} tensors"
        )
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
    """Combine each of the tensors and return rows of each.

    Parameters
    ----------
    tensors : list of Tensor
        As many on all ranks; each as for `reducescatter`.
    op : ReduceOp
        `Average` (the default) or `Sum`.
    name, compression, process_set, prescale_factor, postscale_factor
        As for `allreduce`.

    Returns
    -------
    list of Tensor
        The rows of this rank of each.
    """
    given = (compression, op, process_set, prescale_factor, postscale_factor)
    if autograd.differentiable(tensors):
        parts = _parts(name, tensors)
        return [reducescatter(x, part, *given) for x, part in zip(tensors, parts)]
    packed = compress(compression, tensors)
    results = synchronize(
        grouped_reducescatter_async([small for small, _ in packed], name, *given[1:])
    )
    return [compression.decompress(each, ctx) for each, (_, ctx) in zip(results, packed)]


# ---- join ----------------------------------------------------------------------------------------


def join(device: int = -1) -> int:
    """Give zeros to the operations of other ranks until all ranks have joined.

    Parameters
    ----------
    device : int
        Ignored; Horovod has it.

    Returns
    -------
    int
        The rank that joined last.
    """
    return operations.join()
