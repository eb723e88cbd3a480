# SPDX-License-Identifier: Apache-2.0
"""The PySpark barrier task that this process runs, if it runs one.

Nothing here imports PySpark by itself: a process that runs a Spark task has done so already. The
context is there for ``rdd.barrier().mapPartitions`` as well as for ``mapInPandas(barrier=True)``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from sparkring._core import InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable


class BarrierTask(NamedTuple):
    """What Spark knows about one task of a barrier stage."""

    rank: int
    addresses: list[str]
    attempt: int
    exchange: Callable[[str], list[str]]


def find() -> BarrierTask | None:
    """Find the barrier task of this process.

    Returns
    -------
    BarrierTask or None
        None outside of Spark tasks.

    Raises
    ------
    InvalidError
        In a Spark task that belongs to no barrier stage: its tasks need not run at the same time,
        and cannot find each other.
    """
    if "pyspark" not in sys.modules:
        return None
    from pyspark import (  # type: ignore[import-not-found, unused-ignore]
        BarrierTaskContext,
        TaskContext,
    )

    context = TaskContext.get()
    if context is None:
        return None
    if not isinstance(context, BarrierTaskContext):
        raise InvalidError(
            "this Spark task is not a barrier task: use rdd.barrier().mapPartitions(f) or"
            " df.mapInPandas(f, schema, barrier=True), or pass rank, size and addresses"
        )
    return BarrierTask(
        rank=context.partitionId(),
        addresses=[info.address for info in context.getTaskInfos()],
        attempt=context.taskAttemptId(),
        exchange=context.allGather,
    )
