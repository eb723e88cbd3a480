# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls, allow-untyped-defs
"""A communication hook, by which DistributedDataParallel averages gradients over the reducer.

The process group of the model then only carries what DistributedDataParallel sends at its start.
"""

from __future__ import annotations

import functools

from sparkring._horovod import ranks
from sparkring._horovod.process_sets import global_process_set
from sparkring._horovod.reduction import Reduction
from sparkring.torch._completions import Completions
from sparkring.torch._horovod import starts
from sparkring.torch._work import Work


@functools.lru_cache(maxsize=1)
def _completions() -> Completions:
    return Completions(f"rank {ranks.rank()} of {ranks.size()}")


def allreduce_hook(process_set, bucket):  # PyTorch reads annotations, and takes only its own
    """Average a bucket of gradients over the ranks of a process set.

    Buckets travel while the backward pass goes on, and errors of ranks are raised by
    ``backward()``.

    Parameters
    ----------
    process_set : ProcessSet or None
        The ranks that take part; all for None.
    bucket : torch.distributed.GradBucket
        The gradients, which the average replaces in place.

    Returns
    -------
    torch.futures.Future
        Its value is the averaged buffer, a Tensor.

    Examples
    --------
    >>> model.register_comm_hook(hvd.global_process_set, hvd.allreduce_hook)
    """
    members = process_set or global_process_set
    buffer = bucket.buffer()
    reduction = Reduction(f"bucket.{bucket.index()}", process_set=members)
    work = starts.allreduce(buffer, buffer, reduction)
    future = Work(_completions(), [buffer], work).get_future()
    return future.then(lambda done: done.value()[0])
