# SPDX-License-Identifier: Apache-2.0
"""How the ranks of an attempt wait for each other before they end: they *settle*.

A rank is a child process of its Spark task (`child`). The rank connects to the others when the ring
has formed, and passes the connections on to the task, which settles when the rank has ended. So the
others learn of a rank that was killed, and Spark need not fail the stage to end them.

Those who have succeeded wait as long as it takes. One that has failed waits `GRACE` seconds, and
then fails its Spark task, so that Spark ends the ranks that do not come.

They wait on connections to rank 0, which are made when the ring has formed, and not in a call of
Spark: when it ends a task that is in ``barrier()``, the whole executor ends, with exit code 50, as
the thread there that serves the call has no handler for TaskKilledException (PythonRunner.scala of
Spark 3.5 and 4.1). So one lost executor would take all others with it. Only ranks that have no
ring, or could not connect, use that call.

Both ends of a connection prove that they have the attempt's key (as in `relay`). After that each
says one thing: "settled" to rank 0, and that all have to the others. Until then it is a stranger's,
who keeps no rank out: rank 0 hears all of them side by side, and when too many have come, whoever
has been there longest goes.
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

from sparkring._core import RingError
from sparkring.spark import relay
from sparkring.spark.outcome import WEIGHTS

if TYPE_CHECKING:
    from sparkring import Communicator
    from sparkring.spark.outcome import Outcome

GRACE = 5.0  # seconds from a failure until Spark ends ranks that are still at work
COURTESY = 1.0  # seconds that those wait longer who only know of another's failure
LEFT = 60.0  # seconds that one waits that has succeeded, until Spark misses the rank that is lost
CONNECT = 10.0  # seconds for all connections to be made
BACKLOG = 128  # connections that wait to be taken, besides those of the ranks
STRANGERS = 64  # connections that have not proved anything yet
PATIENCE = 0.1  # seconds that these have when others wait for the place
PAUSE = 0.01  # seconds until the next try when descriptors have run out
LOST = {WEIGHTS["TIMEOUT"], WEIGHTS["PEER_LOST"]}  # of failures because a rank has gone

NAMES = struct.Struct("!I")  # the rank
PASSED = struct.Struct("!I32s")  # the rank at the other end of a connection, the session
ALL = b"all"  # after the connections, when all ranks have met
HELLO = struct.Struct(f"!I{relay.NONCE}s32s")  # the rank, its random number, its proof


class RankFailed(Exception):  # noqa: N818 (nobody catches it)
    """Fails the Spark task of a rank, when others do not settle; carries how it ended."""


class Others(Protocol):
    """How a rank meets the others."""

    def meet(self, comm: Communicator) -> None:
        """Prepare to settle, on all ranks, when the ring has formed."""


class Peer:
    """A proved connection, on which each end says one thing."""

    def __init__(self, connection: socket.socket, rank: int, session: bytes) -> None:
        self.socket, self.rank, self.session = connection, rank, session
        self.received = b""
        connection.settimeout(GRACE)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def word(self, who: bytes) -> bytes:
        """Give what that end has to say."""
        return relay.tag(self.session, 0, who, b"")

    def say(self, who: bytes) -> None:
        """Say it; whom it does not reach, Spark will miss."""
        with contextlib.suppress(OSError):
            self.socket.sendall(self.word(who))

    def hear(self, who: bytes) -> bool:
        """Read once: whether that end has said it all; ``OSError`` when it has gone."""
        piece = self.socket.recv(relay.TAG - len(self.received))
        self.received += piece
        if not piece or not self.word(who).startswith(self.received):
            raise ConnectionError("it has gone")
        return len(self.received) == relay.TAG


class Stranger:
    """Who has connected to rank 0, until it has proved to be another rank."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.ours = os.urandom(relay.NONCE)
        self.received = b""
        self.came = time.monotonic()
        connection.setblocking(False)
        connection.send(self.ours)

    def prove(self, key: bytes, missing: set[int]) -> Peer | None:
        """Read once; gives the rank when it has said all, and ``OSError`` when it is none."""
        piece = self.socket.recv(HELLO.size - len(self.received))
        self.received += piece
        if not piece:
            raise ConnectionError("it has gone")
        if len(self.received) < HELLO.size:
            return None
        rank, theirs, proof = HELLO.unpack(self.received)
        names = NAMES.pack(rank)
        expected = relay.prove(key, b"settle rank", self.ours, theirs, names)
        if not hmac.compare_digest(proof, expected) or rank not in missing:
            raise ConnectionError("this is no rank of ours")
        self.socket.send(relay.prove(key, b"settle root", theirs, self.ours, names))
        return Peer(self.socket, rank, relay.prove(key, b"settle", self.ours, theirs, names))


