# SPDX-License-Identifier: Apache-2.0
"""A Spark behind Spark Connect: a server that runs plans. Its jobs and executors are out of reach.

The ranks are the tasks of ``mapInArrow(barrier=True)`` (`_stage`). Two
properties of the cluster are known: its configuration, and the number of partitions of a range,
which is the number of cores of all executors. Tags replace job groups. Reports of progress, which
the server sends from Spark 4.0 on, replace the status tracker.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from sparkring._core import UnsupportedError
from sparkring.spark import _abilities as abilities
from sparkring.spark import _stage as barrier_stage
from sparkring.spark import _task_main as task_main
from sparkring.spark._barrier_job import BarrierJob
from sparkring.spark._rank_result import RankResult
from sparkring.spark._slot_check import Executor, is_local

FIXED = ("spark.default.parallelism", "spark.sql.leafNodeDefaultParallelism")


class ConnectJob(BarrierJob):
    """Submits the stage as a plan to the server, with a tag of its own."""

    spark: Connect
    running: int | None = None

    def collect(self, attempt: task_main.Attempt) -> list[RankResult]:
        """Run the ranks, and return their results."""
        frame = self.frame
        if frame is None:
            frame = self.spark.session.range(0, self.num_proc, 1, self.num_proc)
        plan = barrier_stage.plan(frame, attempt, self.resources)
        rank_results, self.kept = barrier_stage.collect(plan, attempt)
        return rank_results

    @contextlib.contextmanager
    def named(self, name: str, what: str) -> Iterator[None]:
        """Tag the plans of this thread inside the block, and receive their progress."""
        session, this = self.spark.session, threading.get_ident()
        reports_progress = hasattr(session, "registerProgressHandler")
        self.running = 0 if reports_progress else None

        def progress(stages: Any, inflight_tasks: int, **_: Any) -> None:
            if threading.get_ident() == this:  # other threads use the session, too
                done = sum(stage.num_completed_tasks for stage in stages or ())
                self.running = max(self.running or 0, inflight_tasks + done)

        session.addTag(name)
        if reports_progress:
            session.registerProgressHandler(progress)
        try:
            yield
        finally:
            with contextlib.suppress(Exception):
                if reports_progress:
                    session.removeProgressHandler(progress)
                session.removeTag(name)

    def cancel(self, name: str) -> None:
        """Cancel the plans with a tag."""
        self.spark.session.interruptTag(name)

    def started(self, name: str) -> int | None:
        """Count the tasks that have started, as far as the server has reported.

        With a DataFrame the reports include the tasks that compute it.
        """
        return self.running if self.frame is None else None


def is_loopback(host: str) -> bool:
    """Return whether a name or address is a loopback of this machine."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


class Connect:
    """A session of Spark Connect as `sparkring.spark._session.Spark`."""

    job_type = ConnectJob

    def __init__(self, session: Any) -> None:
        self.session = session
        self.known: dict[str, Any] = {}
        version = str(session.version)
        if not abilities.has_connect_barrier(session):
            raise UnsupportedError(
                f"spark is a session of Spark Connect with Spark {version}: it runs barrier stages"
                " from 3.5 on, so use a classic session"
            )

    @property
    def master(self) -> str:
        """The URL of its master."""
        return self.setting("spark.master", "Spark Connect")

    @property
    def here(self) -> bool:
        """Whether tasks run in a child of this process, with its working directory and log."""
        own = "SPARK_LOCAL_REMOTE" in os.environ  # started by PySpark for remote("local")
        with contextlib.suppress(OSError):
            return own and is_local(self.master) and is_loopback(self.host()[0])
        return False

    @property
    def parallelism(self) -> int:
        """The number of tasks when the number of slots is unknown."""
        return self.splits()

    @property
    def age(self) -> float:
        """Seconds since the start of the application."""
        return time.time() - int(self.setting("spark.app.startTime", "0")) / 1000

    def setting(self, name: str, default: str = "") -> str:
        """Return a setting of the configuration."""
        if name not in self.known:  # each request is a message to the server
            with contextlib.suppress(Exception):  # the server hides some settings
                self.known[name] = self.session.conf.get(name, None)
        value = self.known.setdefault(name, None)
        return default if value is None else str(value)

    def splits(self) -> int:
        """Count the partitions that a range has by default."""
        plan = self.session.range(1)._explain_string()
        return int(re.search(r"splits=(?:Some\()?(\d+)", plan)[1])  # type: ignore[index]

    def cores(self) -> int | None:
        """Count the cores of all executors. A cluster without executors reports two, too."""
        fixed = re.match(r"local\[(\d+)", self.master)
        if fixed:
            return int(fixed[1])
        return None if any(self.setting(name) for name in FIXED) else self.splits()

    def size(self) -> int | None:
        """Count the cores of an executor, where all executors have the same number."""
        pseudo = re.match(r"local-cluster\[\s*\d+\s*,\s*(\d+)", self.master)
        cores = pseudo[1] if pseudo else self.setting("spark.executor.cores")
        return int(cores) if cores.isdecimal() and not is_local(self.master) else None

    def slots(self, resources: Any) -> int:
        """Count the tasks that can run at once, by the cores."""
        cores, size = self.cores(), self.size()
        if cores is None:
            raise UnsupportedError("the configuration hides the number of cores")
        cpus = int(self.setting("spark.task.cpus", "1"))
        if resources is not None and "cpus" in resources.taskResources:
            cpus = int(resources.taskResources["cpus"].amount)
        return cores // cpus if size is None else cores // size * (size // cpus)

    def executors(self) -> tuple[Executor, ...]:
        """List the executors that run tasks, where the cores determine them."""
        cores, size = self.cores(), self.size()
        if is_local(self.master) and cores:
            return (Executor("", cores),)
        return (Executor("", size),) * (cores // size) if cores and size else ()

    def register(self, resources: Any) -> int:
        """Register a profile with the server; return its number."""
        if not abilities.has_resources(type(self.session.range(1))):
            raise UnsupportedError("Spark Connect takes resources from Spark 4.0 on")
        return int(resources.id)

    def pin(self, frame: Any) -> Any:
        """Return the DataFrame. Spark plans it anew in each job."""
        return frame

    def partitions(self, frame: Any) -> int:
        """Count the partitions of a DataFrame, by a job that reads no rows of them."""

        def count(_: Iterator[Any]) -> Iterator[Any]:
            import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]

            yield pyarrow.RecordBatch.from_pydict({"partition": pyarrow.array([1], "int32")})

        return int(frame.mapInArrow(count, "partition int").count())

    def host(self) -> tuple[str, int]:
        """Find the server; raise ``OSError`` when its client does not report it."""
        builder = getattr(self.session.client, "_builder", None)
        name, _, port = str(getattr(builder, "endpoint", "")).rpartition(":")
        if not name or not port.isdecimal():
            raise OSError("the client of Spark Connect reports no address of its server")
        return name.strip("[]"), int(port)

    def reach(self) -> str:
        """Find the host where executors reach this process: the address towards the server."""
        found = socket.getaddrinfo(*self.host(), type=socket.SOCK_DGRAM)
        family, kind, _, _, address = found[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)  # sends nothing
            return str(probe.getsockname()[0])
