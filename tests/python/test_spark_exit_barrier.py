# SPDX-License-Identifier: Apache-2.0
"""The exit barrier over real sockets; here the ranks are threads."""

from __future__ import annotations

import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import sparkring
from mutations import mutations
from sparkring.spark import _exit_barrier as exit_barrier
from sparkring.spark import _log_forwarder as log_forwarder
from sparkring.spark._rank_result import Failure, RankResult

KEY = bytes(range(32))
SHORT = {"GRACE": 0.3, "COURTESY": 0.1, "LEFT": 0.6, "CONNECT": 1.0}
WHILE = 0.5  # seconds


class Ring:
    """As much of a communicator as it takes, and of a barrier task; of its own for each rank."""

    def __init__(self, rank, size, shared):
        self.rank, self.size, self.shared = rank, size, shared
        self.hosts = ["localhost"] * size
        self.barriers = 0
        self.port_of_root = None  # takes the port before anybody connects

    def partitionId(self):  # noqa: N802 (Spark's name)
        return self.rank

    def barrier(self):
        self.barriers += 1

    def port_reserve(self):
        with socket.create_server(("localhost", 0)) as free:
            return free.getsockname()[1]

    def port_release(self, port):
        pass

    def broadcast(self, port):
        if self.rank == 0 and self.port_of_root:
            self.port_of_root(port)
        return self.gather(port)[0]

    def allreduce(self, number, op):
        assert op == "min"
        return min(self.gather(number))

    def gather(self, number):
        self.shared["numbers"][self.rank] = number
        self.shared["all"].wait(10)
        numbers = list(self.shared["numbers"])
        self.shared["all"].wait(10)
        return numbers


@pytest.fixture
def ranks(monkeypatch):
    """Run ``work(ring, barrier)`` on three connected ranks; gives what each returns."""
    for name, seconds in SHORT.items():
        monkeypatch.setattr(exit_barrier, name, seconds)

    def run(work, prepare=lambda ring, barrier: None):
        shared = {"numbers": [0] * 3, "all": threading.Barrier(3)}

        def play(rank):
            ring = Ring(rank, 3, shared)
            barrier = exit_barrier.SocketBarrier(ring, KEY)
            prepare(ring, barrier)
            barrier.connect_all(ring)
            assert barrier.peers == []  # a process that the rank forks inherits none
            barrier.receive_peers()
            return work(ring, barrier)

        with ThreadPoolExecutor(3) as threads:
            return list(threads.map(play, range(3)))

    return run


def ended(ring, error=None):
    return RankResult(ring.rank, b"", Failure.of(error, None) if error else None)


def timed_wait(barrier, rank_result):
    """Enter the barrier; gives the seconds, and the error."""
    begin = time.monotonic()
    try:
        barrier.wait_for_all(rank_result)
    except exit_barrier.RankFailed as error:
        return time.monotonic() - begin, str(error)
    return time.monotonic() - begin, None


@pytest.mark.parametrize("last", [0, 1, 2])
def test_all_wait_for_the_last(ranks, last):
    """Those who have ended well wait longer than one that has failed would."""

    def work(ring, barrier):
        assert barrier.connected
        time.sleep(WHILE if ring.rank == last else 0)
        begun = time.monotonic()
        _, error = timed_wait(barrier, ended(ring))
        return begun, error, ring.barriers, time.monotonic()

    told = ranks(work)
    assert [(error, barriers) for _, error, barriers, _ in told] == [(None, 0)] * 3
    begun, *_ = told[last]
    assert all(ended >= begun for *_, ended in told)


def test_failures_enter_the_barrier_too(ranks):
    told = ranks(lambda ring, barrier: timed_wait(barrier, ended(ring, ValueError())))
    assert [error for _, error in told] == [None] * 3


@pytest.mark.parametrize("weighs", [False, True])
def test_a_failed_rank_times_out(ranks, weighs):
    """Rank 2 is at work. One that only knows of another's failure gives up a little later."""

    def work(ring, barrier):
        if ring.rank == 2:
            time.sleep(4 * WHILE)
            return None
        error = sparkring.PeerLostError("rank 9 was lost") if weighs else ValueError()
        return timed_wait(barrier, ended(ring, error))

    least = SHORT["GRACE"] + weighs * SHORT["COURTESY"]
    for seconds, error in ranks(work)[:2]:
        assert error and least <= seconds < 4 * WHILE