class Door:
    """Where the other ranks come to rank 0, among strangers."""

    def __init__(self, listener: socket.socket, key: bytes, size: int) -> None:
        self.listener, self.key = listener, key
        self.missing = set(range(1, size))
        self.peers: list[Peer] = []
        self.strangers: dict[Stranger, None] = {}  # the oldest first
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ)
        listener.setblocking(False)

    def admit(self, until: float) -> list[Peer]:
        """Let in each of the others, of whom some may not come in time."""
        try:
            while self.missing and (left := until - time.monotonic()) > 0:
                self.take_turn(left)
        finally:
            for stranger in self.strangers:
                stranger.socket.close()
            self.selector.close()
        return self.peers

    def take_turn(self, left: float) -> None:
        """Hear all who say something; then make room for a newcomer, or let it in."""
        full = len(self.strangers) >= STRANGERS
        watched = self.listener in self.selector.get_map()
        if full and watched:
            self.selector.unregister(self.listener)
        elif not full and not watched:
            self.selector.register(self.listener, selectors.EVENT_READ)
        ready = [key.data for key, _ in self.selector.select(min(left, PATIENCE if full else left))]
        for stranger in filter(None, ready):
            self.hear(stranger)
        oldest = next(iter(self.strangers), None)
        if full and oldest and oldest.came + PATIENCE <= time.monotonic():
            self.forget(oldest).close()
        elif None in ready:
            self.open()

    def open(self) -> None:
        """Take a connection."""
        try:
            connection, _ = self.listener.accept()
        except OSError:
            time.sleep(PAUSE)
            return
        try:
            stranger = Stranger(connection)
        except OSError:
            connection.close()
            return
        self.selector.register(connection, selectors.EVENT_READ, stranger)
        self.strangers[stranger] = None

    def hear(self, stranger: Stranger) -> None:
        """Read what a stranger says; after that it may be a peer, or be sent away."""
        try:
            peer = stranger.prove(self.key, self.missing)
        except BlockingIOError:
            return
        except OSError:
            self.forget(stranger).close()
            return
        if peer:
            self.forget(stranger)
            self.peers.append(peer)
            self.missing.discard(peer.rank)

    def forget(self, stranger: Stranger) -> socket.socket:
        """Hear it here no more."""
        del self.strangers[stranger]
        self.selector.unregister(stranger.socket)
        return stranger.socket


