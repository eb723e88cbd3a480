# SPDX-License-Identifier: Apache-2.0
"""The log forwarder: a process that copies the output of a rank to its log and to the driver.

The log forwarder is a process, not a thread: a rank that prints from C while it holds the
interpreter's lock would block a thread that needs the lock to read. The process also outlives a
killed rank, and sends the last lines of the rank. It runs this file alone, without site-packages,
to start fast. So this file imports only the standard library, and the core where the connection is
encrypted.

The rank never waits for the driver. Output that cannot be sent at once is queued, up to `QUEUE`
bytes; beyond that, lines are counted and dropped. The log has all lines.

Rank and driver prove to each other that they have the run's key: HMAC-SHA256 over the random
numbers of both. Where the ranks encrypt, all bytes after the proofs are TLS 1.3 with a key that
both ends derive from the same numbers (core/transport/tls.c). Frames follow: kind, length, payload,
and without TLS an HMAC over these and the number of the frame. The driver reads proved frames only,
and never executes lines or reports. A rank sends a large result (`results`) on another connection.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import hmac
import importlib.machinery
import importlib.util
import json
import os
import selectors
import signal
import socket
import struct
import sys
import threading
import time
from typing import Any

HELLO = struct.Struct("!8sIIQ32s32s")  # magic, rank, attempt, process, random number, proof
HEAD = struct.Struct("!cI")
MAGIC = b"sparkOut"
NONCE = 32
TAG = 16
PAYLOAD = 1 << 15  # bytes of a frame
QUEUE = 1 << 18  # bytes of the queue for the driver
LINE = 4096  # bytes; a longer line is sent in pieces
KEPT = 20  # last lines in an error
FLUSH = 5.0  # seconds until the driver must have received the rest
CONNECT = 10.0  # seconds until the driver must have sent its proof
TRIES = 3  # connections that the driver may close before its proof

LINES, DROPPED, PROGRESS, GONE, END = b"L", b"D", b"P", b"G", b"E"
RESULT = b"R"  # the length of a result; the result follows


def prove(key: bytes, role: bytes, theirs: bytes, mine: bytes, names: bytes) -> bytes:
    """Make the proof of one side, or with `role` as ``b"session"`` the key of the frames."""
    return hmac.new(key, role + b"\0" + theirs + mine + names, hashlib.sha256).digest()


def seal(session: bytes, number: int, kind: bytes, payload: bytes, tls: bool = False) -> bytes:
    """Make a frame."""
    head = HEAD.pack(kind, len(payload))
    return head + payload + (b"" if tls else tag(session, number, head, payload))


def tag(session: bytes, number: int, head: bytes, payload: bytes) -> bytes:
    """Make the proof of a frame."""
    message = struct.pack("!Q", number) + head + payload
    return hmac.new(session, message, hashlib.sha256).digest()[:TAG]


def received(session: bytes) -> bytes:
    """Make the driver's confirmation of a complete result."""
    return tag(session, 0, b"received", b"")


def load_core(path: str) -> Any:
    """Load the extension module from its file, because this process finds no package."""
    loader = importlib.machinery.ExtensionFileLoader("sparkring._core", path)
    spec = importlib.util.spec_from_file_location("sparkring._core", path, loader=loader)
    assert spec
    core = importlib.util.module_from_spec(spec)
    loader.exec_module(core)
    return core


class Channel:
    """A connected non-blocking socket, after the proofs with TLS if encryption is on."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.tls: Any = None
        self.events = selectors.EVENT_READ  # of the selector
        connection.setblocking(False)

    def encrypt(self, core: Any, connects: bool, key: bytes) -> None:
        """Use TLS from now on."""
        self.tls = core.Tls(self.socket.fileno(), connects, key)

    def send(self, data: bytes | memoryview) -> int:
        """Send some bytes; raise ``BlockingIOError`` when no byte can be sent now."""
        return int((self.tls or self.socket).send(data))

    def recv(self, most: int) -> bytes:
        """Receive bytes, none at the end; raise ``BlockingIOError`` when there are none now."""
        return bytes((self.tls or self.socket).recv(most))

    def recv_into(self, buffer: memoryview) -> int:
        """Receive into a buffer; 0 at the end, ``BlockingIOError`` as in `recv`."""
        return int((self.tls or self.socket).recv_into(buffer))

    def watch(self, selector: selectors.BaseSelector, data: Any, writing: bool = False) -> None:
        """Set the selector to wait until the channel is readable, or also writable."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0)
        if self.tls:
            events = self.tls.wants(events)
        if events != self.events:
            selector.modify(self.socket, events, data)
            self.events = events

    def close(self) -> None:
        """Close the socket."""
        if self.tls:
            self.tls.close()
        self.socket.close()


