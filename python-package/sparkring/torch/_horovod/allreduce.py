# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Allreduce of tensors, in the forms of Horovod's API.

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

from sparkring._horovod.ops import ReduceOp
from sparkring._horovod.pending import register, synchronize
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring._horovod.reduction import Reduction
from sparkring.torch._horovod import autograd, starts
from sparkring.torch._horovod.arguments import compress
from sparkring.torch._horovod.compression import Compression

Tensors = Sequence[torch.Tensor]


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
    how = Reduction.asked(name, op, average, prescale_factor, postscale_factor, process_set)
    return register(starts.allreduce(tensor, None, how))


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
    how = Reduction.asked(name, op, average, prescale_factor, postscale_factor, process_set)
    [(small, ctx)] = compress(compression, [tensor])
    return compression.decompress(autograd.Allreduce.apply(small, how), ctx)


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
    how = Reduction.asked(name, op, average, prescale_factor, postscale_factor, process_set)
    return register(starts.allreduce(tensor, tensor, how))


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
    how = Reduction.asked(name, op, average, prescale_factor, postscale_factor, process_set)
    return register(starts.grouped_allreduce(tensors, None, how))


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
    how = Reduction.asked(name, op, average, prescale_factor, postscale_factor, process_set)
    packed = compress(compression, tensors)
    results = autograd.GroupedAllreduce.apply(how, *(small for small, _ in packed))
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
    how = Reduction.asked(name, op, average, prescale_factor, postscale_factor, process_set)
    return register(starts.grouped_allreduce(tensors, tensors, how))


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
    how = Reduction.asked(name, op, None, 1.0, 1.0, process_set)
    return SparseHandle(register(starts.sparse_allreduce(tensor, how)))
