# SPDX-License-Identifier: Apache-2.0
"""A Spark behind Spark Connect: a server that runs plans; its jobs and executors are out of reach.

The ranks are the tasks of ``mapInArrow(barrier=True)`` over as many rows; how they ended comes back
as binary cells, cut into pieces, as the server sends rows in messages of few megabytes. What is
known of the cluster is its configuration, and how many partitions it would make of a range: as many
as all executors have cores. Tags take the place of job groups, and reports of progress, which the
server sends from Spark 4.0 on, that of the status tracker.
"""

from __future__ import annotations

import contextlib
import inspect
import ipaddress
import os
import pickle
import re
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

from sparkring._core import UnsupportedError
from sparkring.spark import _task_main as task_main
from sparkring.spark._barrier_job import Stage
from sparkring.spark._rank_result import RankResult
from sparkring.spark._slot_check import Executor, is_local

PIECE = 1 << 20  # bytes of a cell
SCHEMA = "rank int, piece int, data binary"
FIXED = ("spark.default.parallelism", "spark.sql.leafNodeDefaultParallelism")


class PlanStage(Stage):
    """A stage as a plan for the server, with a tag of its own."""

    spark: Connect
    running: int | None = None

    def collect(self, job: task_main.Job) -> list[RankResult]:
        """Run the ranks, and get how they ended."""

        def ranks(batches: Iterable[Any]) -> Iterator[Any]:
            return task(job, batches)

        rows = self.spark.session.range(0, self.num_proc, 1, self.num_proc)
        with_profile = {} if self.resources is None else {"profile": self.resources}
        plan = rows.mapInArrow(ranks, SCHEMA, barrier=True, **with_profile)
        return assemble(plan.collect())

    @contextlib.contextmanager
    def named(self, name: str, what: str) -> Iterator[None]:
        """Tag what this thread submits inside of this block, and listen to its progress."""
        session, this = self.spark.session, threading.get_ident()
        tells = hasattr(session, "registerProgressHandler")
        self.running = 0 if tells else None

        def progress(stages: Any, inflight_tasks: int, **_: Any) -> None:
            if threading.get_ident() == this:  # others submit with this session, too
                done = sum(stage.num_completed_tasks for stage in stages or ())
                self.running = max(self.running or 0, inflight_tasks + done)

        session.addTag(name)
        if tells:
            session.registerProgressHandler(progress)
        try:
            yield
        finally:
            with contextlib.suppress(Exception):
                if tells:
                    session.removeProgressHandler(progress)
                session.removeTag(name)

    def cancel(self, name: str) -> None:
        """End what has a tag."""
        self.spark.session.interruptTag(name)

    def started(self, name: str) -> int | None:
        """Count the tasks that have started, as far as the server has told."""
        return self.running


def takes(method: Any, name: str) -> bool:
    """Whether a method has a parameter of this name."""
    return name in inspect.signature(method).parameters