class Driver:
    """The connection to the driver: first proofs, then frames."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.key = bytes.fromhex(settings["key"])
        self.core_path: str | None = settings.get("core")  # for TLS; None without TLS
        self.names = struct.pack("!IIQ", settings["rank"], settings["attempt"], os.getppid())
        self.waiting: collections.deque[bytes] = collections.deque()
        self.queued = 0
        self.dropped = 0
        self.tries = 0
        self.deadline = time.monotonic() + CONNECT
        self.begin()

    def begin(self) -> None:
        """Reset the connection. The queue for the driver is kept."""
        self.tries += 1
        self.nonce = os.urandom(NONCE)
        self.session = b""  # empty until the driver has proved itself
        self.theirs = b""
        self.received = b""
        self.number = 0
        self.outgoing = b""
        self.reached: Channel | None = None  # the new channel of `connect`, set by its thread
        self.channel: Channel | None = None  # the channel in the selector

    def connect(self, address: tuple[str, int], ready: int) -> None:
        """Connect in a thread, because resolving names may block; then close `ready`."""
        try:
            self.open(address)
        except (OSError, ImportError):
            self.deadline = 0.0
        os.close(ready)

    def open(self, address: tuple[str, int]) -> None:
        """Connect to the driver."""
        self.core = load_core(self.core_path) if self.core_path else None
        connected = socket.create_connection(address, CONNECT)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, QUEUE)
        self.reached = Channel(connected)

    def read(self) -> None:
        """Read the driver's random number, or its proof."""
        assert self.channel
        piece = self.channel.recv(NONCE)
        if not piece or self.session:
            raise ConnectionError("the driver has closed the connection")
        self.received += piece
        if len(self.received) < NONCE:
            return
        answer, self.received = self.received[:NONCE], self.received[NONCE:]
        if not self.theirs:
            self.theirs = answer
            rank, attempt, process = struct.unpack("!IIQ", self.names)
            proof = prove(self.key, b"rank", self.theirs, self.nonce, self.names)
            self.outgoing = HELLO.pack(MAGIC, rank, attempt, process, self.nonce, proof)
        elif hmac.compare_digest(
            answer, prove(self.key, b"driver", self.nonce, self.theirs, self.names)
        ):
            self.session = prove(self.key, b"session", self.theirs, self.nonce, self.names)
            if self.core:
                secret = prove(self.key, b"tls", self.theirs, self.nonce, self.names)
                self.channel.encrypt(self.core, True, secret)
        else:
            raise OSError("the peer has not proved that it is the driver")

    def put(self, kind: bytes, payload: bytes, lines: int = 0) -> None:
        """Queue a frame. When the queue is full, drop the frame and count its lines."""
        if self.queued + len(payload) > QUEUE:
            self.dropped += lines
            return
        self.count()
        self.frame(kind, payload)

    def count(self) -> None:
        """Queue the number of lines that were dropped."""
        if self.dropped:
            self.frame(DROPPED, b"%d" % self.dropped)
            self.dropped = 0

    def frame(self, kind: bytes, payload: bytes) -> None:
        """Queue a frame without a limit."""
        self.waiting.append(kind + payload)
        self.queued += len(payload)

    def write(self) -> None:
        """Send as many bytes as the connection accepts."""
        assert self.channel
        while self.outgoing or (self.session and self.waiting):
            if not self.outgoing:
                frame = self.waiting.popleft()
                self.queued -= len(frame) - 1
                self.outgoing = seal(
                    self.session, self.number, frame[:1], frame[1:], bool(self.core)
                )
                self.number += 1
            self.outgoing = self.outgoing[self.channel.send(self.outgoing) :]

    @property
    def idle(self) -> bool:
        """Return whether there is nothing to write now."""
        return not self.outgoing and not (self.session and self.waiting)

    @property
    def done(self) -> bool:
        """Return whether all bytes have been sent."""
        return not self.outgoing and not self.waiting


