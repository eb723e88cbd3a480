# SPDX-License-Identifier: Apache-2.0
"""An attempt as a barrier stage of Spark: submit it, watch it start, and tell how it ended."""

from __future__ import annotations

import contextlib
import functools
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sparkring._core import InvalidError, TimeoutError, UnsupportedError  # noqa: A004
from sparkring.spark import rank, slots
from sparkring.spark.outcome import Outcome, rank_error

if TYPE_CHECKING:
    from sparkring.spark.outcome import RankError

PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
LOOK = 0.2  # seconds between two looks at a stage that has not started
TELL = 20.0  # seconds until the user is told that it has not


def context_of(spark: Any) -> Any:
    """Find the SparkContext: of the session that was given, or of the one that there is."""
    try:
        from pyspark import SparkContext
    except ImportError as error:
        raise UnsupportedError(
            "PySpark is not installed: pip install pyspark, or pass a negative num_proc for"
            " processes of this machine"
        ) from error
    if spark is None:
        spark = SparkContext._active_spark_context or connected()
    if isinstance(spark, SparkContext):
        return spark
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise UnsupportedError(
            "spark is a session of Spark Connect, which has no jobs of functions: use a classic"
            " session, or call sparkring.init() in a function for"
            " DataFrame.mapInPandas(f, schema, barrier=True)"
        )
    try:
        return spark.sparkContext
    except AttributeError:
        pass
    if spark is None:
        raise InvalidError(
            "there is no Spark session: start one with SparkSession.builder.getOrCreate(), or pass"
            " a negative num_proc for processes of this machine"
        )
    raise InvalidError(f"spark is of type {type(spark).__name__}: pass a SparkSession")


def connected() -> Any:
    """Find a session of Spark Connect, for which there is no context."""
    with contextlib.suppress(Exception):
        from pyspark.sql import SparkSession

        return SparkSession.getActiveSession()
    return None


class Stage:
    """Runs attempts in a Spark.

    Parameters
    ----------
    context : pyspark.SparkContext
        The Spark.
    num_proc : int
        How many ranks.
    resources : pyspark.resource.ResourceProfile or None
        What a task needs.
    timeout : float
        Seconds until all tasks must have started.
    say : callable
        Tells the user a line.
    last_lines : callable
        Gives the last lines of a rank that was lost, as far as they are known.
    """

    def __init__(
        self,
        context: Any,
        num_proc: int,
        resources: Any,
        timeout: float,
        say: Callable[[str], None],
        last_lines: Callable[[int], list[str]],
    ) -> None:
        self.context, self.num_proc, self.resources = context, num_proc, resources
        self.timeout, self.say, self.last_lines = timeout, say, last_lines

    def run(self, job: rank.Job) -> list[Outcome] | RankError:
        """Run all ranks once; an error when Spark has lost one, or had to end the stage."""
        # Spark's own range() would be read by PySpark, and a task must not read its partition.
        rdd = self.context.parallelize(list(range(self.num_proc)), self.num_proc)
        if self.resources is not None:
            rdd = rdd.withResources(self.resources)
        stage = rdd.barrier().mapPartitions(functools.partial(rank.task, job))
        with self.group(job.attempt) as group, Watch(self, group) as watch:
            try:
                return list(stage.collect())
            except Exception as error:
                if watch.late:
                    raise TimeoutError(watch.late) from error
                return self.explain(error, job.attempt)

    @contextlib.contextmanager
    def group(self, attempt: int) -> Iterator[str]:
        """Run jobs in a group of their own, which ends with this block."""
        name = f"sparkring-{uuid.uuid4().hex}"
        before = [self.context.getLocalProperty(key) for key in PROPERTIES]
        what = f"sparkring: {self.num_proc} ranks" + (f", attempt {attempt}" if attempt else "")
        self.context.setJobGroup(name, what, interruptOnCancel=True)
        try:
            yield name
        except BaseException:
            with contextlib.suppress(Exception):
                self.context.cancelJobGroup(name)
            raise
        finally:
            with contextlib.suppress(Exception):
                for key, value in zip(PROPERTIES, before):
                    self.context.setLocalProperty(key, value)

    def explain(self, error: Exception, attempt: int) -> list[Outcome] | RankError:
        """Find out from Spark's error which rank has failed; raise it if none has."""
        java = getattr(error, "java_exception", None)
        text = str(java.getMessage() if java is not None else error)
        outcome = rank.from_text(text)
        if outcome is not None:
            return [outcome]
        missing = re.search(r"No module named '(sparkring(?:\.[\w.]+)?)'", text)
        if missing is not None:
            what = "no package sparkring"
            if missing[1] != "sparkring":
                what = f"an old package sparkring, without {missing[1]}"
            raise UnsupportedError(
                f"the executors' Python has {what}: install this version there, or send an"
                " environment that has it (spark.archives)"
            ) from error
        task = re.search(r"barrier task \w+\((\d+), (\d+)\) finished unsuccessfully\.\s*(.*)", text)
        if task is None:
            raise error
        lost = rank_error(
            f"was lost: {task[3].strip() or 'Spark does not say why'}",
            rank=int(task[2]),
            attempt=attempt,
            log=self.last_lines(int(task[2])),
        )
        lost.__cause__ = error
        return lost


class Watch:
    """Looks whether all tasks of a stage have started, in a thread, inside a ``with`` block."""

    def __init__(self, stage: Stage, group: str) -> None:
        self.stage, self.group = stage, group
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
            while not self.over.wait(LOOK) and self.started() < self.stage.num_proc:
                waited = time.monotonic() - begin
                if waited > TELL and not told:
                    told = True
                    self.stage.say(f"{self.waiting(waited)}; still waiting")
                if waited > self.stage.timeout:
                    self.late = self.waiting(waited) + "; the stage was cancelled"
                    self.stage.context.cancelJobGroup(self.group)
                    return

    def started(self) -> int:
        """Count the tasks that have started."""
        tracker = self.stage.context.statusTracker()
        count = 0
        for job in tracker.getJobIdsForGroup(self.group):
            for stage in getattr(tracker.getJobInfo(job), "stageIds", ()):
                info = tracker.getStageInfo(stage)
                if info is not None:
                    count += info.numActiveTasks + info.numCompletedTasks + info.numFailedTasks
        return count

    def waiting(self, waited: float) -> str:
        """Say what the stage waits for."""
        cluster = slots.read(self.stage.context, self.stage.resources)
        return (
            f"the {self.stage.num_proc} tasks of the ranks have not all started after"
            f" {waited:.0f} s: they need as many free slots at the same time, and"
            f" {cluster.master} has {cluster.slots} ({slots.arithmetic(cluster)}). Usual causes:"
            " other jobs of this application hold slots, or executors were lost"
        )
