# SPDX-License-Identifier: Apache-2.0
"""The program of one rank: its guardian, its output, and how it has ended."""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import selectors
import signal
import socket
import struct
import subprocess
from typing import TYPE_CHECKING

from sparkring._launch.child_process import describe_code
from sparkring._launch.executable import EXECUTABLE
from sparkring._launch.nameless_file import nameless_file
from sparkring._mpi.lines import Lines, handle_ready

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

KEPT_LINES, KEPT_BYTES = 20, 500  # of the output, for an error
GRACE = 5.0  # seconds for the guardian to end the program's descendants
EVENT = struct.Struct("ii")  # of the guardian, as in core/launch/guardian.h: a kind, and a value
STARTED, ENDED, FAILED, NO_DIRECTORY = range(4)


class Program:
    """A running program. A context manager that ends the program and all its descendants.

    Parameters
    ----------
    command : list of str
    environment : dict of str to str
    directory : str or None
        None: that of this process.
    pmi : int
        The program's end of the connection to the PMI server.
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
        self.command, self.directory = command, directory
        self.prefix, self.write = prefix, write
        self.unwritable = False  # an exception has ended a write
        self.pid: int | None = None  # once the program is about to start
        self.status: int | None = None  # the wait status
        self.problem: str | None = None  # in place of a wait status
        with contextlib.ExitStack() as stack:  # for any exception
            self.selector = selectors.DefaultSelector()  # data: a callable; false at the end
            stack.callback(self.selector.close)
            self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            stack.callback(self.control.close)
            with theirs:
                self.process = self.start_guardian(theirs.fileno())
            stack.callback(self.end)
            self.send_descriptors(environment, pmi)
            self.lines = [self.make_lines(target) for target in (1, 2)]
            self.selector.register(self.control, selectors.EVENT_READ, self.receive)
            stack.pop_all()

    def start_guardian(self, control: int) -> subprocess.Popen[bytes]:
        """Start the guardian, in the environment of this process."""
        rank = str(os.getpid())
        return subprocess.Popen(
            [EXECUTABLE, "guard", rank, self.directory or "", *self.command],
            bufsize=0,
            stdin=control,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C in the terminal ends this process alone
        )

    def send_descriptors(self, environment: dict[str, str], pmi: int) -> None:
        """Send the program's connection and environment to the guardian.

        Children of fork() do not inherit the connection (ring_pmi_fd). No file system, command
        line or environment of another process shows the program's environment.
        """
        with nameless_file("sparkring environment") as file:
            entries = (os.fsencode(f"{name}={value}\0") for name, value in environment.items())
            file.write(b"".join(entries))
            file.flush()
            with contextlib.suppress(OSError):  # the guardian has died: receive() reports it
                socket.send_fds(self.control, [b"P"], [pmi, file.fileno()])

    def make_lines(self, target: int) -> Lines:
        """Copy the output, or the errors."""
        stream = self.process.stdout if target == 1 else self.process.stderr
        assert stream is not None
        lines = Lines(stream, functools.partial(self.copy, target))
        self.selector.register(stream, selectors.EVENT_READ, lines.pump)
        return lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End everything, and copy the rest of the output."""
        try:
            self.end()
            if not self.unwritable:
                self.drain()
        finally:
            self.selector.close()
            for lines in self.lines:
                lines.stream.close()

    def end(self) -> None:
        """End the program with all its descendants: then nothing writes its output any more.

        The guardian ends them when the connection closes. If it does not, the kernel and this
        process end the program and its group.
        """
        with contextlib.suppress(OSError):  # a forked child may hold it, too
            self.control.shutdown(socket.SHUT_RDWR)
        self.control.close()
        try:
            code = self.process.wait(GRACE)
        except subprocess.TimeoutExpired:  # stopped, as by a debugger
            self.process.kill()
            code = self.process.wait()
        if code != 0 and self.pid is not None:
            with contextlib.suppress(OSError):  # the group has ended
                os.killpg(self.pid, signal.SIGKILL)
            self.pid = None

    def copy(self, target: int, text: bytes) -> None:
        """Keep the last lines, and write all."""
        lines = text.split(b"\n")[:-1]
        self.last.extend(line[-KEPT_BYTES:] for line in lines[-KEPT_LINES:])
        try:
            self.write(target, b"".join(b"%s%s\n" % (self.prefix, line) for line in lines))
        except BaseException:
            self.unwritable = True
            raise

    def receive(self) -> bool:
        """Receive how the program has started or ended; false at the end."""
        try:
            message = self.control.recv(EVENT.size)
        except ConnectionResetError:  # the guardian has died before it has received
            message = b""
        if not message:
            code = self.process.wait()
            self.problem = f"was ended, because its guardian {describe_code(code)}"
            return False
        kind, value = EVENT.unpack(message)
        if kind == STARTED:
            self.pid = value
            return True
        if kind == ENDED:
            self.status = value
        else:
            missing = self.directory if kind == NO_DIRECTORY else self.command[0]
            self.problem = f"cannot be started: {os.strerror(value)}: {missing!r}"
        return False

    @property
    def ended(self) -> bool:
        """Whether the program has ended, or was never started."""
        return self.status is not None or self.problem is not None

    def step(self, seconds: float) -> None:
        """Wait for output or for the end, and handle it."""
        handle_ready(self.selector, seconds)

    def drain(self) -> None:
        """Copy the rest of the output, after the end."""
        for lines in self.lines:
            lines.drain()

    def tail(self) -> str:
        """Return the last lines of the output, for an error."""
        whole = b"\n".join(self.last).decode(errors="replace").encode()
        text = whole[-KEPT_BYTES:].decode(errors="ignore")  # a cut character is left out
        return f"; its last lines:\n{text}" if text.strip() else "; it has printed nothing"
