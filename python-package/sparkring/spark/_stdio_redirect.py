# SPDX-License-Identifier: Apache-2.0
"""Redirection of the output of a rank, from Python, C and children, to its log forwarder.

Descriptors 1 and 2 are a pipe to the log forwarder while the rank works, and are restored
afterwards. Where no process can be started, the rank prints to its own descriptors.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from typing import IO, TYPE_CHECKING, Any

from sparkring._core import InvalidError
from sparkring.spark import _driver_link as driver_link
from sparkring.spark import _log_forwarder as log_forwarder

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from sparkring.spark._driver_link import Address

WAIT = 10.0  # seconds for the last lines
LONGEST = 1 << 15  # bytes of a report of progress
REAP = 0.1  # seconds for a log forwarder to end, which mostly has no more to copy

running: list[int] = []  # log forwarders of this process, not yet reaped


def reap(seconds: float = 0) -> None:
    """Reap the log forwarders that have ended, and wait a short time for all to end.

    Spark uses a worker again, in which each log forwarder would stay as a zombie.
    """
    until = time.monotonic() + seconds
    while True:
        running[:] = [process for process in running if not has_ended(process)]
        if not running or time.monotonic() >= until:
            return
        time.sleep(0.001)


def has_ended(process: int) -> bool:
    """Reap a process; false while it runs."""
    try:
        return os.waitpid(process, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


class StdioRedirect:
    """Sends the output of this process to a log forwarder, inside a ``with`` block.

    Parameters
    ----------
    rank : int
        The rank that prints.
    address : Address or None
        The driver that shows the output.
    echo : bool or None
        Whether the output is also in this process's own output.
    """

    def __init__(self, rank: int, address: Address | None, echo: bool | None) -> None:
        self.rank, self.address = rank, address
        self.echo, self.silent = bool(echo), echo is None
        self.control: socket.socket | None = None
        self.saved: list[int] = []
        self.lines: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        """Start the log forwarder."""
        flush()
        with contextlib.suppress(OSError):
            self.start()
        return self

    def __exit__(
        self,
        type: type[BaseException] | None,  # noqa: A002 (Python's name)
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the redirection, if `finish` has not."""
        self.finish()

    def start(self) -> None:
        """Start the log forwarder, and redirect the output to it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reader, writer = os.pipe()
        try:
            self.spawn(reader, theirs)
            ours.settimeout(WAIT)
            self.saved = [os.dup(1), os.dup(2)]
            os.dup2(writer, 1)
            os.dup2(writer, 2)
            self.control = ours
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(reader)
            os.close(writer)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, ValueError):
                stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]

    def spawn(self, output: int, control: socket.socket) -> None:
        """Start the process without waiting for it: it may have more to copy than this rank."""
        reap()
        process = os.fork()
        if process == 0:
            log_forwarder.become(output, control, self.silent, self.echo, self.address, self.rank)
        running.append(process)

    def report(self, step: float, total: float | None, metrics: dict[str, Any]) -> None:
        """Send a report of progress, if the log forwarder can receive it now."""
        text = json.dumps([step, total, metrics]).encode()
        if len(text) > LONGEST:
            raise InvalidError(
                f"this report of {len(metrics)} metrics takes {len(text)} bytes: progress takes"
                f" {LONGEST}"
            )
        control = self.control  # another thread may call finish() now
        if control is not None:
            with contextlib.suppress(OSError):
                control.send(log_forwarder.PROGRESS + text, socket.MSG_DONTWAIT)

    def log(self, text: str) -> None:
        """Write to the log alone, if this process's output goes there."""
        if self.echo:
            with contextlib.suppress(OSError):
                os.write(self.saved[1] if self.saved else 2, text.encode(errors="replace"))

    def send_result(self, file: IO[bytes]) -> str:
        """Send a file to the driver as the result; return why it has not arrived, or nothing."""
        if self.control is None:
            return "the task could start no process that sends it"
        try:
            self.control.settimeout(None)
            socket.send_fds(self.control, [log_forwarder.RESULT], [file.fileno()])
            answer = self.control.recv(driver_link.PAYLOAD)
            self.control.settimeout(WAIT)
        except OSError as error:
            return f"{type(error).__name__}: {error}"
        return answer[1:].decode() if answer else "the process that sends it was killed"

    def finish(self) -> tuple[str, ...]:
        """Restore the descriptors; return the last lines of the log forwarder."""
        if self.control is None:
            return self.lines
        flush()
        for number, saved in zip((1, 2), self.saved):
            os.dup2(saved, number)
            os.close(saved)
        with contextlib.suppress(OSError), self.control as control:
            control.send(log_forwarder.END)
            text = control.recv(1 << 18)[1:].decode(errors="replace")
            self.lines = tuple(text.splitlines())
        self.control = None
        reap(REAP)
        return self.lines


def flush() -> None:
    """Flush the output buffers of Python."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.flush()
