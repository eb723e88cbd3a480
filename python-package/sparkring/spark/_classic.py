# SPDX-License-Identifier: Apache-2.0
"""A Spark with its driver in this process. Its context reports stages and executors."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

from sparkring.spark import _stage as barrier_stage
from sparkring.spark import _task_main as task_main
from sparkring.spark._abilities import has_tags
from sparkring.spark._barrier_job import BarrierJob
from sparkring.spark._cancellable import run_cancellable
from sparkring.spark._rank_result import RankResult
from sparkring.spark._slot_check import Executor, is_local

NEVER = 1 << 62  # milliseconds
LINGER = 20_000  # milliseconds that Spark may take to end the rest of a failed stage
GROUP, WHAT = "spark.jobGroup.id", "spark.job.description"
INTERRUPTS = "spark.job.interruptOnCancel"


class ClassicJob(BarrierJob):
    """Submits the stage as a job of the context, with a tag of its own.

    The job stays in the group of the caller, so that a notebook can cancel it. Before Spark 3.5,
    which has no tags, it has a group of its own.
    """

    spark: Classic
    name = ""

    def collect(self, attempt: task_main.Attempt) -> list[RankResult]:
        """Run the ranks, and return their results."""
        if self.frame is not None:
            plan = barrier_stage.plan(self.frame, attempt, self.resources)
            rank_results, self.kept = run_cancellable(
                lambda: barrier_stage.collect(plan, attempt), lambda: self.cancel(self.name)
            )
            return rank_results
        # PySpark would read Spark's own range(), and a task must not read its partition.
        rdd = self.spark.context.parallelize(list(range(self.num_proc)), self.num_proc)
        if self.resources is not None:
            rdd = rdd.withResources(self.resources)
        ranks = rdd.barrier().mapPartitions(functools.partial(task_main.task, attempt))
        return list(run_cancellable(ranks.collect, lambda: self.cancel(self.name)))

    @contextlib.contextmanager
    def named(self, name: str, what: str) -> Iterator[None]:
        """Tag the jobs inside this block. Set only properties that the caller has not set."""
        context, self.name = self.spark.context, name
        wanted = {WHAT: what, INTERRUPTS: "true"}
        if not has_tags(context):
            wanted[GROUP] = name
        before = {key: context.getLocalProperty(key) for key in wanted}
        try:
            for key, value in wanted.items():
                if before[key] is None or not has_tags(context):
                    context.setLocalProperty(key, value)
            if has_tags(context):
                context.addJobTag(name)
            with without_bar(context, lambda: self.running(name)):
                yield
        finally:
            with contextlib.suppress(Exception):
                for key, value in before.items():
                    context.setLocalProperty(key, value)
                if has_tags(context):
                    context.removeJobTag(name)

    def cancel(self, name: str) -> None:
        """Cancel the jobs with a tag."""
        context = self.spark.context
        (context.cancelJobsWithTag if has_tags(context) else context.cancelJobGroup)(name)

    def host_of(self, executor: str) -> str:
        """Find the host of an executor, which may have ended."""
        with contextlib.suppress(Exception):
            found = self.spark.context._jsc.sc().statusStore().executorSummary(executor)
            return str(found.hostPort()).rpartition(":")[0]
        return ""

    def started(self, name: str) -> int | None:
        """Count the tasks that have started.

        With a DataFrame Spark may have to compute it first, in an unknown number of tasks.
        """
        if self.frame is not None:
            return None
        tasks: list[int] = [
            info.numActiveTasks + info.numCompletedTasks + info.numFailedTasks
            for info in self.stages(name)
        ]
        return sum(tasks)

    def running(self, name: str) -> bool:
        """Return whether tasks run. Tasks of a failed stage run until Spark has ended them."""
        return any(info.numActiveTasks for info in self.stages(name))

    def stages(self, name: str) -> Iterator[Any]:
        """Yield Spark's data about the stages of the jobs with a tag."""
        context = self.spark.context
        tracker = context.statusTracker()
        if has_tags(context):  # PySpark's tracker lacks this method
            jobs = list(context._jsc.sc().statusTracker().getJobIdsForTag(name))
        else:
            jobs = tracker.getJobIdsForGroup(name)
        for job in jobs:
            for stage in getattr(tracker.getJobInfo(job), "stageIds", ()):
                info = tracker.getStageInfo(stage)
                if info is not None:
                    yield info


@contextlib.contextmanager
def without_bar(context: Any, lingers: Callable[[], bool]) -> Iterator[None]:
    """Keep Spark's bar of stages (spark.ui.showConsoleProgress) off the terminal in this block.

    The bar draws nothing until half a second after the last job has ended. Spark updates this time
    at the end of each job, so the bar returns by itself, also after an error here. Where the stage
    outlives the block, the bar stays off for a while.
    """

    def note(milliseconds: int) -> None:
        with contextlib.suppress(Exception):  # no bar, or another kind of bar
            bar = context._jsc.sc().progressBar().get()
            field = bar.getClass().getDeclaredField("lastFinishTime")
            field.setAccessible(True)
            field.setLong(bar, milliseconds)

    note(NEVER)
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # Spark has ended
            note(int(time.time() * 1000) + LINGER * lingers())


class Classic:
    """A context as `sparkring.spark._session.Spark`."""

    job_type = ClassicJob

    def __init__(self, context: Any) -> None:
        self.context = context

    @property
    def master(self) -> str:
        """The URL of its master."""
        return str(self.context.master)

    @property
    def here(self) -> bool:
        """Whether tasks run in a child of this process, with its working directory and log."""
        return is_local(self.master)

    @property
    def parallelism(self) -> int:
        """The number of tasks when the number of slots is unknown."""
        return int(self.context.defaultParallelism)

    @property
    def age(self) -> float:
        """Seconds since the start of the application."""
        return time.time() - int(self.context.startTime) / 1000

    def setting(self, name: str, default: str = "") -> str:
        """Return a setting of the configuration."""
        return str(self.context.getConf().get(name, default))

    def cores(self) -> None:
        """Return None: `executors` has the cores of each."""

    def slots(self, resources: Any) -> int:
        """Count the slots by the method that Spark uses for a barrier stage."""
        scala = self.context._jsc.sc()
        if resources is None:
            profile = scala.resourceProfileManager().defaultResourceProfile()
        else:
            profile = self.register(resources)
        return int(scala.maxNumConcurrentTasks(profile))

    def executors(self) -> tuple[Executor, ...]:
        """List the executors that run tasks."""
        found = self.context._jsc.sc().statusStore().executorList(True)
        summaries = [found.apply(index) for index in range(found.size())]
        executors = [
            Executor(summary.hostPort().rpartition(":")[0], summary.totalCores())
            for summary in summaries
        ]
        return tuple(executor for executor in executors if executor.cores)

    def register(self, resources: Any) -> Any:
        """Register a profile with Spark; return the profile of the JVM."""
        return self.context.emptyRDD().withResources(resources)._jrdd.getResourceProfile()

    def pin(self, frame: Any) -> Any:
        """Fix the plan of a DataFrame: Spark runs its shuffles once, and keeps its partitions."""
        plan = frame._jdf
        pinned = plan.sparkSession().internalCreateDataFrame(
            plan.queryExecution().toRdd(), plan.schema(), plan.isStreaming()
        )
        return type(frame)(pinned, frame.sparkSession)

    def partitions(self, frame: Any) -> int:
        """Count the partitions of a DataFrame."""
        return int(frame._jdf.queryExecution().toRdd().getNumPartitions())

    def reach(self) -> str:
        """Find the host where executors reach this process."""
        return self.setting("spark.driver.host", "localhost")
