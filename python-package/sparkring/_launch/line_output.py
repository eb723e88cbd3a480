# SPDX-License-Identifier: Apache-2.0
"""Output of the ranks of ``sparkring-run``: line by line, each with the rank before it.

The reader of the output may pause or go away. A paused reader must not block the handlers of
signals, which print lines, too: those lines follow the write that has begun.
"""

from __future__ import annotations

import os
import select
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def say_ours(text: str) -> bytes:
    """Make a line of our own."""
    return f"sparkring-run: {text}\n".encode(errors="backslashreplace")


class LineOutput:
    """Writes all lines to the descriptors 1 and 2.

    Parameters
    ----------
    begin : callable
        Called when a write has begun, which may wait for a reader.
    lose : callable
        Called with the error when a descriptor takes no output any more.
    """

    def __init__(self, begin: Callable[[], object], lose: Callable[[OSError], None]) -> None:
        self.begin, self.lose = begin, lose
        self.writing = False  # and maybe waiting for a reader
        self.unsaid: list[tuple[int, bytes]] = []  # lines of handlers, meanwhile
        self.lost: set[int] = set()  # descriptors that take no output any more

    def say(self, text: str) -> None:
        """Print a line of our own."""
        self.write(2, say_ours(text))

    def write(self, target: int, text: bytes) -> None:
        """Write all of it, unless that has failed before; for a handler, after what is begun."""
        if self.writing:
            self.unsaid.append((target, text))
            return
        try:
            self.writing = True
            self.begin()
            while text and target not in self.lost:
                text = text[push(target, text) :]
            self.writing = False
        except OSError as error:
            self.writing = False
            self.lost.add(target)
            self.lose(error)
        while self.unsaid:
            self.write(*self.unsaid.pop(0))


def push(target: int, text: bytes) -> int:
    """Write some of it, and wait for that; gives how much."""
    try:
        return os.write(target, text)
    except BlockingIOError:  # another process has made our shared output non-blocking
        select.select([], [target], [])
        return 0


class Lines:
    """Copies the output of a rank line by line, each with the rank before it."""

    def __init__(self, stream: IO[bytes], prefix: bytes, write: Callable[[bytes], None]) -> None:
        self.stream = stream
        self.prefix = prefix
        self.write = write
        self.begun: list[bytes] = []  # the pieces of a line that has not ended

    def pump(self) -> bool:
        """Read once and print the lines that are whole; false at the end."""
        piece = self.stream.read(1 << 16)
        if not piece:  # b"" at the end, None when there is nothing more to drain
            self.finish()
            return False
        *lines, rest = piece.split(b"\n")
        if lines:
            lines[0] = b"".join([*self.begun, lines[0]])
            self.begun = []
            self.write(b"".join(self.prefix + line + b"\n" for line in lines))
        if rest:
            self.begun.append(rest)
        return True

    def finish(self) -> None:
        """Print a last line that does not end."""
        if self.begun:
            self.write(b"".join([self.prefix, *self.begun, b"\n"]))
            self.begun = []

    def drain(self) -> None:
        """Print the rest, without waiting: all processes that could write more are dead."""
        os.set_blocking(self.stream.fileno(), False)
        while self.pump():
            pass
