# SPDX-License-Identifier: Apache-2.0
"""The exit barrier: the ranks of an attempt wait for each other before their Spark tasks end.

A rank is a child process of its Spark task (`child`). The rank connects to rank 0 when the ring
has formed, and passes the connection on to its task. The task enters the barrier when the rank has
ended, also when the rank was killed. So the other ranks learn of the end of every rank, and Spark
need not fail the stage to end them.

A rank that has succeeded waits without a limit. A rank that has failed waits `GRACE` seconds, and
then fails its Spark task, so that Spark ends the ranks that are still at work.

The barrier is not a call of Spark. When Spark ends a task that is in ``barrier()``, the whole
executor ends with exit code 50: the thread that serves the call has no handler for
TaskKilledException (PythonRunner.scala of Spark 3.5 and 4.1). One lost executor would take all
executors with it. Only ranks without a ring, or without a connection to rank 0, use that call.

Both ends of a connection prove that they have the attempt's key (as in `log_forwarder`). After the
proofs each end sends one message: a rank reports its end, and rank 0 reports the end of all ranks.
Rank 0 reads all pending connections side by side, so that a stranger blocks no rank. When there are
too many pending connections, rank 0 closes those without a proof after `PATIENCE` seconds. A rank
whose connection was closed connects again.
"""

from __future__ import annotations

import contextlib
import hmac
import math
import os
import selectors
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from sparkring._core import RingError, blame_weight
from sparkring.spark import _log_forwarder as log_forwarder

if TYPE_CHECKING:
    from sparkring import Communicator
    from sparkring.spark._rank_result import RankResult

GRACE = 5.0  # seconds from a failure until Spark ends ranks that are still at work
COURTESY = 1.0  # more seconds for a rank that reports the failure of another rank
LEFT = 60.0  # seconds until Spark must have detected a lost rank
CONNECT = 10.0  # seconds for all connections to be made
BACKLOG = 128  # connections that wait for accept(), besides those of the ranks
PENDING = 64  # pending connections: without a proof yet
PATIENCE = 0.1  # seconds for a pending connection when new connections wait for its place
PAUSE = 0.01  # seconds until the next accept() when descriptors have run out
LOST = {blame_weight(["TIMEOUT"]), blame_weight(["PEER_LOST"])}  # weights that report a lost rank

NAMES = struct.Struct("!I")  # the rank
PASSED_ON = struct.Struct("!I32s")  # the rank at the other end of a connection, the session
ALL = b"all"  # after the connections, when all ranks are connected
HELLO = struct.Struct(f"!I{log_forwarder.NONCE}s32s")  # the rank, its random number, its proof


class RankFailed(Exception):  # noqa: N818 (users never catch it)
    """Fails the Spark task of a rank when the barrier is incomplete; carries how the rank ended."""


class ExitBarrier(Protocol):
    """A barrier as a rank uses it."""

    def connect_all(self, comm: Communicator) -> None:
        """Prepare the barrier, on all ranks, when the ring has formed."""


class Peer:
    """A proved connection, on which each end sends one message."""

    def __init__(self, connection: socket.socket, rank: int, session: bytes) -> None:
        self.socket, self.rank, self.session = connection, rank, session
        self.received = b""
        connection.settimeout(GRACE)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def message(self, end: bytes) -> bytes:
        """Make the message of one end."""
        return log_forwarder.tag(self.session, 0, end, b"")

    def send(self, end: bytes) -> None:
        """Send the message. Spark detects a peer that the message does not reach."""
        with contextlib.suppress(OSError):
            self.socket.sendall(self.message(end))

    def receive(self, end: bytes) -> bool:
        """Read once; return whether the message is complete. Raise ``OSError`` at the end."""
        piece = self.socket.recv(log_forwarder.TAG - len(self.received))
        self.received += piece
        if not piece or not self.message(end).startswith(self.received):
            raise ConnectionError("the peer has closed the connection")
        return len(self.received) == log_forwarder.TAG


