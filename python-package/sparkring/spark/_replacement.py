# SPDX-License-Identifier: Apache-2.0
"""The replacement of a rank: its task starts it anew, and all ranks form their ring again.

The other ranks keep their memory, and wait in `Communicator.grow`. The ranks find each other by an
exchange over the ring of their tasks, which live as long as the attempt (`_exit_barrier`). A rank
asks its task over a pair of sockets: a line with its text, and back a line with the texts of all
ranks. The pair closes when the ring cannot form again, because another rank has ended for good.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import socket
import time
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from sparkring._core import PeerLostError, RingError, TimeoutError  # noqa: A004
from sparkring._run_state import Recovery

if TYPE_CHECKING:
    from sparkring import Communicator
    from sparkring.spark._exit_barrier import RingBarrier

TICK = 0.05  # seconds between two checks of the rank's process


class RankExchange:
    """The exchange of a rank, for the rendezvous."""

    def __init__(self, task: socket.socket) -> None:
        self.task, self.deadline, self.closed = task, math.inf, False

    def __call__(self, text: str) -> list[str]:
        """Return the texts of all ranks, in rank order."""
        began = time.monotonic()
        line = b""
        try:
            self.task.settimeout(max(self.deadline - began, TICK))
            self.task.sendall(f"{text}\n".encode())
            line = read_line(self.task)
        except socket.timeout:
            self.closed = True  # a late answer would be taken for that of the next question
            raise TimeoutError(
                f"the ring did not form again within {time.monotonic() - began:.1f} s: not all"
                " ranks have called grow(), or init() in place of a lost rank"
            ) from None
        except OSError:  # the task has closed the pair
            pass
        if not line:
            self.closed = True
            raise PeerLostError("the ring cannot form again: another rank has ended for good")
        texts: list[str] = json.loads(line)
        return texts


class Replacement:
    """What a rank that can be replaced shares with the process that starts it.

    This one is of ranks that find each other by the environment, and need nobody for it.
    """

    def __init__(self) -> None:
        self.replaces = False

    def possible(self) -> bool:
        """Return whether a new process could join the others."""
        return True

    def begin(self, *, replaces: bool) -> None:
        """Prepare for a process of the rank, which `replaces` another or is the first."""
        self.replaces = replaces

    def in_rank(self) -> Recovery:
        """Return how the ring forms again. The rank calls this."""
        return Recovery(None, self.replaces)

    def in_task(self, process: int, *, more: bool) -> None:
        """Serve the rank until its process ends. With `more` another follows a lost one."""


class TaskReplacement(Replacement):
    """The replacement of the rank of a Spark task."""

    def __init__(self, barrier: RingBarrier) -> None:
        super().__init__()
        self.barrier = barrier
        self.task_end, self.rank_end = socket.socketpair()

    def possible(self) -> bool:
        """Return whether the tasks still have their ring."""
        return self.barrier.ring is not None and self.barrier.ring.usable

    def begin(self, *, replaces: bool) -> None:
        """Make a pair of sockets for the process."""
        super().begin(replaces=replaces)
        if replaces:
            self.task_end, self.rank_end = socket.socketpair()

    def in_rank(self) -> Recovery:
        """Return how the ring forms again. The rank calls this."""
        self.task_end.close()
        return Recovery(RankExchange(self.rank_end), self.replaces)

    def in_task(self, process: int, *, more: bool) -> None:
        """Exchange texts over the ring of the tasks until the rank's process ends."""
        self.rank_end.close()
        if not self.replaces:
            self.barrier.connect()
        with self.task_end:
            while self.barrier.ring is not None and end_of(process) is None:
                if not select.select([self.task_end], [], [], TICK)[0]:
                    continue
                text = read_line(self.task_end)
                texts = gather(self.barrier.ring, text.decode(), process, more) if text else None
                if texts is None:
                    return
                with contextlib.suppress(OSError):  # the process has ended
                    self.task_end.sendall(f"{json.dumps(texts)}\n".encode())


def read_line(connection: socket.socket) -> bytes:
    """Read a line, without its end; nothing when the connection ends before."""
    line = b""
    while not line.endswith(b"\n"):
        piece = connection.recv(1 << 16)
        if not piece:
            return b""
        line += piece
    return line[:-1]


def end_of(process: int) -> int | None:
    """Return how a child has ended, without reaping it: 0 for a result. None while it runs."""
    found = os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return None if found is None else found.si_status


def gather(ring: Communicator, text: str, process: int, more: bool) -> list[str] | None:
    """Return the texts of all tasks; None when the rank or another one has ended for good."""
    with ThreadPoolExecutor(1, "sparkring exchange") as thread:
        answer = thread.submit(ring.allgather_object, text)
        while not wait([answer], TICK).done:
            end = end_of(process)
            if end == 0 or (end is not None and not more):
                ring.abort("its rank has ended")
    return None if isinstance(answer.exception(), RingError) else answer.result()