@pytest.mark.parametrize("busy", [False, True])
def test_a_rank_was_killed(ranks, busy):
    """Its task enters the barrier for it. If another rank is at work, Spark misses it first."""

    def work(ring, barrier):
        if ring.rank == 1:
            return timed_wait(barrier, RankResult(1, failure=Failure.lost("was killed by SIGKILL")))
        if busy and ring.rank == 2:
            time.sleep(4 * WHILE)
            return None
        return timed_wait(barrier, ended(ring, sparkring.PeerLostError("rank 1 was lost")))

    (other, failed), (killed, killed_error), *_ = ranks(work)
    assert (failed is not None, killed_error is not None) == (busy, busy)
    if busy:
        assert killed + SHORT["COURTESY"] / 2 < other


@pytest.mark.forks
def test_a_rank_was_killed_before_it_was_connected():
    """Its task does not wait for connections, nor for ranks that do not know."""
    ring = Ring(1, 3, {})
    barrier = exit_barrier.SocketBarrier(ring, KEY)
    process = os.fork()
    if process == 0:
        os._exit(0)
    barrier.receive_peers()
    os.waitpid(process, 0)
    assert not barrier.connected
    seconds, error = timed_wait(
        barrier, RankResult(1, failure=Failure.lost("was killed by SIGKILL"))
    )
    assert seconds < exit_barrier.GRACE
    assert error
    assert ring.barriers == 0


@pytest.mark.parametrize("gone", [0, 2])
def test_one_is_lost(ranks, gone):
    """Nobody waits for ever for a rank that has died; Spark should have ended them by then."""

    def work(ring, barrier):
        if ring.rank != gone:
            return timed_wait(barrier, ended(ring))
        for peer in barrier.peers:
            peer.socket.close()
        return None

    told = ranks(work)
    rank, other = (1, 0) if gone == 0 else (0, 2)
    seconds, error = told[rank]
    assert SHORT["LEFT"] <= seconds < 10
    assert error == (
        f"rank {rank} succeeded, but its connection to rank {other} was lost before rank"
        f" {other} had ended: see the log of rank {other}"
    )


GARBAGE = [b"", b"x", b"x" * exit_barrier.HELLO.size, b"\0" * 100_000]


@pytest.mark.parametrize(("count", "places"), [(20, exit_barrier.PENDING), (40, 3)])
@pytest.mark.parametrize("said", GARBAGE, ids=["silence", "a byte", "a hello", "much"])
def test_strangers(ranks, monkeypatch, said, count, places):
    """They come first, talk or not, and keep no rank out, also when they are too many."""
    monkeypatch.setattr(exit_barrier, "PENDING", places)
    monkeypatch.setattr(exit_barrier, "PATIENCE", 0.01)
    monkeypatch.setattr(exit_barrier, "CONNECT", 10.0)
    strangers = []

    def come(port):
        for _ in range(count):
            strangers.append(socket.create_connection(("localhost", port)))
            strangers[-1].setblocking(False)
            strangers[-1].send(said)

    def prepare(ring, barrier):
        ring.port_of_root = come

    def work(ring, barrier):
        return barrier.connected, timed_wait(barrier, ended(ring))[1], ring.barriers

    begin = time.monotonic()
    assert ranks(work, prepare) == [(True, None, 0)] * 3
    assert time.monotonic() - begin < exit_barrier.CONNECT / 2
    for stranger in strangers:
        stranger.close()


def test_silent_strangers_leave_together(monkeypatch):
    """Each rank is accepted after rounds of PATIENCE, not after one PATIENCE for each stranger."""
    monkeypatch.setattr(exit_barrier, "PENDING", 32)
    monkeypatch.setattr(exit_barrier, "PATIENCE", 0.2)
    begin, drops = time.monotonic(), []
    with socket.create_server(("localhost", 0), backlog=200) as listener:
        acceptor = exit_barrier.Acceptor(listener, KEY, 2)
        monkeypatch.setattr(
            acceptor, "release", lambda p, f=acceptor.release: drops.append(p) or f(p)
        )
        strangers = [socket.create_connection(listener.getsockname()) for _ in range(120)]
        address, barrier = listener.getsockname(), exit_barrier.SocketBarrier(Ring(1, 2, {}), KEY)
        with ThreadPoolExecutor(1) as thread:
            rank = thread.submit(barrier.connect_until, address, begin + 60)
            peers = acceptor.accept_all(begin + 60)
            assert [peer.rank for peer in (*peers, *rank.result())] == [1, 0]
    assert len(drops) > 32
    assert time.monotonic() - begin < 120 * exit_barrier.PATIENCE / 2
    for each in (*strangers, *(peer.socket for peer in (*peers, *rank.result()))):
        each.close()


