# SPDX-License-Identifier: Apache-2.0
"""The log forwarder: a process that copies the output of a rank to its log and to the driver.

The log forwarder is a child that the task forks before its rank. It outlives a killed rank and a
killed task, and sends the last lines of the rank. Processes that the rank leaves behind keep its
output open, and the log forwarder runs until they have ended.

The rank never waits for the driver. A thread sends the output (`Outbox`). Output that cannot be
sent at once is queued, up to `QUEUE` bytes; beyond that, lines are counted and dropped. The log has
all lines.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import mmap
import os
import selectors
import signal
import socket
import threading
import time
import traceback
from typing import TYPE_CHECKING, NoReturn

from sparkring._core import RingError
from sparkring.spark import _driver_link as driver_link
from sparkring.spark._driver_link import DriverLink

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkring.spark._driver_link import Address

QUEUE = 1 << 22  # bytes of the queue for the driver
PIECE = 1 << 15  # bytes of one read of the output
LINE = 4096  # bytes; a longer line is sent in pieces
KEPT = 20  # last lines in an error
FLUSH = 5.0  # seconds until the driver must have received the rest
CONNECT = 10.0  # seconds to connect to the driver
JOIN = 2.0  # seconds that the end of a rank waits for the connection
STALL = 60.0  # seconds in which the driver must take a part of a result
TICK = 0.005  # seconds between two checks of the thread

PROGRESS, RESULT, END = b"P", b"R", b"E"  # messages of the task and its rank


class Outbox:
    """Sends frames to the driver, in a thread."""

    def __init__(self, address: Address, rank: int) -> None:
        self.address, self.rank = address, rank
        self.frames: collections.deque[tuple[int, bytes]] = collections.deque()
        self.queued = 0
        self.dropped = 0
        self.changed = threading.Condition()
        self.connected = False
        self.error: Exception | None = None
        self.result: memoryview | None = None
        self.moved = 0.0  # when a part of the result was last sent
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def put(self, kind: int, payload: bytes, lines: int = 0) -> None:
        """Queue a frame. When the queue is full, drop a frame of lines and count them."""
        with self.changed:
            if lines and self.queued + len(payload) > QUEUE:
                self.dropped += lines
                return
            if self.dropped:
                self.frames.append((driver_link.DROPPED, b"%d" % self.dropped))
                self.dropped = 0
            self.frames.append((kind, payload))
            self.queued += len(payload)
            self.changed.notify()

    def put_result(self, value: memoryview) -> None:
        """Queue the result. `result` is None when the driver has it."""
        self.result = value
        self.note_move()
        self.put(driver_link.RESULT, b"")

    def note_move(self) -> None:
        """Note that a part of the result was sent."""
        self.moved = time.monotonic()

    def work(self) -> None:
        """Connect, and send frames up to the last one. Frames of an error stay queued."""
        try:
            link = DriverLink(self.address, self.rank, driver_link.TASK, CONNECT)
            link.await_confirmation()
            self.connected = True
            kind = None
            while kind not in (driver_link.GONE, driver_link.END):
                kind = self.send_next(link)
            link.ring.close(FLUSH)
        except (RingError, OSError, ValueError) as error:
            self.error = error

    def send_next(self, link: DriverLink) -> int:
        """Send the oldest frame, and return its kind."""
        with self.changed:
            self.changed.wait_for(lambda: self.frames)
            kind, payload = self.frames[0]
        if kind == driver_link.RESULT and self.result is not None:
            link.send_result(self.result, self.note_move)
            self.result = None
        else:
            link.send(kind, payload)
        with self.changed:
            self.frames.popleft()
            self.queued -= len(payload)
        return kind


class LogForwarder:
    """Copies the output of the rank until every process that can write to it has ended.

    Parameters
    ----------
    output, log : int
        Descriptors of the output of the rank, and of its log.
    control : socket.socket
        Connects the task and its rank with the log forwarder.
    echo : bool
        Whether the output is also in the log.
    outbox : Outbox or None
        Sends the output to the driver.
    """

    def __init__(
        self, output: int, control: socket.socket, log: int, echo: bool, outbox: Outbox | None
    ) -> None:
        self.output, self.control, self.log = output, control, log
        self.echo, self.outbox = echo, outbox
        self.last: collections.deque[bytes] = collections.deque(maxlen=KEPT)
        self.partial_line = b""
        self.ending = 0.0  # when the thread of the outbox must have ended
        self.open = True  # a process can still write output
        self.waiting: Callable[[], bool] | None = None  # an answer to the task, which is due
        self.selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Run until all output is copied."""
        for file in (self.output, self.control.fileno()):
            os.set_blocking(file, False)
        self.selector.register(self.output, selectors.EVENT_READ, self.pump)
        self.selector.register(self.control, selectors.EVENT_READ, self.command)
        while self.open or self.outbox or not self.ending:
            if self.ending and not self.outbox:
                self.echo = True  # for processes that the rank leaves behind
            for key, _ in self.selector.select(TICK if self.waiting or self.ending else None):
                key.data()
            if self.waiting and self.waiting():
                self.waiting = None
            self.watch_outbox()

    # ---- The rank

    def pump(self) -> bool:
        """Read once; false when there is no output now, or at the end."""
        if not self.open:
            return False
        try:
            piece = os.read(self.output, PIECE)
        except BlockingIOError:
            return False
        if not piece:
            self.open = False
            self.selector.unregister(self.output)
            return False
        if self.echo:
            self.write_log(piece)
        *lines, self.partial_line = (self.partial_line + piece).split(b"\n")
        while len(self.partial_line) > LINE:
            lines.append(self.partial_line[:LINE])
            self.partial_line = self.partial_line[LINE:]
        self.pass_on(lines)
        return True

    def write_log(self, piece: bytes) -> None:
        """Write all bytes. When the log cannot be written, continue to read."""
        while piece:
            try:
                piece = piece[os.write(self.log, piece) :]
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                return

    def pass_on(self, lines: list[bytes]) -> None:
        """Keep the last lines, and queue lines for the driver."""
        self.last.extend(line[:LINE] for line in lines)
        if lines and self.outbox:
            self.outbox.put(driver_link.LINES, b"\n".join(lines), len(lines))

    def drain(self) -> None:
        """Read all output that was written so far, an unfinished last line included."""
        while self.open and self.pump():
            pass
        if self.partial_line:
            self.pass_on([self.partial_line])
            self.partial_line = b""

    def command(self) -> None:
        """Handle a message of the task. Report a task that ended without a message as killed."""
        try:
            message, descriptors, _, _ = socket.recv_fds(self.control, driver_link.PAYLOAD, 1)
        except OSError:
            message, descriptors = b"", []
        if message[:1] == PROGRESS:
            if self.outbox:
                self.outbox.put(driver_link.PROGRESS, message[1:])
        elif message[:1] == RESULT:
            self.take_result(descriptors[0])
        else:
            self.end(killed=not message)

    def take_result(self, descriptor: int) -> None:
        """Send a result, and answer with the reason why it was not sent, or with nothing."""
        if self.outbox is None:
            self.answer("the driver does not listen")
            return
        with open(descriptor, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.outbox.put_result(memoryview(mapped))
        self.waiting = self.result_is_sent

    def result_is_sent(self) -> bool:
        """Answer when the driver has the result, or cannot get it."""
        outbox = self.outbox
        if outbox is None or outbox.result is None:
            self.answer("" if outbox else "the connection to the driver was lost")
        elif outbox.error is not None:
            self.answer(f"{type(outbox.error).__name__}: {outbox.error}")
        elif time.monotonic() > outbox.moved + STALL:
            self.answer(f"TimeoutError: the driver has received nothing for {STALL:.0f} s")
            self.outbox = None
        else:
            return False
        return True

    def answer(self, text: str) -> None:
        """Send a text to the task, which may have ended."""
        with contextlib.suppress(OSError):
            self.control.send(END + text.encode(errors="replace"))

    def end(self, killed: bool) -> None:
        """Send the last lines to the task, or to the driver if the task was killed."""
        self.drain()
        last = b"\n".join(self.last)
        self.selector.unregister(self.control)
        if self.outbox:
            kind = driver_link.GONE if killed else driver_link.END
            self.outbox.put(kind, last[-PIECE:] if killed else b"")
        self.ending = time.monotonic() + FLUSH
        joined = time.monotonic() + JOIN

        def has_joined() -> bool:
            outbox = self.outbox
            connects = outbox and outbox.thread.is_alive() and not outbox.connected
            if connects and not killed and time.monotonic() < joined:
                return False
            self.answer(last.decode(errors="replace"))
            self.control.close()
            return True

        self.waiting = has_joined

    # ---- The driver

    def watch_outbox(self) -> None:
        """Continue with the log alone when the driver was lost, has all output, or is late."""
        outbox = self.outbox
        if outbox is None or self.waiting:
            return
        late = self.ending and time.monotonic() > self.ending
        if outbox.thread.is_alive() and not late:
            return
        self.outbox = None
        if (outbox.error or outbox.frames) and not self.echo:
            self.echo = True
            for kind, payload in list(outbox.frames):
                if kind == driver_link.LINES:
                    self.write_log(payload + b"\n")
            self.write_log(self.partial_line)


def become(
    output: int,
    control: socket.socket,
    silent: bool,
    echo: bool,
    address: Address | None,
    rank: int,
) -> NoReturn:
    """Become the log forwarder, in a forked process."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        gc.freeze()  # no object of the task may close a descriptor that has a new owner
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null if silent else 2, 2)
        os.dup2(2, 1)  # Spark's workers show no descriptor 1
        close_all_but({0, 1, 2, output, control.fileno()})
        outbox = Outbox(address, rank) if address else None
        LogForwarder(output, control, 2, echo, outbox).run()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def close_all_but(kept: set[int]) -> None:
    """Close the connection of the worker to Spark, among others."""
    begin = 0
    for number in [*sorted(kept), os.sysconf("SC_OPEN_MAX")]:
        if begin < number:  # an empty range may close all descriptors
            os.closerange(begin, number)
        begin = number + 1