class PendingConnection:
    """A connection to rank 0 without a proof yet."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.ours = os.urandom(log_forwarder.NONCE)
        self.received = b""
        self.accepted_at = time.monotonic()
        connection.setblocking(False)
        connection.send(self.ours)

    def prove(self, key: bytes, missing: set[int]) -> Peer | None:
        """Read once; return the rank after a valid proof. Raise ``OSError`` after other bytes."""
        piece = self.socket.recv(HELLO.size - len(self.received))
        self.received += piece
        if not piece:
            raise ConnectionError("the peer has closed the connection")
        if len(self.received) < HELLO.size:
            return None
        rank, theirs, proof = HELLO.unpack(self.received)
        names = NAMES.pack(rank)
        expected = log_forwarder.prove(key, b"exit barrier rank", self.ours, theirs, names)
        if not hmac.compare_digest(proof, expected) or rank not in missing:
            raise ConnectionError("the peer has not proved that it is a missing rank of this run")
        self.socket.send(log_forwarder.prove(key, b"exit barrier root", theirs, self.ours, names))
        return Peer(
            self.socket, rank, log_forwarder.prove(key, b"exit barrier", self.ours, theirs, names)
        )


class Acceptor:
    """Accepts the connections of the other ranks on rank 0, among those of strangers."""

    def __init__(self, listener: socket.socket, key: bytes, size: int) -> None:
        self.listener, self.key = listener, key
        self.missing = set(range(1, size))
        self.peers: list[Peer] = []
        self.pending: dict[PendingConnection, None] = {}  # the oldest first
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ)
        listener.setblocking(False)

    def accept_all(self, until: float) -> list[Peer]:
        """Accept a connection of each rank. The list lacks late ranks."""
        try:
            while self.missing and (left := until - time.monotonic()) > 0:
                self.step(left)
        finally:
            for pending in self.pending:
                pending.socket.close()
            self.selector.close()
        return self.peers

    def step(self, left: float) -> None:
        """Read from all pending connections; then drop the silent ones, or accept a new one."""
        full = len(self.pending) >= PENDING
        watched = self.listener in self.selector.get_map()
        if full and watched:
            self.selector.unregister(self.listener)
        elif not full and not watched:
            self.selector.register(self.listener, selectors.EVENT_READ)
        ready = [key.data for key, _ in self.selector.select(min(left, PATIENCE if full else left))]
        for pending in filter(None, ready):
            self.read(pending)
        if full:
            self.drop_silent()
        elif None in ready:
            self.accept()

    def drop_silent(self) -> None:
        """Drop all connections that have had their time, so that as many others get a place."""
        late = time.monotonic() - PATIENCE
        for pending in [pending for pending in self.pending if pending.accepted_at <= late]:
            self.release(pending).close()

    def accept(self) -> None:
        """Accept a connection."""
        try:
            connection, _ = self.listener.accept()
        except OSError:
            time.sleep(PAUSE)
            return
        try:
            pending = PendingConnection(connection)
        except OSError:
            connection.close()
            return
        self.selector.register(connection, selectors.EVENT_READ, pending)
        self.pending[pending] = None

    def read(self, pending: PendingConnection) -> None:
        """Read from a pending connection, which may become a peer, or be closed."""
        try:
            peer = pending.prove(self.key, self.missing)
        except BlockingIOError:
            return
        except OSError:
            self.release(pending).close()
            return
        if peer:
            self.release(pending)
            self.peers.append(peer)
            self.missing.discard(peer.rank)

    def release(self, pending: PendingConnection) -> socket.socket:
        """Stop reading from a pending connection."""
        del self.pending[pending]
        self.selector.unregister(pending.socket)
        return pending.socket


class SocketBarrier:
    """The exit barrier of the tasks of a barrier stage, over sockets.

    Parameters
    ----------
    context : pyspark.BarrierTaskContext
        The task.
    key : bytes
        Known to the tasks of this attempt alone.
    """

    def __init__(self, context: Any, key: bytes) -> None:
        self.context, self.key = context, key
        self.rank: int = context.partitionId()
        self.own_end, self.peer_end = (b"root", b"rank") if self.rank == 0 else (b"rank", b"root")
        self.peers: list[Peer] = []
        self.connected = False  # all ranks are connected to rank 0
        self.lost: int | None = None  # a rank whose connection ended before its message
        self.task_end, self.rank_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    # ---- At the beginning

    def connect_all(self, comm: Communicator) -> None:
        """Connect all ranks to rank 0. Where one rank fails, all ranks use Spark's call.

        The rank calls this, passes the connections on to its task, and keeps none.
        """
        listener, port = listen(comm) if self.rank == 0 else (None, 0)
        try:
            port = int(comm.broadcast(port))
            until = time.monotonic() + CONNECT
            if listener is not None:
                self.peers = Acceptor(listener, self.key, comm.size).accept_all(until)
            elif port:
                self.peers = self.connect_until((comm.hosts[0], port), until)
            complete = len(self.peers) == (1 if self.rank else comm.size - 1)
            connected = bool(comm.allreduce(int(complete), "min"))
        finally:
            if listener is not None:
                listener.close()
        for peer in self.peers:
            entry = PASSED_ON.pack(peer.rank, peer.session)
            socket.send_fds(self.rank_end, [entry], [peer.socket.fileno()])
            peer.socket.close()
        self.peers = []
        if connected:
            self.rank_end.send(ALL)
        self.rank_end.close()

    def receive_peers(self) -> None:
        """Receive the connections from the rank, when it is connected or has ended."""
        self.rank_end.close()
        with self.task_end:
            while True:
                data, descriptors, _, _ = socket.recv_fds(self.task_end, PASSED_ON.size, 1)
                if not descriptors:
                    break
                rank, session = PASSED_ON.unpack(data)
                self.peers.append(Peer(socket.socket(fileno=descriptors[0]), rank, session))
        self.connected = data == ALL

    def connect_until(self, address: tuple[str, int], until: float) -> list[Peer]:
        """Connect to rank 0, again where it has closed the connection; an empty list: in vain."""
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                return [self.connect(address, until)]
            time.sleep(PAUSE)
        return []

    def connect(self, address: tuple[str, int], until: float) -> Peer:
        """Connect to rank 0."""
        connection = socket.create_connection(address, CONNECT)
        try:
            connection.settimeout(CONNECT)
            mine, names = os.urandom(log_forwarder.NONCE), NAMES.pack(self.rank)
            theirs = read(connection, log_forwarder.NONCE, until)
            proof = log_forwarder.prove(self.key, b"exit barrier rank", theirs, mine, names)
            connection.sendall(HELLO.pack(self.rank, mine, proof))
            answer = read(connection, len(proof), until)
            expected = log_forwarder.prove(self.key, b"exit barrier root", mine, theirs, names)
            if not hmac.compare_digest(answer, expected):
                raise ConnectionError("the peer has not proved that it is rank 0 of this run")
        except BaseException:
            connection.close()
            raise
        return Peer(
            connection, 0, log_forwarder.prove(self.key, b"exit barrier", theirs, mine, names)
        )

    # ---- At the end

    def wait_for_all(self, rank_result: RankResult) -> None:
        """Wait until all ranks have entered the barrier; raises `RankFailed` when some do not.

        Spark may end this process meanwhile.
        """
        failure = rank_result.failure
        try:
            if self.connected:
                complete = self.wait(GRACE if failure else math.inf)
            elif failure is not None and failure.how:  # Spark must end the waiting ranks
                complete = False
            elif (
                failure is not None and failure.weight in LOST
            ):  # Spark may detect the lost rank itself
                time.sleep(GRACE)
                complete = False
            else:
                complete = self.ask_spark(GRACE if failure else None)
        finally:
            for peer in self.peers:
                peer.socket.close()
        if not complete:
            time.sleep(COURTESY if failure and failure.weight and not failure.how else 0)
            raise RankFailed(
                f"rank {self.rank} succeeded, but its connection to rank {self.lost} was lost"
                f" before rank {self.lost} had ended: see the log of rank {self.lost}"
            )

    def wait(self, grace: float) -> bool:
        """Wait for all ranks for `grace` seconds, or until Spark must have detected a lost rank."""
        until = time.monotonic() + grace
        if self.rank:
            self.peers[0].send(self.own_end)
        with selectors.DefaultSelector() as selector:
            for peer in self.peers:
                selector.register(peer.socket, selectors.EVENT_READ, peer)
            incomplete = len(self.peers)
            while incomplete and (left := until - time.monotonic()) > 0:
                for key, _ in selector.select(min(left, LEFT)):
                    try:
                        if not key.data.receive(self.peer_end):
                            continue
                        incomplete -= 1
                    except OSError:
                        self.lost = key.data.rank
                        until = min(until, time.monotonic() + LEFT)
                    selector.unregister(key.fileobj)
        if self.rank == 0 and not incomplete:
            for peer in self.peers:
                peer.send(self.own_end)
        return not incomplete

    def ask_spark(self, grace: float | None) -> bool:
        """Wait in ``barrier()`` of Spark."""
        errors: list[BaseException] = []

        def call() -> None:
            try:
                self.context.barrier()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=call, name="sparkring exit barrier", daemon=True)
        thread.start()
        thread.join(grace)
        if errors and grace is None:
            raise errors[0]
        return not thread.is_alive() and not errors


def listen(comm: Communicator) -> tuple[socket.socket | None, int]:
    """Listen on a port within the ports of the ring; return port 0 where none is free."""
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    backlog = comm.size + BACKLOG
    with contextlib.suppress(RingError, OSError):
        port = comm.port_reserve()
        try:
            listener = socket.create_server(
                ("", port), family=family, backlog=backlog, dualstack_ipv6=both
            )
            return listener, port
        finally:
            comm.port_release(port)
    return None, 0


def read(connection: socket.socket, count: int, until: float) -> bytes:
    """Read `count` bytes. Raise ``OSError`` when they do not arrive in time."""
    data = b""
    while len(data) < count:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the peer has not answered in time")
        connection.settimeout(left)
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionError("the peer has closed the connection")
        data += piece
    return data
