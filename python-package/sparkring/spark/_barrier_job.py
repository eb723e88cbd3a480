# SPDX-License-Identifier: Apache-2.0
"""An attempt as a barrier stage of Spark: submit it, watch its start, and return how it ended.

Subclasses submit the stage and ask Spark for its state: `classic` and `connect` have one each.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sparkring._core import TimeoutError, UnsupportedError  # noqa: A004
from sparkring.spark import _preflight as preflight
from sparkring.spark import _results as results
from sparkring.spark import _slot_check as slot_check
from sparkring.spark import _task_main as task_main
from sparkring.spark._rank_result import RankError, SparkError, advise, rank_error, to_raise

if TYPE_CHECKING:
    from sparkring.spark._log_server import LogServer
    from sparkring.spark._rank_result import RankResult
    from sparkring.spark._session import Spark

LOOK = 0.2  # seconds between two looks at a stage that has not started
LONGEST = 2000  # characters of why Spark has lost a task
TELL = 20.0  # seconds until the user is told that it has not


class Stage:
    """Runs attempts in a Spark.

    Parameters
    ----------
    spark : sparkring.spark._session.Spark
        The Spark.
    num_proc : int
        How many ranks.
    resources : pyspark.resource.ResourceProfile or None
        What a task needs.
    timeout : float
        Seconds until all tasks must have started.
    say : callable
        Tells the user a line.
    log_server : sparkring.spark._log_server.LogServer or None
        What the ranks have printed, as far as it is known.
    """

    def __init__(
        self,
        spark: Spark,
        num_proc: int,
        resources: Any,
        timeout: float,
        say: Callable[[str], None],
        log_server: LogServer | None,
    ) -> None:
        self.spark, self.num_proc, self.resources = spark, num_proc, resources
        self.timeout, self.say, self.log_server = timeout, say, log_server

    # ---- What a subclass does

    def collect(self, job: task_main.Job) -> list[RankResult]:
        """Run the ranks, and get how they ended."""
        raise NotImplementedError

    def named(self, name: str, what: str) -> contextlib.AbstractContextManager[None]:
        """Give what this thread submits inside of a block a name, and a description."""
        raise NotImplementedError

    def cancel(self, name: str) -> None:
        """End what was submitted with a name."""
        raise NotImplementedError

    def started(self, name: str) -> int | None:
        """Count the tasks that have started; None where Spark does not tell."""
        raise NotImplementedError

    def host_of(self, executor: str) -> str:
        """Find the host of an executor, which may have ended; empty where Spark does not tell."""
        return ""

    # ---- An attempt

    def run(self, job: task_main.Job) -> list[RankResult] | BaseException:
        """Run all ranks once; an error when Spark has lost one, or had to end the stage."""
        name = f"sparkring-{uuid.uuid4().hex}"
        attempt = f", attempt {job.attempt}" if job.attempt else ""
        what = f"sparkring: {self.num_proc} ranks{attempt}"
        with self.named(name, what), Watch(self, name) as watch:
            try:
                return self.collect(job)
            except Exception as error:
                spark_error = SparkError(error)
            except BaseException:
                with contextlib.suppress(Exception):
                    self.cancel(name)
                raise
        if watch.late:
            raise TimeoutError(watch.late) from spark_error
        return self.explain(spark_error, job)

    def explain(self, error: SparkError, job: task_main.Job) -> BaseException:
        """Find out from Spark's error which rank has failed; raise it if none has."""
        text = preflight.text_of(error.error)
        found = task_main.from_text(text)
        if found is not None:
            failure = to_raise(found, job.attempt)
            if isinstance(failure, RankError):  # without an exception of the user
                failure.__cause__ = error
            return failure
        missing = re.search(r"No module named '(sparkring(?:\.[\w.]+)?)'", text)
        if missing is not None:
            what = "no package sparkring"
            if missing[1] != "sparkring":
                what = f"an old package sparkring, without {missing[1]}"
            raise UnsupportedError(
                f"the executors' Python has {what}: install this version there, or send an"
                " environment that has it (spark.archives)"
            ) from error
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
        number, why = int(task[2]), task[3].strip()[:LONGEST] or "Spark does not say why"
        lost = rank_error(
            f"{failed[1]}; Spark has cut the rest"
            if failed
            else f"was lost: {advise(why, here=job.here)}",
            rank=number,
            host=self.host(number, why),
            attempt=job.attempt,
            log=self.log_server.last_lines(number) if self.log_server else (),
        )
        lost.__cause__ = error
        return lost

    def host(self, number: int, why: str) -> str:
        """Find where a lost rank ran: the executor that Spark names, or where it came from."""
        executor = re.search(r"\(executor (\S+) exited", why)
        told = self.host_of(executor[1]) if executor else ""
        return told or (self.log_server.hosts.get(number, "") if self.log_server else "")


class Watch:
    """Looks whether all tasks of a stage have started, in a thread, inside a ``with`` block."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage, self.name = stage, name
        self.late = ""  # why the stage was given up
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.work, name="sparkring watch", daemon=True)

    def __enter__(self) -> Watch:
        """Begin."""
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End; the stage has."""
        self.over.set()
        self.thread.join()

    def work(self) -> None:
        """Wait until they have started; after too long, end the stage."""
        begin, told = time.monotonic(), False
        with contextlib.suppress(Exception):  # Spark has gone, which the job will tell
            while not self.over.wait(LOOK):
                started = self.stage.started(self.name)
                if started is None or started >= self.stage.num_proc:
                    return
                waited = time.monotonic() - begin
                if waited > TELL and not told:
                    told = True
                    self.stage.say(f"{self.waiting(waited)}; still waiting")
                if waited > self.stage.timeout:
                    self.late = self.waiting(waited) + "; the stage was cancelled"
                    self.stage.cancel(self.name)
                    return

    def waiting(self, waited: float) -> str:
        """Say what the stage waits for."""
        cluster = slot_check.read(self.stage.spark, self.stage.resources)
        return (
            f"the {self.stage.num_proc} tasks of the ranks have not all started after"
            f" {waited:.0f} s: they need as many free slots at the same time, and"
            f" {cluster.master} has {cluster.slots} slots ({slot_check.arithmetic(cluster)}). Usual"
            " causes: other jobs of this application hold slots, or executors were lost"
        )
