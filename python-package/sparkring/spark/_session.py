# SPDX-License-Identifier: Apache-2.0
"""Which Spark `run` works with, and what it asks of it.

A classic session has Spark's driver in this process (`classic`). One of Spark Connect has a server,
which runs plans, and tells little of its cluster (`connect`). The rest of `run` is the same.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol

from sparkring._core import InvalidError, UnsupportedError
from sparkring.spark._classic import Classic
from sparkring.spark._connect import Connect

if TYPE_CHECKING:
    from sparkring.spark._barrier_job import Stage
    from sparkring.spark._slot_check import Executor


class Spark(Protocol):
    """What `run` asks of a Spark."""

    @property
    def master(self) -> str:
        """The URL of its master."""

    @property
    def here(self) -> bool:
        """Whether tasks run in a process that this one has started, in its folder and log."""

    @property
    def parallelism(self) -> int:
        """How many tasks to make when nobody knows how many slots there are."""

    @property
    def age(self) -> float:
        """Seconds since its application has started."""

    def setting(self, name: str, default: str = "") -> str:
        """Tell what its configuration says."""

    def cores(self) -> int | None:
        """Count the cores of all executors, where it does not tell of each."""

    def slots(self, resources: Any) -> int:
        """Count the tasks that can run at once."""

    def executors(self) -> tuple[Executor, ...]:
        """List those who run tasks."""

    def register(self, resources: Any) -> Any:
        """Make a profile known to it; an error when it takes none."""

    def reach(self) -> tuple[str, str]:
        """Find where executors reach this process, and the address to listen on for that."""

    @property
    def stage(self) -> type[Stage]:
        """The kind of stage in which it runs ranks."""


def find(spark: Any) -> Spark:
    """Find the Spark: of the session that was given, or of the one that there is."""
    try:
        import pyspark
    except ImportError as error:
        raise UnsupportedError(
            "PySpark is not installed: pip install pyspark, or pass a negative num_proc for"
            " processes of this machine"
        ) from error
    given = active() if spark is None else spark
    if type(given).__module__.startswith("pyspark.sql.connect"):
        return Connect(given)
    context = getattr(given, "sparkContext", given)
    classic = getattr(pyspark, "SparkContext", None)  # a client of Connect alone has none
    if classic is not None and isinstance(context, classic):
        return Classic(context)
    if spark is None:
        raise InvalidError(
            "there is no Spark session: start one with SparkSession.builder.getOrCreate(), or pass"
            " a negative num_proc for processes of this machine"
        )
    raise InvalidError(f"spark is of type {type(spark).__name__}: pass a SparkSession")


def active() -> Any:
    """Find the session, or the context, that this process works with."""
    with contextlib.suppress(Exception):
        from pyspark.sql.utils import is_remote

        if is_remote():
            from pyspark.sql.connect.session import SparkSession

            return SparkSession.getActiveSession()
    with contextlib.suppress(ImportError):
        from pyspark import SparkContext

        return SparkContext._active_spark_context
    return None
