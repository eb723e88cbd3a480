# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls, allow-untyped-defs, disable-error-code="misc"
"""Gradients of the operations, which are operations themselves.

The gradients of ranks are averaged where each rank's loss counts alike, as Horovod does: allgather
and broadcast average them, and allreduce combines them with its own op.
"""

from __future__ import annotations

from typing import Any

import torch

from sparkring._horovod import ops
from sparkring._horovod.context import group
from sparkring._horovod.reduction import Reduction
from sparkring.torch._horovod import starts
from sparkring.torch._horovod.arguments import check_tensor, check_tensors


class Allreduce(torch.autograd.Function):
    """Combines tensors; the gradient is the allreduce of the gradients."""

    @staticmethod
    def forward(ctx, tensor, reduction):
        """Combine the tensors."""
        ctx.back = reduction._replace(name=None)
        return starts.allreduce(tensor, None, reduction).wait()

    @staticmethod
    def backward(ctx, gradient):
        """Combine the gradients."""
        return Allreduce.apply(gradient, ctx.back), None


class GroupedAllreduce(torch.autograd.Function):
    """Combines lists of tensors."""

    @staticmethod
    def forward(ctx, reduction, *tensors):
        """Combine the tensors."""
        ctx.back = reduction._replace(name=None)
        return tuple(starts.grouped_allreduce(tensors, None, reduction).wait())

    @staticmethod
    def backward(ctx, *gradients):
        """Combine the gradients."""
        return None, *GroupedAllreduce.apply(ctx.back, *gradients)


class Allgather(torch.autograd.Function):
    """Concatenates tensors; the gradient is this rank's part of the averaged gradient."""

    @staticmethod
    def forward(ctx, tensor, name, process_set):
        """Concatenate the tensors."""
        check_tensor(tensor)
        ctx.process_set, ctx.length = process_set, len(tensor)
        work = starts.allgather(tensor, name, process_set)
        result = work.wait()
        ctx.offset = sum((work.rows or [])[: process_set.rank()])
        return result

    @staticmethod
    def backward(ctx, gradient):
        """Average the gradients and cut out the rows of this rank."""
        mean = Allreduce.apply(gradient, Reduction(process_set=ctx.process_set))
        return mean.narrow(0, ctx.offset, ctx.length), None, None


class Broadcast(torch.autograd.Function):
    """Sends the tensor of the root, which has the averaged gradient; others have zeros."""

    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        """Send the tensor."""
        ctx.process_set = process_set
        ctx.is_root = group(process_set).index(root_rank) == process_set.rank()
        return starts.broadcast(tensor, None, root_rank, name, process_set).wait()

    @staticmethod
    def backward(ctx, gradient):
        """Average the gradients for the root."""
        mean = Allreduce.apply(gradient, Reduction(process_set=ctx.process_set))
        return mean if ctx.is_root else torch.zeros_like(mean), None, None, None


class Alltoall(torch.autograd.Function):
    """Sends rows to each rank; the gradients of the rows travel back."""

    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):
        """Send the rows."""
        result, received = starts.alltoall(tensor, splits, name, process_set).wait()
        ctx.process_set, ctx.received, ctx.rows = process_set, received, len(tensor)
        ctx.mark_non_differentiable(received)
        return result, received

    @staticmethod
    def backward(ctx, gradient, _):
        """Send the gradients of the received rows back."""
        mine, _received = Alltoall.apply(gradient, ctx.received, None, ctx.process_set)
        rest = ctx.rows - len(mine)  # rows that the splits left out
        if rest:
            mine = torch.cat([mine, mine.new_zeros(rest, *mine.shape[1:])])
        return mine, None, None, None


class Reducescatter(torch.autograd.Function):
    """Combines tensors and gives each rank rows; every rank gathers the gradients of all rows."""

    @staticmethod
    def forward(ctx, tensor, reduction):
        """Combine the tensors."""
        ctx.reduction = reduction
        return starts.reducescatter(tensor, reduction).wait()

    @staticmethod
    def backward(ctx, gradient):
        """Gather the gradients; those of a sum count once for each rank, as in allreduce."""
        how, members = ctx.reduction, ctx.reduction.process_set
        scale = how.prescale * how.postscale * (members.size() if how.op is ops.Sum else 1)
        rows = Allgather.apply(gradient * scale if scale != 1 else gradient, None, members)
        return rows, None


def differentiable(tensors: Any) -> bool:
    """Tell whether any of the tensors is part of a graph that is being recorded."""
    check_tensors(tensors)
    return torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
