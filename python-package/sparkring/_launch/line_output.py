# SPDX-License-Identifier: Apache-2.0
"""Output of the ranks of ``sparkring-run``: line by line, each with the rank before it.

The reader of the output may pause or exit. A paused reader must not block the handlers of signals.
Handlers print lines, too: the lines are queued until the current write ends.
"""

from __future__ import annotations

import os
import select
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import selectors
    from collections.abc import Callable

PIECE = 1 << 16  # bytes of a read
PIPE_PIECES = 64  # more than a pipe holds by default


def own_line(text: str) -> bytes:
    """Format a line of the launcher itself."""
    return f"sparkring-run: {text}\n".encode(errors="backslashreplace")


class LineOutput:
    """Writes all lines to the descriptors 1 and 2.

    Parameters
    ----------
    begin : callable
        Called when a write begins. A write may wait for a reader.
    fail : callable
        Called with the error when a descriptor can no longer be written.
    """

    def __init__(self, begin: Callable[[], object], fail: Callable[[OSError], None]) -> None:
        self.begin, self.fail = begin, fail
        self.writing = False  # possibly blocked by a reader
        self.queued: list[tuple[int, bytes]] = []  # lines of handlers during a write
        self.failed: set[int] = set()  # descriptors that can no longer be written

    def report(self, text: str) -> None:
        """Print a line of the launcher itself."""
        self.write(2, own_line(text))

    def write(self, target: int, text: bytes) -> None:
        """Write all bytes, unless a write has failed before. A handler queues its bytes."""
        if self.writing:
            self.queued.append((target, text))
            return
        try:
            self.writing = True
            self.begin()
            if target not in self.failed:
                write_all(target, text)
            self.writing = False
        except OSError as error:
            self.writing = False
            self.failed.add(target)
            self.fail(error)
        while self.queued:
            self.write(*self.queued.pop(0))


def write_some(target: int, text: bytes) -> int:
    """Wait, write some bytes, and return their number."""
    try:
        return os.write(target, text)
    except BlockingIOError:  # another process has made the shared output non-blocking
        select.select([], [target], [])
        return 0


def write_all(target: int, text: bytes) -> None:
    """Write all bytes."""
    while text:
        text = text[write_some(target, text) :]


def handle_ready(selector: selectors.BaseSelector, seconds: float | None) -> None:
    """Wait for descriptors, and call the data of each, which returns false at the end."""
    for key, _ in selector.select(seconds):
        if not key.data():
            selector.unregister(key.fileobj)


class Lines:
    """Copies the output of a rank line by line, each with the rank before it.

    Parameters
    ----------
    stream : binary file
    prefix : bytes
    write : callable
        Called with complete lines.
    longest : int or None
        A longer line is broken. None: lines of any length are kept until they end.
    """

    def __init__(
        self,
        stream: IO[bytes],
        prefix: bytes,
        write: Callable[[bytes], None],
        longest: int | None = None,
    ) -> None:
        self.stream = stream
        self.prefix = prefix
        self.write = write
        self.longest = longest
        self.partial_line: list[bytes] = []  # in pieces

    def pump(self) -> bool:
        """Read once and print the complete lines; false at the end."""
        piece = self.stream.read(PIECE)
        if not piece:  # b"" at the end, None when nothing is left to drain
            self.finish()
            return False
        *lines, rest = piece.split(b"\n")
        if lines:
            lines[0] = b"".join([*self.partial_line, lines[0]])
            self.partial_line = []
            self.write(b"".join(self.prefix + line + b"\n" for line in lines))
        if rest:
            self.partial_line.append(rest)
        if self.longest is not None and sum(map(len, self.partial_line)) >= self.longest:
            self.finish()
        return True

    def finish(self) -> None:
        """Print a last line without a newline."""
        if self.partial_line:
            self.write(b"".join([self.prefix, *self.partial_line, b"\n"]))
            self.partial_line = []

    def drain(self) -> None:
        """Print the rest without waiting: all processes that should write are dead.

        A process that has escaped may write for ever, so no more is read than a pipe holds.
        """
        os.set_blocking(self.stream.fileno(), False)
        for _ in range(PIPE_PIECES):
            if not self.pump():
                return
        self.finish()