class LogForwarder:
    """Copies the output of the rank until every process that can write to it has ended."""

    def __init__(self, output: int, control: socket.socket, log: int) -> None:
        self.output, self.control, self.log = output, control, log
        self.settings = json.loads(control.recv(1 << 16))
        self.echo: bool = self.settings["echo"]
        self.last: collections.deque[bytes] = collections.deque(maxlen=KEPT)
        self.partial_line = b""
        self.driver: Driver | None = None
        self.ending = 0.0  # time to close the connection to the driver
        self.open = True  # a process can still write output
        self.selector = selectors.DefaultSelector()

    def run(self) -> None:
        """Run until all output is copied."""
        for file in (self.output, self.control.fileno()):
            os.set_blocking(file, False)
        self.selector.register(self.output, selectors.EVENT_READ, self.pump)
        self.selector.register(self.control, selectors.EVENT_READ, self.command)
        self.connect()
        while self.open or self.driver or not self.ending:
            if self.ending and not self.driver:
                self.echo = True  # for processes that the rank leaves behind
            for key, events in self.selector.select(0.5 if self.driver else None):
                key.data(events)
            self.watch_driver()

    # ---- The rank

    def pump(self, _: int = 0) -> bool:
        """Read once; false when there is no output now, or at the end."""
        if not self.open:
            return False
        try:
            piece = os.read(self.output, PAYLOAD // 2)
        except BlockingIOError:
            return False
        if not piece:
            self.open = False
            self.selector.unregister(self.output)
            return False
        self.copy(piece)
        return True

    def copy(self, piece: bytes) -> None:
        """Write a piece to the log, and its complete lines to the driver."""
        if self.echo:
            self.write_log(piece)
        *lines, self.partial_line = (self.partial_line + piece).split(b"\n")
        while len(self.partial_line) > LINE:
            lines.append(self.partial_line[:LINE])
            self.partial_line = self.partial_line[LINE:]
        self.pass_on(lines)

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
        if lines and self.driver:
            self.driver.put(LINES, b"\n".join(lines), len(lines))

    def drain(self) -> None:
        """Read all output that was written so far, an unfinished last line included."""
        while self.open and self.pump():
            pass
        if self.partial_line:
            self.pass_on([self.partial_line])
            self.partial_line = b""

    def command(self, _: int) -> None:
        """Handle a message of the rank. Report a rank that ended without a message as killed."""
        try:
            message = self.control.recv(1 << 16)
        except OSError:
            message = b""
        if message[:1] == PROGRESS:
            if self.driver:
                self.driver.put(PROGRESS, message[1:])
            return
        self.drain()
        last = b"\n".join(self.last)
        if message:
            with contextlib.suppress(OSError):
                self.control.send(last)
        if self.driver:
            self.driver.count()
            self.driver.frame(END if message else GONE, b"" if message else last[-PAYLOAD:])
        self.ending = time.monotonic() + FLUSH
        self.selector.unregister(self.control)
        self.control.close()

    # ---- The driver

    def connect(self) -> None:
        """Connect to the driver, if the rank has its address. Otherwise use the log alone."""
        if not self.settings.get("host"):
            return
        self.driver = Driver(self.settings)
        self.reach(self.driver)

    def reach(self, driver: Driver) -> None:
        """Start a thread that connects to the driver."""
        ready, done = os.pipe()
        self.selector.register(ready, selectors.EVENT_READ, lambda _: self.connected(ready))
        address = (self.settings["host"], self.settings["port"])
        threading.Thread(target=driver.connect, args=(address, done), daemon=True).start()

    def connected(self, ready: int) -> None:
        """Continue after the end of the thread."""
        self.selector.unregister(ready)
        os.close(ready)
        if self.driver and self.driver.reached:
            self.driver.channel = self.driver.reached
            self.selector.register(
                self.driver.channel.socket, selectors.EVENT_READ, self.serve_driver
            )

    def serve_driver(self, _: int) -> None:
        """Read and write on the connection, without blocking."""
        if not self.driver:
            return
        try:
            with contextlib.suppress(BlockingIOError):
                self.driver.read()
            self.driver.write()
        except BlockingIOError:
            pass
        except ConnectionError:
            self.reach_again(self.driver)
        except OSError:
            self.lose_driver()

    def reach_again(self, driver: Driver) -> None:
        """Connect again, unless that is useless."""
        if driver.session or driver.tries == TRIES:
            self.lose_driver()
            return
        assert driver.channel
        self.selector.unregister(driver.channel.socket)
        driver.channel.close()
        driver.begin()
        self.reach(driver)

    def watch_driver(self) -> None:
        """Check the connection to the driver; close it when the driver is late."""
        if not self.driver:
            return
        now = time.monotonic()
        late = not self.driver.session and now > self.driver.deadline
        over = self.ending and (self.driver.done or now > self.ending)
        if late or over:
            self.lose_driver()
            return
        if self.driver.channel:
            self.driver.channel.watch(self.selector, self.serve_driver, not self.driver.idle)

    def lose_driver(self) -> None:
        """Continue with the log alone, and write the queued lines to it."""
        driver, self.driver = self.driver, None
        if not driver:
            return
        if driver.channel:
            self.selector.unregister(driver.channel.socket)
            driver.channel.close()
        if not self.echo:
            self.echo = True
            for frame in driver.waiting:
                if frame[:1] == LINES:
                    self.write_log(frame[1:] + b"\n")


def main() -> None:
    """Run the log forwarder with the descriptors of the command line."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output, control, log = (int(word) for word in sys.argv[1:4])
    LogForwarder(output, socket.socket(fileno=control), log).run()


if __name__ == "__main__":
    main()
