# SPDX-License-Identifier: Apache-2.0
"""A Spark whose driver is in this process: its context tells all, and runs jobs of functions."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

from sparkring.spark import _task_main as task_main
from sparkring.spark._barrier_job import Stage
from sparkring.spark._cancellable import run_cancellable
from sparkring.spark._rank_result import RankResult
from sparkring.spark._slot_check import Executor, is_local

NEVER = 1 << 62  # milliseconds
LINGER = 20_000  # the same, that Spark may take to end what is left of a failed stage
PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


class JobStage(Stage):
    """A stage as a job of the context, in a group of its own."""

    spark: Classic

    def collect(self, job: task_main.Job) -> list[RankResult]:
        """Run the ranks, and get how they ended."""
        # Spark's own range() would be read by PySpark, and a task must not read its partition.
        rdd = self.spark.context.parallelize(list(range(self.num_proc)), self.num_proc)
        if self.resources is not None:
            rdd = rdd.withResources(self.resources)
        stage = rdd.barrier().mapPartitions(functools.partial(task_main.task, job))
        group = self.spark.context.getLocalProperty(PROPERTIES[0])
        return list(run_cancellable(stage.collect, lambda: self.cancel(group)))

    @contextlib.contextmanager
    def named(self, name: str, what: str) -> Iterator[None]:
        """Run jobs in a group inside of this block."""
        context = self.spark.context
        before = [context.getLocalProperty(key) for key in PROPERTIES]
        context.setJobGroup(name, what, interruptOnCancel=True)
        try:
            with without_bar(context, lambda: self.running(name)):
                yield
        finally:
            with contextlib.suppress(Exception):
                for key, value in zip(PROPERTIES, before):
                    context.setLocalProperty(key, value)

    def cancel(self, name: str) -> None:
        """End the jobs of a group."""
        self.spark.context.cancelJobGroup(name)

    def host_of(self, executor: str) -> str:
        """Find the host of an executor, which may have ended."""
        with contextlib.suppress(Exception):
            found = self.spark.context._jsc.sc().statusStore().executorSummary(executor)
            return str(found.hostPort()).rpartition(":")[0]
        return ""

    def started(self, name: str) -> int:
        """Count the tasks that have started."""
        return sum(
            info.numActiveTasks + info.numCompletedTasks + info.numFailedTasks
            for info in self.stages(name)
        )

    def running(self, name: str) -> bool:
        """Whether tasks run, as those of a failed stage do until Spark has ended them."""
        return any(info.numActiveTasks for info in self.stages(name))

    def stages(self, name: str) -> Iterator[Any]:
        """Tell what Spark knows of the stages of a group."""
        tracker = self.spark.context.statusTracker()
        for job in tracker.getJobIdsForGroup(name):
            for stage in getattr(tracker.getJobInfo(job), "stageIds", ()):
                info = tracker.getStageInfo(stage)
                if info is not None:
                    yield info


@contextlib.contextmanager
def without_bar(context: Any, lingers: Callable[[], bool]) -> Iterator[None]:
    """Keep Spark's bar of stages (spark.ui.showConsoleProgress) off the terminal in this block.

    It draws nothing until half a second after the last job has ended. Spark notes the time of that
    with each job's end, so the bar comes back by itself, also after an error here. Where the stage
    lingers behind the block, its bar stays off for a while.
    """

    def note(milliseconds: int) -> None:
        with contextlib.suppress(Exception):  # no bar, or a Spark with another one
            bar = context._jsc.sc().progressBar().get()
            field = bar.getClass().getDeclaredField("lastFinishTime")
            field.setAccessible(True)
            field.setLong(bar, milliseconds)

    note(NEVER)
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # Spark has gone
            note(int(time.time() * 1000) + LINGER * lingers())


class Classic:
    """What a context tells and does (`sparkring.spark._session.Spark`)."""

    stage = JobStage

    def __init__(self, context: Any) -> None:
        self.context = context

    @property
    def master(self) -> str:
        """The URL of its master."""
        return str(self.context.master)

    @property
    def here(self) -> bool:
        """Whether tasks run in a process that this one has started, in its folder and log."""
        return is_local(self.master)

    @property
    def parallelism(self) -> int:
        """How many tasks to make when nobody knows how many slots there are."""
        return int(self.context.defaultParallelism)

    @property
    def age(self) -> float:
        """Seconds since its application has started."""
        return time.time() - int(self.context.startTime) / 1000

    def setting(self, name: str, default: str = "") -> str:
        """Tell what its configuration says."""
        return str(self.context.getConf().get(name, default))

    def cores(self) -> None:
        """Leave that to `executors`."""

    def slots(self, resources: Any) -> int:
        """Ask what Spark asks itself when it submits a barrier stage."""
        scala = self.context._jsc.sc()
        if resources is None:
            profile = scala.resourceProfileManager().defaultResourceProfile()
        else:
            profile = self.register(resources)
        return int(scala.maxNumConcurrentTasks(profile))

    def executors(self) -> tuple[Executor, ...]:
        """List those who run tasks."""
        found = self.context._jsc.sc().statusStore().executorList(True)
        summaries = [found.apply(index) for index in range(found.size())]
        executors = [
            Executor(summary.hostPort().rpartition(":")[0], summary.totalCores())
            for summary in summaries
        ]
        return tuple(executor for executor in executors if executor.cores)

    def register(self, resources: Any) -> Any:
        """Make a profile known to Spark; gives the JVM's."""
        return self.context.emptyRDD().withResources(resources)._jrdd.getResourceProfile()

    def reach(self) -> tuple[str, str]:
        """Find where executors reach this process, and the address to listen on for that."""
        host = self.setting("spark.driver.host", "localhost")
        return host, self.setting("spark.driver.bindAddress", host)
