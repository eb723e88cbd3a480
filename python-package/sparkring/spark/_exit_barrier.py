# SPDX-License-Identifier: Apache-2.0
"""The exit barrier: the ranks of an attempt wait for each other before their Spark tasks end.

A rank is a child process of its Spark task (`child`). The tasks open a ring of their own when the
ranks have opened theirs, and close it when their ranks have ended, also when a rank was killed.
`Communicator.close` waits for all, so it is the barrier. So the other ranks learn of the end of
every rank, and Spark need not fail the stage to end them.

The tasks exchange their public keys over the ring of the ranks, so their ring needs no secret in
Spark's closure and no known port. It encrypts if the ring of the ranks does.

A rank that has succeeded waits without a limit. A rank that has failed waits `GRACE` seconds, and
then fails its Spark task, so that Spark ends the ranks that are still at work.

The barrier is not a call of Spark. When Spark ends a task that is in ``barrier()``, the whole
executor ends with exit code 50: the thread that serves the call has no handler for
TaskKilledException (PythonRunner.scala of Spark 3.5 and 4.1). One lost executor would take all
executors with it. Only tasks without a ring use that call. R's spark-exit-barrier.R does the same
in rounds.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from sparkring._core import RingError, blame_weight
from sparkring.spark._driver_link import FOREVER, open_ring

if TYPE_CHECKING:
    from sparkring import Communicator
    from sparkring.spark._rank_result import RankResult

GRACE = 5.0  # seconds from a failure until Spark ends ranks that are still at work
COURTESY = 1.0  # more seconds for a rank that reports the failure of another rank
LEFT = 60.0  # seconds until Spark must have detected a lost rank
CONNECT = 30.0  # seconds for all tasks to be connected
LOST = {blame_weight(["TIMEOUT"]), blame_weight(["PEER_LOST"])}  # weights that report a lost rank


class RankFailed(Exception):  # noqa: N818 (users never catch it)
    """Fails the Spark task of a rank when the barrier is incomplete; carries how the rank ended."""


class ExitBarrier(Protocol):
    """A barrier as a rank uses it."""

    def connect_all(self, comm: Communicator) -> None:
        """Prepare the barrier, on all ranks, when the ring has formed."""


class RingBarrier:
    """The exit barrier of the tasks of a barrier stage: a ring of the tasks.

    Parameters
    ----------
    context : pyspark.BarrierTaskContext
        The task.
    ports : (int, int), optional
        The ports to listen on.
    """

    def __init__(self, context: Any, ports: tuple[int, int] | None = None) -> None:
        self.context, self.ports = context, ports
        self.rank: int = context.partitionId()
        self.ring: Communicator | None = None
        self.lost: int | None = None  # a rank whose task has ended before the barrier
        self.task_end, self.rank_end = socket.socketpair()

    # ---- At the beginning

    def connect_all(self, comm: Communicator) -> None:
        """Send the text of the task of each rank to all tasks. The rank calls this."""
        self.task_end.close()  # else the end of the task's connection could not be seen
        with self.rank_end:
            self.rank_end.sendall(bytes([comm.encrypted]))
            with self.rank_end.makefile() as task:
                texts = comm.allgather_object(task.readline())
            with contextlib.suppress(OSError):  # the task cannot open a ring
                self.rank_end.sendall(json.dumps(texts).encode())

    def connect(self) -> None:
        """Open the ring of the tasks, while the rank works. The task calls this."""
        self.rank_end.close()
        with self.task_end, contextlib.suppress(RingError, OSError, ValueError):
            if encrypted := self.task_end.recv(1):  # else the rank has ended
                addresses = [info.address for info in self.context.getTaskInfos()]
                self.ring = open_ring(
                    self.rank,
                    len(addresses),
                    "sparkring tasks",
                    CONNECT,
                    encryption=encrypted == b"\1",
                    watch_parent=True,
                    addresses=addresses,
                    exchange=self.exchange,
                    ports=self.ports,
                )

    def exchange(self, text: str) -> list[str]:
        """Have the rank send a text. Raise an error when the rank has ended before."""
        self.task_end.sendall(f"{text}\n".encode())
        with self.task_end.makefile() as rank:
            texts: list[str] = json.load(rank)
        return [text.rstrip() for text in texts]

    # ---- At the end

    def wait_for_all(self, rank_result: RankResult) -> None:
        """Wait until all ranks have entered the barrier; raises `RankFailed` when some do not.

        Spark may end this process meanwhile.
        """
        failure = rank_result.failure
        if self.ring is not None:
            complete = self.close(self.ring, GRACE if failure else None)
        elif failure is not None and failure.how:  # Spark must end the waiting ranks
            complete = False
        elif failure is not None and failure.weight in LOST:  # Spark may detect the lost rank
            time.sleep(GRACE)
            complete = False
        else:
            complete = self.ask_spark(GRACE if failure else None)
        if not complete:
            time.sleep(COURTESY if failure and failure.weight and not failure.how else 0)
            raise RankFailed(
                f"rank {self.rank} succeeded, but its connection to rank {self.lost} was lost"
                f" before rank {self.lost} had ended: see the log of rank {self.lost}"
            )

    def close(self, ring: Communicator, grace: float | None) -> bool:
        """Wait for all tasks for `grace` seconds, or until Spark must have detected a lost rank."""
        begin = time.monotonic()
        try:
            ring.close(FOREVER if grace is None else grace)
        except RingError as error:
            self.lost = error.rank
            left = LEFT if grace is None else begin + grace - time.monotonic()
            time.sleep(max(0.0, left))
            return False
        return True

    def ask_spark(self, grace: float | None) -> bool:
        """Wait in ``barrier()`` of Spark."""
        errors: list[BaseException] = []

        def call() -> None:
            try:
                self.context.barrier()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=call, name="sparkring exit barrier", daemon=True)
        thread.start()
        thread.join(grace)
        if errors and grace is None:
            raise errors[0]
        return not thread.is_alive() and not errors
