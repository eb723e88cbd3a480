# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Reducescatter of tensors, in forms as of `allreduce`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sparkring._horovod.arguments import part_of
from sparkring._horovod.ops import Average, ReduceOp
from sparkring._horovod.pending import Pending, register, synchronize
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring._horovod.reduction import Reduction
from sparkring.torch._horovod import autograd, starts
from sparkring.torch._horovod.arguments import check_tensors, compress
from sparkring.torch._horovod.compression import Compression

Tensors = Sequence[torch.Tensor]


def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: ReduceOp = Average,
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
    how = Reduction.asked(name, op, None, prescale_factor, postscale_factor, process_set)
    return register(starts.reducescatter(tensor, how))


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: Any = Compression.none,
    op: ReduceOp = Average,
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
    how = Reduction.asked(name, op, None, prescale_factor, postscale_factor, process_set)
    [(small, ctx)] = compress(compression, [tensor])
    return compression.decompress(autograd.Reducescatter.apply(small, how), ctx)


def grouped_reducescatter_async(
    tensors: Tensors,
    name: str | None = None,
    op: ReduceOp = Average,
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
    how = Reduction.asked(name, op, None, prescale_factor, postscale_factor, process_set)
    check_tensors(tensors)
    one = how._replace(note=f"one of {len(tensors)} tensors")
    works = [
        starts.reducescatter(tensor, one._replace(name=part_of(name, i)))
        for i, tensor in enumerate(tensors)
    ]
    return register(Pending(works))


def grouped_reducescatter(
    tensors: Tensors,
    name: str | None = None,
    compression: Any = Compression.none,
    op: ReduceOp = Average,
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
        return [reducescatter(x, part_of(name, i), *given) for i, x in enumerate(tensors)]
    packed = compress(compression, tensors)
    results = synchronize(
        grouped_reducescatter_async([small for small, _ in packed], name, *given[1:])
    )
    return [compression.decompress(each, ctx) for each, (_, ctx) in zip(results, packed)]
