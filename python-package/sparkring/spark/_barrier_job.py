# SPDX-License-Identifier: Apache-2.0
"""An attempt as a barrier stage of Spark: submit it, watch its start, and return its results.

Two subclasses submit the stage and read its state from Spark: `ClassicJob` and `ConnectJob`.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sparkring._core import AbortedError, TimeoutError, UnsupportedError  # noqa: A004
from sparkring.spark import _preflight as preflight
from sparkring.spark import _results as results
from sparkring.spark import _slot_check as slot_check
from sparkring.spark import _task_main as task_main
from sparkring.spark._rank_result import RankError, SparkError, advise, rank_error, to_raise

if TYPE_CHECKING:
    from sparkring.spark._log_server import LogServer
    from sparkring.spark._rank_result import RankResult
    from sparkring.spark._session import Spark

POLL = 0.2  # seconds between two checks of a stage that has not started
LONGEST = 2000  # characters of Spark's reason for a lost task
NOTICE = 20.0  # seconds until a message says that the stage has not started


class BarrierJob:
    """Runs each attempt as one barrier stage of Spark.

    Parameters
    ----------
    spark : sparkring.spark._session.Spark
        The Spark.
    num_proc : int
        The number of ranks.
    resources : pyspark.resource.ResourceProfile or None
        The resources of a task.
    timeout : float
        Seconds until all tasks must have started.
    show : callable
        Shows the user a line.
    log_server : sparkring.spark._log_server.LogServer or None
        The output of the ranks, as far as it has arrived.
    frame : pyspark.sql.DataFrame or None
        The rows of the ranks, one partition a rank.
    """

    kept: Any = None  # the rows that stay in Spark, after `run`

    def __init__(
        self,
        spark: Spark,
        num_proc: int,
        resources: Any,
        timeout: float,
        show: Callable[[str], None],
        log_server: LogServer | None,
        frame: Any = None,
    ) -> None:
        self.spark, self.num_proc, self.resources = spark, num_proc, resources
        self.timeout, self.show, self.log_server = timeout, show, log_server
        self.frame = frame

    # ---- Methods of the subclasses

    def collect(self, attempt: task_main.Attempt) -> list[RankResult]:
        """Run the ranks, and return their results."""
        raise NotImplementedError

    def named(self, name: str, what: str) -> contextlib.AbstractContextManager[None]:
        """Give the jobs of this thread inside the block a name and a description."""
        raise NotImplementedError

    def cancel(self, name: str) -> None:
        """Cancel the jobs with a name."""
        raise NotImplementedError

    def started(self, name: str) -> int | None:
        """Count the tasks that have started; None where Spark does not report it."""
        raise NotImplementedError

    def host_of(self, executor: str) -> str:
        """Find the host of an executor, which may have ended; empty where it is unknown."""
        return ""

    # ---- An attempt

    def run(self, attempt: task_main.Attempt) -> list[RankResult] | BaseException:
        """Run all ranks once. Return an error when Spark has lost a rank or ended the stage."""
        name = f"sparkring-{uuid.uuid4().hex}"
        number = f", attempt {attempt.number}" if attempt.number else ""
        what = f"sparkring: {self.num_proc} ranks{number}"
        with self.named(name, what), Watch(self, name) as watch:
            try:
                return self.collect(attempt)
            except Exception as error:
                spark_error = SparkError(error)
            except BaseException:
                with contextlib.suppress(Exception):
                    self.cancel(name)
                raise
        if watch.late:
            raise TimeoutError(watch.late) from spark_error
        return self.explain(spark_error, attempt)

    def explain(self, error: SparkError, attempt: task_main.Attempt) -> BaseException:
        """Read the failed rank from Spark's error. Raise the error if no rank has failed."""
        text = preflight.text_of(error.error)
        found = task_main.from_text(text)
        if found is not None:
            failure = to_raise(found, attempt.number)
            if isinstance(failure, RankError):  # without an exception of the function
                failure.__cause__ = error
            return failure
        missing = re.search(r"No module named '(sparkring(?:\.[\w.]+)?)'", text)
        if missing is not None:
            raise another_python(missing[1], here=attempt.here) from error
        cancelled = re.search(r"Job \d+ cancelled[^\n]*|\[OPERATION_CANCEL+ED\][^\n]*", text)
        if cancelled is not None:
            why = cancelled[0].strip().rstrip(".")[:LONGEST]
            raise AbortedError(f"Spark has ended the job of the ranks: {why}") from None
        limit = preflight.explain(text) or results.explain(text)
        if limit is not None:
            raise limit from error
        task = re.search(
            r"barrier task \w+\((\d+), (\d+)\) finished unsuccessfully\.(.*?)"
            r"(?=\s*(?:\n\s*at |\nDriver stacktrace|\Z))",
            text,
            re.DOTALL,
        )
        if task is None:
            raise error.error
        failed = re.search(r"RankFailed: rank \d+ ([^<]+) <", text)
        number, why = int(task[2]), task[3].strip()[:LONGEST] or "Spark gives no reason"
        lost = rank_error(
            f"{failed[1]}; Spark has cut the rest"
            if failed
            else f"was lost: {advise(why, here=attempt.here)}",
            rank=number,
            host=self.host(number, why),
            attempt=attempt.number,
            log=self.log_server.last_lines(number) if self.log_server else (),
        )
        lost.__cause__ = error
        return lost

    def host(self, number: int, why: str) -> str:
        """Find the host of a lost rank: of its executor, or of its connection."""
        executor = re.search(r"\(executor (\S+) exited", why)
        host = self.host_of(executor[1]) if executor else ""
        return host or (self.log_server.hosts.get(number, "") if self.log_server else "")


