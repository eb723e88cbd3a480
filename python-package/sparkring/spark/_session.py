# SPDX-License-Identifier: Apache-2.0
"""The Spark of `run`, and the interface that `run` needs.

A classic session has Spark's driver in this process (`classic`). A session of Spark Connect has a
server, which runs plans and reports little of its cluster (`connect`). The rest of `run` is the
same.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol

from sparkring._core import InvalidError, UnsupportedError
from sparkring.spark._classic import Classic
from sparkring.spark._connect import Connect

if TYPE_CHECKING:
    from sparkring.spark._barrier_job import BarrierJob
    from sparkring.spark._slot_check import Executor


class Spark(Protocol):
    """The interface of a Spark for `run`."""

    @property
    def master(self) -> str:
        """The URL of the master."""

    @property
    def here(self) -> bool:
        """Whether tasks run in a child of this process, with its working directory and log."""

    @property
    def parallelism(self) -> int:
        """The number of tasks when the number of slots is unknown."""

    @property
    def age(self) -> float:
        """Seconds since the start of the application."""

    def setting(self, name: str, default: str = "") -> str:
        """Return a setting of the configuration."""

    def cores(self) -> int | None:
        """Count the cores of all executors, where the cores of each are unknown."""

    def slots(self, resources: Any) -> int:
        """Count the tasks that can run at once."""

    def executors(self) -> tuple[Executor, ...]:
        """List the executors that run tasks."""

    def register(self, resources: Any) -> Any:
        """Register a profile. Raise an error where profiles are not supported."""

    def pin(self, frame: Any) -> Any:
        """Fix the plan of a DataFrame, where possible."""

    def partitions(self, frame: Any) -> int:
        """Count the partitions of a DataFrame."""

    def reach(self) -> str:
        """Find the host where executors reach this process."""

    @property
    def job_type(self) -> type[BarrierJob]:
        """The class of the jobs that run the ranks."""


def find(spark: Any) -> Spark:
    """Find the Spark of the given session, or of the active session."""
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
    classic = getattr(pyspark, "SparkContext", None)  # absent in a client of Connect alone
    if classic is not None and isinstance(context, classic):
        return Classic(context)
    if spark is None:
        raise InvalidError(
            "there is no Spark session: start one with SparkSession.builder.getOrCreate(), or pass"
            " a negative num_proc for processes of this machine"
        )
    raise InvalidError(f"spark is of type {type(spark).__name__}: pass a SparkSession")


def active() -> Any:
    """Find the active session or context of this process."""
    with contextlib.suppress(Exception):
        from pyspark.sql.utils import is_remote

        if is_remote():
            from pyspark.sql.connect import session

            sessions: Any = session.SparkSession  # PySpark 3.5 knows no default
            # a session is active in the thread that made it, and the default in the others
            return sessions.getActiveSession() or sessions._get_default_session()
    with contextlib.suppress(ImportError):
        from pyspark import SparkContext

        return SparkContext._active_spark_context
    return None
