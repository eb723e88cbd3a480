# SPDX-License-Identifier: Apache-2.0
"""The program of one rank: its guardian, its output, and how it has ended."""

from __future__ import annotations

import collections
import functools
import selectors
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from sparkring._launch import guardian
from sparkring._launch.line_output import Lines, write_some

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

KEPT_LINES, KEPT_BYTES = 20, 500  # of the output, for an error
GRACE = 2.0  # seconds for the guardian to end the program's descendants


class Program:
    """A running program. A context manager that ends the program and all its descendants.

    Parameters
    ----------
    command : list of str
    environment : dict of str to str
    directory : str or None
        None: that of this process.
    pmi : int
        The program's end of the connection to the PMI server, which has this number there, too.
    prefix : bytes
        Before each line of output.
    write : callable
        Called with a descriptor, 1 or 2, and lines.
    """

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        directory: str | None,
        pmi: int,
        prefix: bytes,
        write: Callable[[int, bytes], None],
    ) -> None:
        self.last: collections.deque[bytes] = collections.deque(maxlen=KEPT_LINES)
        self.prefix, self.write = prefix, write
        self.status: int | None = None  # the wait status
        self.errno: int | None = None  # why the program could not be started
        self.selector = selectors.DefaultSelector()  # data: a callable; false at the end
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.process = subprocess.Popen(
                self.guardian(theirs.fileno(), pmi, command),
                bufsize=0,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd=directory,
                pass_fds=(theirs.fileno(), pmi),
                start_new_session=True,  # a Ctrl-C in the terminal ends this process alone
            )
        except OSError:
            self.control.close()
            self.selector.close()
            raise
        finally:
            theirs.close()
        self.lines = []
        for target, stream in ((1, self.process.stdout), (2, self.process.stderr)):
            assert stream is not None
            lines = Lines(stream, b"", functools.partial(self.copy, target))
            self.lines.append(lines)
            self.selector.register(stream, selectors.EVENT_READ, lines.pump)
        self.selector.register(self.control, selectors.EVENT_READ, self.hear)

    @staticmethod
    def guardian(control: int, pmi: int, command: list[str]) -> list[str]:
        """Make the command line of the guardian."""
        python = [sys.executable, "-E", "-s", "-S"]  # not -I: it finds process_tree beside its file
        return [*python, guardian.__file__, str(control), str(pmi), *command]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End everything. The guardian ends the program when the connection closes."""
        self.control.close()
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:  # stopped, as by a debugger
            self.process.kill()
            self.process.wait()
        self.selector.close()
        for lines in self.lines:
            lines.stream.close()

    def copy(self, target: int, text: bytes) -> None:
        """Keep the last lines, and write all."""
        lines = text.splitlines()
        self.last.extend(lines)
        self.write(target, b"".join(b"%s%s\n" % (self.prefix, line) for line in lines))

    def hear(self) -> bool:
        """Read how the program has ended; false then."""
        message = self.control.recv(64)
        if message[:1] == guardian.FAILED:
            self.errno = int(message[1:])
        elif message[:1] == guardian.ENDED:
            self.status = int(message[1:])
        else:  # the guardian was killed, and with it the program
            self.status = 9
        return False

    @property
    def ended(self) -> bool:
        """Whether the program has ended, or was never started."""
        return self.status is not None or self.errno is not None

    def step(self, seconds: float) -> None:
        """Wait for output or for the end, and handle it."""
        for key, _ in self.selector.select(seconds):
            if not key.data():
                self.selector.unregister(key.fileobj)

    def drain(self) -> None:
        """Copy the rest of the output. Nothing writes any more."""
        for lines in self.lines:
            lines.drain()

    def tail(self) -> str:
        """Return the last lines of the output, for an error."""
        if self.errno is not None:
            return ""
        text = b"\n".join(self.last)[-KEPT_BYTES:].decode(errors="replace")
        return f"; its last lines:\n{text}" if text.strip() else "; it has printed nothing"


def write_all(target: int, text: bytes) -> None:
    """Write to a descriptor of this process."""
    while text:
        text = text[write_some(target, text) :]
