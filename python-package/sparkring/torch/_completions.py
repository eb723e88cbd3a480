# SPDX-License-Identifier: Apache-2.0
"""Threads that complete the futures of a group, in the order of the requests.

One thread at a time has the turn: it waits for the oldest work, passes the turn on, and then runs
the callbacks of the future. A callback may wait for another future (the hook of PowerSGD does). So
no work stays in the queue while all threads run callbacks: another thread starts. There is one
thread in most programs, and one more for each callback that blocks. None starts before the first
future.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkring.torch._work import Work


class Completions:
    """The queue of works whose futures are awaited, and its threads."""

    def __init__(self, where: str) -> None:
        self.where = where  # the group and the rank, for messages
        self._queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._turn, self._count = threading.Lock(), threading.Lock()
        self._idle = 0  # threads that have the turn or wait for it
        self._threads: list[threading.Thread] = []

    def complete(self, work: Work) -> None:
        """Complete the future of a work when the work is done."""
        self._queue.put(work)
        self._stand_by()

    def _stand_by(self) -> None:
        """Start a thread unless one is free."""
        with self._count:
            if self._idle > 0:
                return
            self._idle += 1
            thread = threading.Thread(target=self._run, name="sparkring-futures", daemon=True)
            self._threads.append(thread)
        thread.start()

    def _run(self) -> None:
        while True:
            with self._turn:
                work = self._queue.get()
                if work is None:
                    self._queue.put(None)  # for the next thread
                    return
                work.settle()
            with self._count:
                self._idle -= 1
            if not self._queue.empty():
                self._stand_by()
            work.announce()
            del work  # its tensors need not wait for the next work
            with self._count:
                self._idle += 1

    def close(self, seconds: float) -> None:
        """End the threads, once their works are done."""
        self._queue.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(seconds)