class Tasks:
    """How the tasks of a barrier stage settle.

    Parameters
    ----------
    context : pyspark.BarrierTaskContext
        The task.
    key : bytes
        What only the tasks of this attempt know.
    """

    def __init__(self, context: Any, key: bytes) -> None:
        self.context, self.key = context, key
        self.rank: int = context.partitionId()
        self.who, self.whom = (b"root", b"rank") if self.rank == 0 else (b"rank", b"root")
        self.peers: list[Peer] = []
        self.connected = False  # all ranks are
        self.lost: int | None = None  # a rank that has gone without a word
        self.taken, self.passed = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    # ---- At the beginning

    def meet(self, comm: Communicator) -> None:
        """Connect all ranks to rank 0; where one does not succeed, Spark has to do for all.

        This is the rank, which passes the connections on and keeps none.
        """
        listener, port = listen(comm) if self.rank == 0 else (None, 0)
        try:
            port = int(comm.broadcast(port))
            until = time.monotonic() + CONNECT
            if listener is not None:
                self.peers = Door(listener, self.key, comm.size).admit(until)
            elif port:
                with contextlib.suppress(OSError):
                    self.peers = [self.connect((comm.hosts[0], port), until)]
            complete = len(self.peers) == (1 if self.rank else comm.size - 1)
            connected = bool(comm.allreduce(int(complete), "min"))
        finally:
            if listener is not None:
                listener.close()
        for peer in self.peers:
            entry = PASSED.pack(peer.rank, peer.session)
            socket.send_fds(self.passed, [entry], [peer.socket.fileno()])
            peer.socket.close()
        self.peers = []
        if connected:
            self.passed.send(ALL)
        self.passed.close()

    def adopt(self) -> None:
        """Take the connections from the rank, when it has met the others, or has ended."""
        self.passed.close()
        with self.taken:
            while True:
                data, descriptors, _, _ = socket.recv_fds(self.taken, PASSED.size, 1)
                if not descriptors:
                    break
                rank, session = PASSED.unpack(data)
                self.peers.append(Peer(socket.socket(fileno=descriptors[0]), rank, session))
        self.connected = data == ALL

    def connect(self, address: tuple[str, int], until: float) -> Peer:
        """Connect to rank 0."""
        connection = socket.create_connection(address, CONNECT)
        try:
            connection.settimeout(CONNECT)
            mine, names = os.urandom(relay.NONCE), NAMES.pack(self.rank)
            theirs = read(connection, relay.NONCE, until)
            proof = relay.prove(self.key, b"settle rank", theirs, mine, names)
            connection.sendall(HELLO.pack(self.rank, mine, proof))
            said = read(connection, len(proof), until)
            expected = relay.prove(self.key, b"settle root", mine, theirs, names)
            if not hmac.compare_digest(said, expected):
                raise ConnectionError("this is not rank 0")
        except BaseException:
            connection.close()
            raise
        return Peer(connection, 0, relay.prove(self.key, b"settle", theirs, mine, names))

    # ---- At the end

    def settle(self, outcome: Outcome) -> None:
        """Wait until all ranks get here; raises `RankFailed` when they do not.

        Spark may end this process meanwhile.
        """
        failure = outcome.failure
        try:
            if self.connected:
                settled = self.wait(GRACE if failure else math.inf)
            elif failure is not None and failure.how:  # Spark has to end those who wait for it
                settled = False
            elif failure is not None and failure.weight in LOST:  # Spark may miss that rank, too
                time.sleep(GRACE)
                settled = False
            else:
                settled = self.ask_spark(GRACE if failure else None)
        finally:
            for peer in self.peers:
                peer.socket.close()
        if not settled:
            time.sleep(COURTESY if failure and failure.weight and not failure.how else 0)
            raise RankFailed(
                f"rank {self.rank} has ended well, but lost the connection to"
                f" rank {self.lost} before that one had ended"
            )

    def wait(self, grace: float) -> bool:
        """Wait for all, as long as this, or until Spark must have missed the one that is lost."""
        until = time.monotonic() + grace
        if self.rank:
            self.peers[0].say(self.who)
        with selectors.DefaultSelector() as selector:
            for peer in self.peers:
                selector.register(peer.socket, selectors.EVENT_READ, peer)
            silent = len(self.peers)
            while silent and (left := until - time.monotonic()) > 0:
                for key, _ in selector.select(min(left, LEFT)):
                    try:
                        if not key.data.hear(self.whom):
                            continue
                        silent -= 1
                    except OSError:
                        self.lost = key.data.rank
                        until = min(until, time.monotonic() + LEFT)
                    selector.unregister(key.fileobj)
        if self.rank == 0 and not silent:
            for peer in self.peers:
                peer.say(self.who)
        return not silent

    def ask_spark(self, grace: float | None) -> bool:
        """Wait in Spark's own call."""
        errors: list[BaseException] = []

        def call() -> None:
            try:
                self.context.barrier()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=call, name="sparkring settle", daemon=True)
        thread.start()
        thread.join(grace)
        if errors and grace is None:
            raise errors[0]
        return not thread.is_alive() and not errors


def listen(comm: Communicator) -> tuple[socket.socket | None, int]:
    """Listen on a port that the ring may use; where there is none, on nothing, which is port 0."""
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
    """Read so many bytes; ``OSError`` when they do not come in time."""
    data = b""
    while len(data) < count:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError("it says nothing")
        connection.settimeout(left)
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionError("it has gone")
        data += piece
    return data
