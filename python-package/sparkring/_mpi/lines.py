# SPDX-License-Identifier: Apache-2.0
"""The output of a program, line by line."""

from __future__ import annotations

import os
import select
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import selectors
    from collections.abc import Callable

PIECE = 1 << 16  # bytes of a read
PIPE_PIECES = 64  # more than a pipe holds by default
LONGEST_LINE = 1 << 16  # bytes; a longer line is broken


def write_all(target: int, text: bytes) -> None:
    """Write all bytes to a descriptor, which another process may have made non-blocking."""
    while text:
        try:
            text = text[os.write(target, text) :]
        except BlockingIOError:
            select.select([], [target], [])


def handle_ready(selector: selectors.BaseSelector, seconds: float | None) -> None:
    """Wait for descriptors, and call the data of each, which returns false at the end."""
    for key, _ in selector.select(seconds):
        if not key.data():
            selector.unregister(key.fileobj)


class Lines:
    """Copies what a program prints line by line.

    Parameters
    ----------
    stream : binary file
    write : callable
        Called with complete lines.
    """

    def __init__(self, stream: IO[bytes], write: Callable[[bytes], None]) -> None:
        self.stream = stream
        self.write = write
        self.partial_line: list[bytes] = []  # in pieces

    def pump(self) -> bool:
        """Read once and copy the complete lines; false at the end."""
        piece = self.stream.read(PIECE)
        if not piece:  # b"" at the end, None when nothing is left to drain
            self.finish()
            return False
        whole, end, rest = piece.rpartition(b"\n")
        if end:
            self.write(b"".join([*self.partial_line, whole, end]))
            self.partial_line = []
        if rest:
            self.partial_line.append(rest)
        if sum(map(len, self.partial_line)) >= LONGEST_LINE:
            self.finish()
        return True

    def finish(self) -> None:
        """Copy a last line without a newline."""
        if self.partial_line:
            self.write(b"".join([*self.partial_line, b"\n"]))
            self.partial_line = []

    def drain(self) -> None:
        """Copy the rest without waiting: all processes that should write are dead.

        A process that has escaped may write for ever, so no more is read than a pipe holds.
        """
        os.set_blocking(self.stream.fileno(), False)
        for _ in range(PIPE_PIECES):
            if not self.pump():
                return
        self.finish()
