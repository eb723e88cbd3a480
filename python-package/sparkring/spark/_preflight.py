# SPDX-License-Identifier: Apache-2.0
"""Limits of barrier stages, and the change that each limit requires, which Spark does not name.

Spark checks a job when it is submitted, before a task has started, so ranks cannot report a limit.
`run` checks before it submits a job. `explained` is for barrier stages that users submit.

Speculation is no limit: Spark never starts a second copy of a barrier task.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from sparkring._core import InvalidError, RingError, UnsupportedError

DYNAMIC = (
    "spark.dynamicAllocation.enabled is true: Spark then runs no barrier stage, because it cannot"
    " know when all tasks have slots. Set it to false, and ask for a fixed number of executors"
    " (spark.executor.instances, or spark.cores.max on a standalone cluster)"
)
SLOTS = (
    "the barrier stage has more partitions than Spark has slots, and all its tasks must run at the"
    " same time: repartition(n) the data to as many as there are slots (executors x cores of each /"
    " spark.task.cpus), or start more or larger executors"
)
CHAIN = (
    "Spark runs a barrier stage only as a whole, on partitions that are made one to one from"
    " earlier partitions. So put repartition(n) between the function and union(), coalesce() or any"
    " other call that changes their number. Do not ask for some rows of the result, as show(),"
    " head(), take(), first() and limit() do: collect() the result, or write and read it"
)
ERRORS: tuple[tuple[str, type[RingError], str], ...] = (
    ("SPARK-24819", InvalidError, SLOTS),
    ("SPARK-24820", UnsupportedError, CHAIN),
    ("SPARK-24821", UnsupportedError, CHAIN),
    ("SPARK-24942", UnsupportedError, DYNAMIC),
)


def text_of(error: BaseException) -> str:
    """Return the message of Spark: through py4j, or through Spark Connect."""
    java: Any = getattr(error, "java_exception", None)
    return str(error if java is None else java.getMessage())


def explain(text: str) -> RingError | None:
    """Make the error with the required change; None for any other error of Spark."""
    for issue, kind, advice in ERRORS:
        if f"[{issue}]" in text:
            return kind(f"{advice} ({issue} of Spark)")
    return None


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Explain why Spark refuses a barrier stage that is submitted in this ``with`` block.

    Use it for stages that call `sparkring.init` in their function; `run` explains by itself. All
    other errors in the block are raised unchanged.

    Returns
    -------
    context manager

    Raises
    ------
    UnsupportedError
        When Spark runs no barrier stage: with dynamic allocation of executors, behind ``union()``
        or ``coalesce()``, and for ``show()`` and ``limit()``.
    InvalidError
        When the stage has more partitions than there are slots.

    Examples
    --------
    >>> with sparkring.spark.explained():
    ...     rows = frame.mapInPandas(f, "loss double", barrier=True).collect()
    """
    try:
        yield
    except Exception as error:
        limit = explain(text_of(error))
        if limit is None:
            raise
        raise limit from error
