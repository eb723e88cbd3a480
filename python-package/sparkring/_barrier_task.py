# SPDX-License-Identifier: Apache-2.0
"""The PySpark barrier task that this process runs, if it runs one.

This file never imports PySpark: a process that runs a Spark task has imported it already. Both
``rdd.barrier().mapPartitions`` and ``mapInPandas(barrier=True)`` have the context.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from sparkring import _spark_encryption as spark_encryption
from sparkring._core import InvalidError, TimeoutError  # noqa: A004

if TYPE_CHECKING:
    from collections.abc import Callable


class BarrierTask(NamedTuple):
    """Spark's data about one task of a barrier stage."""

    rank: int
    addresses: list[str]
    attempt: int
    encrypts: bool  # read from the properties of the job; a job of RDDs has none
    exchange: Callable[[str], list[str]]


def find(timeout: float) -> BarrierTask | None:
    """Find the barrier task of this process.

    Parameters
    ----------
    timeout : float
        Seconds that the exchange of the task may wait for the other tasks.

    Returns
    -------
    BarrierTask or None
        None outside Spark tasks.

    Raises
    ------
    InvalidError
        In a Spark task that belongs to no barrier stage. Tasks of other stages need not run at the
        same time, and cannot find each other.
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
        encrypts=spark_encryption.asked(context.getLocalProperty),
        exchange=lambda text: _gather(context, text, timeout),
    )


def attempt() -> int | None:
    """Return the number of the task attempt that this process runs, or None outside Spark tasks."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import TaskContext  # type: ignore[import-not-found, unused-ignore]

    context = TaskContext.get()
    return None if context is None else int(context.taskAttemptId())


def _gather(context: Any, text: str, timeout: float) -> list[str]:
    """Call ``context.allGather`` with a deadline, and interruptibly.

    Spark itself waits for a year, and does not detect a task that has ended without the call. So a
    thread makes the call. A thread that still waits ends with the worker process, which Spark ends
    when the task fails. The executor's thread that serves the call continues to wait. When Spark
    ends the task, the whole executor ends (`sparkring.spark._exit_barrier` explains why). Tasks
    have no other way to find each other without a secret. So the docstring of `sparkring.init`
    explains when to call it.
    """
    texts: list[list[str]] = []
    failures: list[BaseException] = []

    def call() -> None:
        try:
            texts.append(context.allGather(text))
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=call, name="sparkring exchange", daemon=True)
    thread.start()
    deadline = time.monotonic() + timeout
    while thread.is_alive() and time.monotonic() < deadline:
        thread.join(0.1)
    if failures:
        raise failures[0]
    if not texts:
        raise TimeoutError(
            f"rank {context.partitionId()} waited {timeout:g} s for the other tasks of its barrier"
            f" stage: not all {len(context.getTaskInfos())} have called sparkring.init(). Usual"
            " causes: a task that ended or failed before, or one that is still busy"
        )
    return texts[0]