def another_python(missing: str, *, here: bool) -> UnsupportedError:
    """Make the error of tasks whose Python lacks a module of sparkring."""
    lacks = "no package sparkring"
    if missing != "sparkring":
        lacks = f"an old package sparkring, without {missing}"
    remedy = "install this version there, or send an environment that has it (spark.archives)"
    if here:
        remedy = (
            f"set PYSPARK_PYTHON={sys.executable} before the session starts, so that tasks run the"
            " Python of this program"
        )
    return UnsupportedError(f"the executors' Python has {lacks}: {remedy}")


class Watch:
    """Checks in a thread whether all tasks of a stage have started, inside a ``with`` block."""

    def __init__(self, job: BarrierJob, name: str) -> None:
        self.job, self.name = job, name
        self.late = ""  # why the stage was cancelled
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.work, name="sparkring watch", daemon=True)

    def __enter__(self) -> Watch:
        """Start the thread."""
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the thread: the stage has ended."""
        self.over.set()
        self.thread.join()

    def work(self) -> None:
        """Wait until all tasks have started. After the timeout, cancel the stage."""
        begin, noticed = time.monotonic(), False
        with contextlib.suppress(Exception):  # Spark has ended; the job will report it
            while not self.over.wait(POLL):
                started = self.job.started(self.name)
                if started is None or started >= self.job.num_proc:
                    return
                waited = time.monotonic() - begin
                if waited > NOTICE and not noticed:
                    noticed = True
                    self.job.show(f"{self.waiting(waited)}; still waiting")
                if waited > self.job.timeout:
                    self.late = self.waiting(waited) + "; the stage was cancelled"
                    self.job.cancel(self.name)
                    return

    def waiting(self, waited: float) -> str:
        """Describe the wait of the stage."""
        cluster = slot_check.read(self.job.spark, self.job.resources)
        return (
            f"the {self.job.num_proc} tasks of the ranks have not all started after"
            f" {waited:.0f} s: they need as many free slots at the same time, and"
            f" {cluster.master} has {cluster.slots} slots ({slot_check.arithmetic(cluster)}). Usual"
            " causes: other jobs of this application hold slots, or executors were lost"
        )
