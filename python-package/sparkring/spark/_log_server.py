# SPDX-License-Identifier: Apache-2.0
"""The log server: receives the output, reports and large results of all ranks on the driver.

A thread for each rank waits for the link of its task (`_driver_link`), and receives. One thread
shows, so that a paused reader of the output delays no result. A job does not depend on the output:
where executors cannot reach the driver, their logs have the same lines. An error on a link ends
that link alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import math
import queue
import resource
import secrets
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from sparkring.spark import _driver_link as driver_link
from sparkring.spark._driver_link import Address, DriverLink
from sparkring.spark._log_forwarder import FLUSH, KEPT

if TYPE_CHECKING:
    from collections.abc import Callable

BACKLOG = 1024  # frames that are not shown yet; further ones are dropped
CLOSE = 1.0  # seconds for a link to end
LINK = 2  # descriptors of a link
OTHERS = 512  # descriptors for the rest of this process


class Closed(BaseException):
    """Ends the wait of a thread for a task."""


class LogServer:
    """Receives from the tasks of the ranks of a run, until it is closed.

    Parameters
    ----------
    host : str
        The host where executors reach this process.
    ranks : int
        The number of ranks. The soft limit of open files rises when they need more.
    show : callable
        Called with a rank and a line, from a thread.
    progress : callable
        Called with a rank, a step, the number of steps or None, and a dictionary of numbers.

    Raises
    ------
    OSError
        The hard limit of open files is too low for the links of all ranks.
    """

    def __init__(
        self,
        host: str,
        ranks: int,
        show: Callable[[int, str], None],
        progress: Callable[[int, float, float | None, dict[str, Any]], None],
    ) -> None:
        reserve_descriptors(LINK * ranks + OTHERS)
        self.show, self.progress = show, progress
        self.address = Address(host, secrets.token_hex(32))
        self.hosts: dict[int, str] = {}  # of the ranks that have connected
        self.results: dict[int, bytes | bytearray] = {}  # by rank
        self.last: dict[int, deque[str]] = {}  # the last lines of each rank
        self.links: dict[int, DriverLink] = {}  # open ones
        self.shown: queue.Queue[Callable[[], None] | None] = queue.Queue(BACKLOG)
        self.dropped: dict[int, int] = {}  # lines by rank
        self.threads = {
            rank: threading.Thread(
                target=self.serve, args=(rank,), name="sparkring output", daemon=True
            )
            for rank in range(ranks)
        }
        self.screen = threading.Thread(target=self.show_all, name="sparkring output", daemon=True)
        for thread in (*self.threads.values(), self.screen):
            thread.start()

    def close(self, seconds: float = FLUSH + 1) -> None:
        """Wait up to the timeout for the connected tasks, and end.

        The server does not wait for a paused reader of its output either.
        """
        until = time.monotonic() + seconds
        for rank, thread in self.threads.items():
            if rank in self.hosts:
                thread.join(max(0.0, until - time.monotonic()))
        for thread in self.threads.values():
            if thread.is_alive():
                raise_in(thread, Closed)
        for thread in self.threads.values():
            thread.join(CLOSE)
        with contextlib.suppress(queue.Full):
            self.shown.put(None, timeout=max(0.0, until - time.monotonic()))
        self.screen.join(max(0.0, until - time.monotonic()))

    def last_lines(self, rank: int) -> list[str]:
        """Return the last lines of a killed rank, after reading all its output."""
        self.close()
        return list(self.last.get(rank, ()))

    # ---- The threads

    def serve(self, rank: int) -> None:
        """Receive from the task of a rank until its end."""
        with contextlib.suppress(Exception, Closed):  # the links of the other ranks continue
            link = DriverLink(self.address, rank, driver_link.DRIVER, driver_link.FOREVER)
            self.links[rank] = link
            self.hosts[rank] = link.ring.hosts[driver_link.TASK]
            try:
                link.confirm()
                while self.take(rank, *link.receive()):
                    pass
                link.ring.close(CLOSE)
            finally:
                del self.links[rank]
                link.ring.abort("the driver has closed the link")

    def take(self, rank: int, kind: int, payload: bytes | bytearray) -> bool:
        """Handle a frame; false for the last one."""
        last = self.last.setdefault(rank, deque(maxlen=KEPT))
        if kind == driver_link.LINES:
            text = payload.decode(errors="replace")
            last.extend(text.split("\n"))
            self.put_lines(rank, text)
        elif kind == driver_link.DROPPED:
            self.dropped[rank] = self.dropped.get(rank, 0) + int(payload)
        elif kind == driver_link.PROGRESS:
            report = check_report(json.loads(payload))
            with contextlib.suppress(queue.Full):
                self.shown.put_nowait(lambda: self.progress(rank, *report))
        elif kind == driver_link.RESULT:
            self.results[rank] = payload
            self.links[rank].confirm()
        elif kind == driver_link.GONE:
            last.clear()
            last.extend(payload.decode(errors="replace").splitlines())
        elif kind != driver_link.END:
            raise ValueError(f"a frame of kind {kind}")
        if kind in (driver_link.GONE, driver_link.END) and self.dropped.get(rank):
            self.put_lines(rank, "")
        return kind not in (driver_link.GONE, driver_link.END)

    def put_lines(self, rank: int, text: str) -> None:
        """Queue lines for the screen. When the queue is full, drop and count them."""
        lines = text.split("\n") if text else []
        dropped = self.dropped.pop(rank, 0)
        note = f"... {dropped} lines came too fast; the executor's log has them"
        try:
            self.shown.put_nowait(lambda: self.show_lines(rank, [note][: dropped > 0] + lines))
        except queue.Full:
            self.dropped[rank] = dropped + len(lines)

    def show_lines(self, rank: int, lines: list[str]) -> None:
        """Show lines of a rank."""
        for line in lines:
            self.show(rank, line)

    def show_all(self) -> None:
        """Show all that is queued, until the end."""
        for show in iter(self.shown.get, None):
            with contextlib.suppress(Exception):  # further output may be fine
                show()


def reserve_descriptors(needed: int) -> None:
    """Raise the soft limit of open files where it is lower than needed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise OSError(
            errno.EMFILE,
            f"the ranks need {needed} open files on the driver, whose hard limit is {hard}:"
            " raise it with ulimit -Hn",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def raise_in(thread: threading.Thread, error: type[BaseException]) -> None:
    """Raise an error in a thread, whose waits end within about 100 ms."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(error)
    )


def check_report(report: Any) -> tuple[float, float | None, dict[str, Any]]:
    """Check a report of progress; raise `ValueError` for any other message."""
    if not isinstance(report, list) or len(report) != 3:
        raise ValueError("the message is no report of progress")
    step, total, metrics = report
    bounds = [step] if total is None else [step, total]
    if not isinstance(metrics, dict) or not all(map(is_number, [*bounds, *metrics.values()])):
        raise ValueError("the message is no report of progress")
    if not all(map(math.isfinite, bounds)):
        raise ValueError("the message is no report of progress")
    return step, total, metrics


def is_number(value: Any) -> bool:
    """Return whether a value is a number that a float can hold."""
    if not isinstance(value, (int, float)):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True
