# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Tensors that move between ranks: allgather, broadcast, alltoall; in forms as of `allreduce`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sparkring._horovod.arguments import part_of
from sparkring._horovod.pending import Pending, register, synchronize
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring.torch._horovod import autograd, starts
from sparkring.torch._horovod.arguments import check_tensors

Tensors = Sequence[torch.Tensor]


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
    check_tensors(tensors)
    note = f"one of {len(tensors)} tensors"
    works = [
        starts.allgather(tensor, part_of(name, i), process_set, note)
        for i, tensor in enumerate(tensors)
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
        return [allgather(x, part_of(name, i), process_set) for i, x in enumerate(tensors)]
    return synchronize(  # type: ignore[no-any-return]
        grouped_allgather_async(tensors, name, process_set)
    )


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