def is_loopback(host: str) -> bool:
    """Whether a name or address is that of this machine for itself."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


# ---- How ranks end, as rows ----------------------------------------------------------------------


def task(job: task_main.Job, batches: Iterable[Any]) -> Iterator[Any]:
    """Be the rank of this Spark task; for ``mapInArrow``."""
    import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]

    for rank_result in task_main.task(job, batches):
        for piece, data in enumerate(cut(pickle.dumps(rank_result))):
            columns = {"rank": "int32", "piece": "int32", "data": "binary"}
            values = [[rank_result.rank], [piece], [data]]
            arrays = [pyarrow.array(v, t) for v, t in zip(values, columns.values())]
            yield pyarrow.RecordBatch.from_arrays(arrays, names=list(columns))


def cut(data: bytes) -> list[bytes]:
    """Cut bytes into pieces."""
    return [data[start : start + PIECE] for start in range(0, len(data), PIECE)]


def assemble(rows: Iterable[Any]) -> list[RankResult]:
    """Read how the ranks ended, in rank order."""
    pieces: dict[int, list[tuple[int, bytes]]] = {}
    for number, piece, data in rows:
        pieces.setdefault(number, []).append((piece, bytes(data)))
    return [
        pickle.loads(b"".join(data for _, data in sorted(pieces[number])))
        for number in sorted(pieces)
    ]


class Connect:
    """What a session of Spark Connect tells and does (`sparkring.spark._session.Spark`)."""

    stage = PlanStage

    def __init__(self, session: Any) -> None:
        self.session = session
        self.known: dict[str, Any] = {}
        version = str(session.version)
        frames = type(session.range(1))
        if not takes(frames.mapInArrow, "barrier") or version.startswith("3.4."):
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
        """Whether tasks run in a process that this one has started, in its folder and log."""
        own = "SPARK_LOCAL_REMOTE" in os.environ  # PySpark has started it for remote("local")
        with contextlib.suppress(OSError):
            return own and is_local(self.master) and is_loopback(self.host()[0])
        return False

    @property
    def parallelism(self) -> int:
        """How many tasks to make when nobody knows how many slots there are."""
        return self.splits()

    @property
    def age(self) -> float:
        """Seconds since its application has started."""
        return time.time() - int(self.setting("spark.app.startTime", "0")) / 1000

    def setting(self, name: str, default: str = "") -> str:
        """Tell what its configuration says."""
        if name not in self.known:  # each look is a message to the server
            with contextlib.suppress(Exception):  # it keeps this one to itself
                self.known[name] = self.session.conf.get(name, None)
        told = self.known.setdefault(name, None)
        return default if told is None else str(told)

    def splits(self) -> int:
        """Count the partitions that a range has if nobody says how many."""
        plan = self.session.range(1)._explain_string()
        return int(re.search(r"splits=(?:Some\()?(\d+)", plan)[1])  # type: ignore[index]

    def cores(self) -> int | None:
        """Count the cores of all executors; at least two on a cluster, even if there are none."""
        fixed = re.match(r"local\[(\d+)", self.master)
        if fixed:
            return int(fixed[1])
        return None if any(self.setting(name) for name in FIXED) else self.splits()

    def size(self) -> int | None:
        """Count the cores of an executor, where all have as many."""
        pseudo = re.match(r"local-cluster\[\s*\d+\s*,\s*(\d+)", self.master)
        told = pseudo[1] if pseudo else self.setting("spark.executor.cores")
        return int(told) if told.isdecimal() and not is_local(self.master) else None

    def slots(self, resources: Any) -> int:
        """Count the tasks that can run at once, as far as cores tell."""
        cores, size = self.cores(), self.size()
        if cores is None:
            raise UnsupportedError("the configuration hides how many cores there are")
        cpus = int(self.setting("spark.task.cpus", "1"))
        if resources is not None and "cpus" in resources.taskResources:
            cpus = int(resources.taskResources["cpus"].amount)
        return cores // cpus if size is None else cores // size * (size // cpus)

    def executors(self) -> tuple[Executor, ...]:
        """List those who run tasks, where that follows from their cores."""
        cores, size = self.cores(), self.size()
        if is_local(self.master) and cores:
            return (Executor("", cores),)
        return (Executor("", size),) * (cores // size) if cores and size else ()

    def register(self, resources: Any) -> int:
        """Make a profile known to the server; gives its number."""
        if not takes(type(self.session.range(1)).mapInArrow, "profile"):
            raise UnsupportedError("Spark Connect takes them from Spark 4.0 on")
        return int(resources.id)

    def host(self) -> tuple[str, int]:
        """Find the server; ``OSError`` when its client does not tell."""
        builder = getattr(self.session.client, "_builder", None)
        name, _, port = str(getattr(builder, "endpoint", "")).rpartition(":")
        if not name or not port.isdecimal():
            raise OSError("it is not known where the server is")
        return name.strip("[]"), int(port)

    def reach(self) -> tuple[str, str]:
        """Find where executors reach this process: where its server would, if anywhere."""
        found = socket.getaddrinfo(*self.host(), type=socket.SOCK_DGRAM)
        family, kind, _, _, address = found[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)  # sends nothing
            own = probe.getsockname()[0]
        return own, own
