# SPDX-License-Identifier: Apache-2.0
"""The log server: receives the output and the reports of all ranks on the driver.

The log forwarders of the ranks connect to it. A thread accepts, checks and shows. A job does not
depend on the server: where executors cannot reach the driver, their logs have the same lines.

Input is hostile until it is proved (`log_forwarder` has the protocol). A pending connection has no
proof yet. It may send one message of fixed size, in a short time. The number of pending connections
is bounded: when new connections wait, the server drops the oldest. After the proof come frames of
bounded size. The server shows frames as text or reads them as JSON, and in no other way. An error
on a connection ends that connection alone.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import json
import math
import os
import secrets
import selectors
import socket
import struct
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from sparkring import _core
from sparkring.spark import _log_forwarder as log_forwarder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PENDING = 64  # pending connections: without a proof yet
PATIENCE = 5.0  # seconds for a proof
COURTESY = 0.1  # seconds for a proof when new connections wait
PIECE = 1 << 16  # bytes of one read
CHUNK = 1 << 20  # bytes of one read of a result
PAUSE = 0.1  # seconds without accept() when descriptors have run out
LACKING = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Address(NamedTuple):
    """The address of the driver, for the ranks. The key permits to write to its output."""

    host: str
    port: int
    key: str
    tls: bool = False


class Peer:
    """A connection: pending until its proof, then of the log forwarder of a rank."""

    def __init__(self, connection: socket.socket, key: bytes, tls: bool = False) -> None:
        self.channel = log_forwarder.Channel(connection)
        self.key, self.tls = key, tls
        self.nonce = os.urandom(log_forwarder.NONCE)
        self.rank: int | None = None
        self.host = ""
        self.session = b""
        self.number = 0
        self.received = bytearray()
        self.result: bytearray | None = None  # being received, with its full length
        self.result_bytes = 0  # received bytes of the result
        self.accepted_at = time.monotonic()
        connection.send(self.nonce)

    def read(self) -> Iterator[tuple[bytes, bytes]]:
        """Read once; return the complete frames. Raise ``ConnectionError`` at the end."""
        if self.result is not None:
            self.read_result(self.result)
            return
        piece = self.channel.recv(PIECE)
        if not piece:
            raise ConnectionError("the log forwarder has closed the connection")
        self.received += piece
        if self.rank is not None or self.prove():
            yield from iter(self.frame, None)

    def prove(self) -> bool:
        """Check the proof of the rank, and send the proof of the driver; false while incomplete."""
        hello = log_forwarder.HELLO
        if len(self.received) < hello.size:
            return False
        magic, rank, attempt, process, nonce, proof = hello.unpack(self.received[: hello.size])
        del self.received[: hello.size]
        names = struct.pack("!IIQ", rank, attempt, process)
        expected = log_forwarder.prove(self.key, b"rank", self.nonce, nonce, names)
        if magic != log_forwarder.MAGIC or not hmac.compare_digest(proof, expected):
            raise ConnectionError("the peer has not proved that it is a log forwarder of this run")
        self.channel.send(log_forwarder.prove(self.key, b"driver", nonce, self.nonce, names))
        self.session = log_forwarder.prove(self.key, b"session", self.nonce, nonce, names)
        if self.tls:
            if self.received:
                raise ConnectionError("the peer has sent bytes before TLS")
            self.channel.encrypt(
                _core, False, log_forwarder.prove(self.key, b"tls", self.nonce, nonce, names)
            )
        self.rank = rank
        return True

    def frame(self) -> tuple[bytes, bytes] | None:
        """Take one frame from the received bytes; None while it is incomplete."""
        size = log_forwarder.HEAD.size
        if len(self.received) < size:
            return None
        head = bytes(self.received[:size])
        kind, length = log_forwarder.HEAD.unpack(head)
        if length > log_forwarder.PAYLOAD:
            raise ConnectionError("the peer has sent a frame that is too long")
        tag = 0 if self.tls else log_forwarder.TAG
        if len(self.received) < size + length + tag:
            return None
        payload = bytes(self.received[size : size + length])
        proof = bytes(self.received[size + length : size + length + tag])
        expected = log_forwarder.tag(self.session, self.number, head, payload)[:tag]
        if not hmac.compare_digest(proof, expected):
            raise ConnectionError("a frame was changed in transit")
        del self.received[: size + length + tag]
        self.number += 1
        return kind, payload

    # ---- A result

    def begin_result(self, length: bytes) -> None:
        """Allocate the buffer of a result, and move the bytes that were read already to it."""
        if not self.tls or self.result is not None:
            raise ConnectionError("the peer has sent a result on a connection that takes none")
        self.result = bytearray(int(length))
        self.result_bytes = len(self.received)
        if self.result_bytes > len(self.result):
            raise ConnectionError("the peer has sent bytes after its result")
        self.result[: self.result_bytes] = self.received
        self.received.clear()

    def read_result(self, result: bytearray) -> None:
        """Read once into the buffer of the result."""
        if self.result_bytes == len(result):
            raise ConnectionError("the peer has sent bytes after its result")
        with memoryview(result) as buffer:
            moved = self.channel.recv_into(buffer[self.result_bytes : self.result_bytes + CHUNK])
        if not moved:
            raise ConnectionError("the rank has closed the connection")
        self.result_bytes += moved

    def whole_result(self) -> bytearray | None:
        """Return the result when it is complete, and confirm it to the rank."""
        if self.result is None or self.result_bytes < len(self.result):
            return None
        self.channel.send(log_forwarder.received(self.session))
        return self.result


class LogServer:
    """Listens for the log forwarders of the ranks of a run, until it is closed.

    Parameters
    ----------
    host : str
        The host where executors reach this process.
    bind : str
        The address to listen on.
    ranks : int
        The number of ranks.
    show : callable
        Called with a rank and a line, from a thread.
    progress : callable
        Called with a rank, a step, the number of steps or None, and a dictionary of numbers.
    tls : bool
        Whether the connections are encrypted.
    """

    def __init__(
        self,
        host: str,
        bind: str,
        ranks: int,
        show: Callable[[int, str], None],
        progress: Callable[[int, float, float | None, dict[str, Any]], None],
        tls: bool = False,
    ) -> None:
        self.ranks, self.show, self.progress = ranks, show, progress
        self.hosts: dict[int, str] = {}  # of the ranks that have connected
        self.results: dict[int, bytearray] = {}  # complete results, by rank
        self.last: dict[int, deque[str]] = {}  # the last lines of each rank
        self.key = secrets.token_bytes(32)
        self.peers: set[Peer] = set()
        self.until: float | None = None  # deadline of the server
        self.closed_until = 0.0  # time until which no connection is accepted
        self.listener = listen(bind)
        self.wake, self.waker = os.pipe()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.selector.register(self.wake, selectors.EVENT_READ)
        self.address = Address(host, self.listener.getsockname()[1], self.key.hex(), tls)
        self.thread = threading.Thread(target=self.work, name="sparkring output", daemon=True)
        self.thread.start()

    def close(self, seconds: float = log_forwarder.FLUSH + 1) -> None:
        """Wait up to the timeout for the connected log forwarders, and end.

        The server does not wait for a paused reader of its output either.
        """
        if self.until is None:
            self.until = time.monotonic() + seconds
            os.close(self.waker)
        self.thread.join(seconds + 1)

    def last_lines(self, rank: int) -> list[str]:
        """Return the last lines of a killed rank, after reading all its output."""
        self.close()
        return list(self.last.get(rank, ()))

    # ---- The thread

    def work(self) -> None:
        """Serve until the end."""
        try:
            while self.until is None or (self.peers and time.monotonic() < self.until):
                for peer in self.peers:
                    peer.channel.watch(self.selector, peer)
                ready = [key for key, _ in self.selector.select(self.watch_listener())]
                for key in sorted(ready, key=lambda key: key.data is None):  # new connections last
                    self.serve(key.fileobj, key.data)
                now = time.monotonic()
                for peer in self.pending():
                    if peer.accepted_at + PATIENCE < now:
                        self.drop(peer)
        finally:
            for peer in list(self.peers):
                self.drop(peer)
            self.selector.close()
            self.listener.close()
            os.close(self.wake)

    def serve(self, file: Any, peer: Peer | None) -> None:
        """Handle one readable file."""
        if file == self.wake:
            self.selector.unregister(self.wake)
        elif peer is None:
            self.accept()
        elif peer in self.peers:
            try:
                for kind, payload in peer.read():
                    self.take(peer, kind, payload)
                if (result := peer.whole_result()) is not None:
                    self.results[peer.rank or 0] = result
            except BlockingIOError:
                pass
            except Exception:  # of any kind: the other ranks continue
                self.drop(peer)

    def pending(self) -> list[Peer]:
        """List the pending connections, the oldest first."""
        return sorted(
            (peer for peer in self.peers if peer.rank is None), key=lambda p: p.accepted_at
        )

    def watch_listener(self) -> float:
        """Watch the listener below the limit; return the seconds until the next check."""
        wait = self.closed_until - time.monotonic()
        watched = self.listener in self.selector.get_map()
        if wait <= 0 and not watched:
            self.selector.register(self.listener, selectors.EVENT_READ)
        elif wait > 0 and watched:
            self.selector.unregister(self.listener)
        return min(wait, 0.2) if wait > 0 else 0.2

    def accept(self) -> None:
        """Accept a connection; at the limit, in place of the oldest pending connection."""
        pending = self.pending()
        if len(pending) >= PENDING and not self.drop_late(pending[0]):
            return
        try:
            connection, address = self.listener.accept()
        except OSError as error:
            if error.errno in LACKING and not (pending and self.drop_late(pending[0])):
                self.closed_until = time.monotonic() + PAUSE
            return
        try:
            peer = Peer(connection, self.key, self.address.tls)
            peer.host = address[0]
            self.selector.register(connection, selectors.EVENT_READ, peer)
            self.peers.add(peer)
        except OSError:
            connection.close()

    def drop_late(self, peer: Peer) -> bool:
        """Drop a pending connection after its time for the proof; before, wait."""
        if time.monotonic() < peer.accepted_at + COURTESY:
            self.closed_until = peer.accepted_at + COURTESY
            return False
        self.drop(peer)
        return True

    def drop(self, peer: Peer) -> None:
        """End a connection."""
        self.peers.discard(peer)
        self.selector.unregister(peer.channel.socket)
        peer.channel.close()

    def take(self, peer: Peer, kind: bytes, payload: bytes) -> None:
        """Handle a frame."""
        rank = peer.rank or 0
        if rank >= self.ranks:
            raise ValueError(f"rank {rank} does not exist")
        self.hosts[rank] = peer.host
        last = self.last.setdefault(rank, deque(maxlen=log_forwarder.KEPT))
        if kind == log_forwarder.RESULT:
            peer.begin_result(payload)
        elif kind == log_forwarder.LINES:
            for line in payload.decode(errors="replace").split("\n"):
                last.append(line)
                self.show(rank, line)
        elif kind == log_forwarder.DROPPED:
            self.show(rank, f"... {int(payload)} lines came too fast; the executor's log has them")
        elif kind == log_forwarder.PROGRESS:
            report = json.loads(payload)
            self.progress(rank, *check_report(report))
        elif kind == log_forwarder.GONE:
            last.clear()
            last.extend(payload.decode(errors="replace").splitlines())


def check_report(report: Any) -> tuple[float, float | None, dict[str, Any]]:
    """Check a report of progress; raise `ValueError` for any other message."""
    if not isinstance(report, list) or len(report) != 3:
        raise ValueError("the message is no report of progress")
    step, total, metrics = report
    bounds = [step] if total is None else [step, total]
    if not isinstance(metrics, dict) or not all(map(is_number, [*bounds, *metrics.values()])):
        raise ValueError("the message is no report of progress")
    if not all(map(math.isfinite, bounds)):
        raise ValueError("the message is no report of progress")
    return step, total, metrics


def is_number(value: Any) -> bool:
    """Return whether a value is a number that a float can hold."""
    if not isinstance(value, (int, float)):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def listen(address: str) -> socket.socket:
    """Listen on an address, or on all addresses when it is not of this machine."""
    for host in (address, ""):
        with contextlib.suppress(OSError):
            found = socket.getaddrinfo(
                host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            listener = socket.create_server(found[0][4][:2], family=found[0][0], backlog=128)
            listener.setblocking(False)
            return listener
    raise OSError("there is no address to listen on")