def test_who_has_the_key_and_is_no_rank(ranks):
    """One claims to be another root, and one to be a rank that there is not."""
    thread, claims = ThreadPoolExecutor(2), []

    def prepare(ring, barrier):
        ring.port_of_root = lambda port: claims.extend(
            thread.submit(claim, port, rank) for rank in (0, 3)
        )

    with thread:
        assert ranks(lambda ring, barrier: barrier.connected, prepare) == [True] * 3
    assert [each.result() for each in claims] == [False, False]


def claim(port, rank):
    """Whether one gets in who claims to be this rank."""
    ring = Ring(rank, 3, {})
    try:
        exit_barrier.SocketBarrier(ring, KEY).connect(("localhost", port), time.monotonic() + 10)
    except OSError:
        return False
    return True


@pytest.mark.parametrize("reason", ["key", "port"])
def test_without_connections_spark_has_to_do(ranks, reason):
    def prepare(ring, barrier):
        if reason == "key" and ring.rank == 1:
            barrier.key = bytes(32)
        if reason == "port":
            ring.port_reserve = lack

    def lack():
        raise sparkring.SystemCallError("no port is free")

    def work(ring, barrier):
        return barrier.connected, timed_wait(barrier, ended(ring))[1], ring.barriers

    assert ranks(work, prepare) == [(False, None, 1)] * 3


def test_who_has_missed_another_does_not_ask_spark(ranks):
    """Spark will end its task soon; in ``barrier()`` that would end its executor."""

    def prepare(ring, barrier):
        barrier.key = bytes([ring.rank] * 32)

    def work(ring, barrier):
        seconds, error = timed_wait(
            barrier, ended(ring, sparkring.TimeoutError("rank 9 is missing"))
        )
        return seconds >= SHORT["GRACE"] + SHORT["COURTESY"], error is not None, ring.barriers

    assert ranks(work, prepare) == [(True, True, 0)] * 3


def prove(said, nonce):
    """What rank 0 takes a stranger for, who says this to its random number; None if it hangs up."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stranger, peer = exit_barrier.PendingConnection(theirs), None
        stranger.ours = nonce
        for piece in said:
            ours.sendall(piece)
            try:
                peer = peer or stranger.prove(KEY, {1, 2})
            except ConnectionError:
                return None
        assert len(stranger.received) <= exit_barrier.HELLO.size
        return peer or stranger


def test_a_hello_that_was_changed():
    """Only the right one makes a rank of a stranger."""
    nonce, mine = b"n" * log_forwarder.NONCE, b"m" * log_forwarder.NONCE
    proof = log_forwarder.prove(KEY, b"exit barrier rank", nonce, mine, exit_barrier.NAMES.pack(2))
    said = exit_barrier.HELLO.pack(2, mine, proof)
    assert prove([said], nonce).rank == 2
    refused = 0
    for pieces in mutations(said, 4000):
        peer = prove(pieces, nonce)
        whole = b"".join(pieces).startswith(said)
        assert isinstance(peer, exit_barrier.Peer) == whole
        refused += peer is None
    assert refused > 1000


def test_a_word_that_was_changed():
    """A rank that has proved itself says the one thing, or has gone."""
    session = b"s" * 32
    for pieces in mutations(log_forwarder.tag(session, 0, b"rank", b""), 4000):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            peer, heard = exit_barrier.Peer(theirs, 1, session), False
            for piece in pieces:
                ours.sendall(piece)
                try:
                    heard = heard or peer.receive(b"rank")
                except ConnectionError:
                    break
            assert heard == b"".join(pieces).startswith(peer.message(b"rank"))
            assert len(peer.received) <= log_forwarder.TAG
