# SPDX-License-Identifier: Apache-2.0
"""The thread that reads ahead.

It begins to read a block while the blocks that are ready come from fewer than two row groups. An
error in the thread is raised where its block would be taken. The thread knows the blocks and not
the loader, so a loader that nobody uses any more ends its thread.

A read of a storage that hangs cannot be interrupted. So `close` waits for the thread some seconds
at most, and the thread is a daemon, for which the end of the process waits no longer.

Python ends a thread that comes back to it from Arrow, as into a file system in Python, while the
interpreter is being finalized. The process then hangs or is aborted. So readers are closed before.
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Generator
from typing import TYPE_CHECKING

from sparkring._core import UnsupportedError

if TYPE_CHECKING:
    from sparkring.data._parquet.blocks import Block

AHEAD = 2  # row groups
CLOSE = 5.0  # seconds that `close` waits for the thread


class Reader:
    """Blocks, read ahead."""

    def __init__(self, blocks: Generator[Block, None, None]) -> None:
        self._blocks = blocks
        self._ready: deque[Block] = deque()
        self._groups = 0  # that the ready blocks come from
        self._failure: BaseException | None = None
        self._closed = self._ended = False
        self._changed = threading.Condition()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="sparkring-reader", daemon=True)
        _at_exit()
        _running.add(self)
        self._thread.start()

    def get(self) -> Block | None:
        """Wait for the next block and return it; None after the last block, and after `close`."""
        if os.getpid() != self._process:
            raise UnsupportedError(
                "this process is a fork of the one that made the loader, and threads are not"
                " forked: make the loader in the process that uses it"
            )
        with self._changed:
            while not (self._ready or self._ended or self._closed):
                self._changed.wait()
            if self._ready:
                block = self._ready.popleft()
                self._groups -= block.groups
                self._changed.notify_all()
                return block
        if self._failure is not None:
            raise self._failure
        return None

    def stop(self) -> None:
        """Have the thread end when it has read its row group. This does not wait."""
        if os.getpid() != self._process:
            return  # a fork has no thread, and perhaps a lock that nobody holds
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()

    def close(self, seconds: float = CLOSE) -> None:
        """Stop the thread, and wait for its end, but not for a storage that hangs."""
        self.stop()
        if os.getpid() == self._process and threading.current_thread() is not self._thread:
            self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while self._has_space():
                block = next(self._blocks, None)
                if block is None:
                    break
                self._put(block)
                del block  # else its memory would stay while the next block is read
        except BaseException as error:
            _forget_rows(error)
            self._failure = error
        self._blocks.close()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _has_space(self) -> bool:
        """Wait until another block may be read; return whether it is to be read."""
        with self._changed:
            while max(self._groups, len(self._ready)) >= AHEAD and not self._closed:
                self._changed.wait()
            return not self._closed

    def _put(self, block: Block) -> None:
        with self._changed:
            if not self._closed:
                self._ready.append(block)
                self._groups += block.groups
                self._changed.notify_all()


def _forget_rows(error: BaseException | None) -> None:
    """Free what the calls that have failed hold: an error may be kept for long."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__


# ---- The end of the process ----------------------------------------------------------------------

_running: weakref.WeakSet[Reader] = weakref.WeakSet()  # a reader that runs is held by its thread


@functools.cache
def _at_exit() -> None:
    """Close the readers at exit, before what Arrow does then: it was imported earlier."""
    atexit.register(_close_all)


def _close_all() -> None:
    """Close the readers, all in the time of one."""
    deadline = time.monotonic() + CLOSE
    readers = list(_running)
    for reader in readers:
        reader.stop()
    for reader in readers:
        reader.close(max(0.0, deadline - time.monotonic()))
