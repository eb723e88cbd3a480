# SPDX-License-Identifier: Apache-2.0
"""The exit barrier over real rings of the tasks; here tasks and ranks are threads."""

from __future__ import annotations

import contextlib
import copy
import os
import socket
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor

import pytest
import sparkring
from sparkring.spark import _exit_barrier as exit_barrier
from sparkring.spark._rank_result import Failure, RankResult

SHORT = {"GRACE": 0.3, "COURTESY": 0.1, "LEFT": 0.6, "CONNECT": 5.0}
WHILE = 0.5  # seconds
SIZE = 3


class Task:
    """As much of a barrier task as it takes, and of the communicator of its rank."""

    def __init__(self, rank, shared):
        self.rank, self.shared = rank, shared
        self.encrypted = shared.get("encrypted", False)
        self.barriers = 0

    def partitionId(self):  # noqa: N802 (Spark's name)
        return self.rank

    def getTaskInfos(self):  # noqa: N802
        return [types.SimpleNamespace(address="127.0.0.1:7077")] * SIZE

    def barrier(self):
        self.barriers += 1

    def allgather_object(self, text):
        self.shared["texts"][self.rank] = text
        self.shared["all"].wait(10)
        return list(self.shared["texts"])


def connect(task, barrier):
    """Connect the task as the process of Spark does, and its rank as the child of it does."""
    rank = copy.copy(barrier)
    rank.task_end, rank.rank_end = barrier.task_end.dup(), barrier.rank_end.dup()
    with ThreadPoolExecutor(1) as thread:
        joined = thread.submit(rank.connect_all, task)
        barrier.connect()
        joined.result()


@pytest.fixture
def ranks(monkeypatch):
    """Run ``work(task, barrier)`` on three connected ranks; gives what each returns."""
    for name, seconds in SHORT.items():
        monkeypatch.setattr(exit_barrier, name, seconds)

    def run(work, prepare=lambda task, barrier: None, ports=None, encrypted=False):
        every = threading.Barrier(SIZE)
        shared = {"texts": [None] * SIZE, "all": every, "encrypted": encrypted}

        def play(rank):
            task = Task(rank, shared)
            barrier = exit_barrier.RingBarrier(task, ports)
            prepare(task, barrier)
            connect(task, barrier)
            every.wait(10)  # the end of a task may fail the opening of a slower one
            try:
                return work(task, barrier)
            finally:
                if barrier.ring is not None:
                    barrier.ring.abort("the task has ended")

        with ThreadPoolExecutor(SIZE) as threads:
            return list(threads.map(play, range(SIZE)))

    return run


def ended(task, error=None):
    return RankResult(task.rank, b"", Failure.of(error, None) if error else None)


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

    def work(task, barrier):
        assert barrier.ring is not None
        time.sleep(WHILE if task.rank == last else 0)
        begun = time.monotonic()
        _, error = timed_wait(barrier, ended(task))
        return begun, error, task.barriers, time.monotonic()

    results = ranks(work)
    assert [(error, barriers) for _, error, barriers, _ in results] == [(None, 0)] * SIZE
    begun, *_ = results[last]
    assert all(ended >= begun for *_, ended in results)


@pytest.mark.forks
def test_a_stage_of_one_task(monkeypatch):
    """The ring of one rank needs no exchange; rank and task are processes."""
    monkeypatch.setattr(Task, "getTaskInfos", lambda task: [types.SimpleNamespace(address="a:1")])
    task = Task(0, {"texts": [None], "all": threading.Barrier(1)})
    barrier = exit_barrier.RingBarrier(task)
    process = os.fork()
    if process == 0:
        barrier.connect_all(task)
        os._exit(0)
    barrier.connect()
    assert os.waitpid(process, 0)[1] == 0
    assert timed_wait(barrier, ended(task))[1] is None


@pytest.mark.parametrize("encrypted", [False, True])
def test_tasks_encrypt_as_the_ranks_do(ranks, encrypted):
    def work(task, barrier):
        links = {barrier.ring.link(other) for other in range(SIZE) if other != task.rank}
        return links & {"tcp", "tls"}, timed_wait(barrier, ended(task))[1]

    results = ranks(work, encrypted=encrypted)
    assert results == [({"tls" if encrypted else "tcp"}, None)] * SIZE


def test_failures_enter_the_barrier_too(ranks):
    def work(task, barrier):
        assert barrier.ring is not None
        return timed_wait(barrier, ended(task, ValueError()))

    assert [error for _, error in ranks(work)] == [None] * SIZE


@pytest.mark.parametrize("weighs", [False, True])
def test_a_failed_rank_times_out(ranks, weighs):
    """Rank 2 is at work. A rank that only knows of another's failure ends a little later."""

    def work(task, barrier):
        if task.rank == 2:
            time.sleep(4 * WHILE)
            return None
        error = sparkring.PeerLostError("rank 9 was lost") if weighs else ValueError()
        return timed_wait(barrier, ended(task, error))

    least = SHORT["GRACE"] + weighs * SHORT["COURTESY"]
    for seconds, error in ranks(work)[:2]:
        assert error and least <= seconds < 4 * WHILE


@pytest.mark.parametrize("busy", [False, True])
def test_a_rank_was_killed(ranks, busy):
    """Its task enters the barrier for it. If another rank is at work, Spark misses it first."""

    def work(task, barrier):
        if task.rank == 1:
            return timed_wait(barrier, RankResult(1, failure=Failure.lost("was killed by SIGKILL")))
        if busy and task.rank == 2:
            time.sleep(4 * WHILE)
            return None
        return timed_wait(barrier, ended(task, sparkring.PeerLostError("rank 1 was lost")))

    (other, failed), (killed, killed_error), *_ = ranks(work)
    assert (failed is not None, killed_error is not None) == (busy, busy)
    if busy:
        assert killed + SHORT["COURTESY"] / 2 < other


@pytest.mark.forks
def test_a_rank_was_killed_before_it_was_connected():
    """Its task does not wait for a ring, nor for ranks that do not know."""
    task = Task(1, {})
    barrier = exit_barrier.RingBarrier(task)
    process = os.fork()
    if process == 0:
        os._exit(0)
    barrier.connect()
    os.waitpid(process, 0)
    assert barrier.ring is None
    seconds, error = timed_wait(
        barrier, RankResult(1, failure=Failure.lost("was killed by SIGKILL"))
    )
    assert seconds < exit_barrier.GRACE
    assert error
    assert task.barriers == 0


@pytest.mark.parametrize("gone", [0, 2])
def test_one_is_lost(ranks, gone):
    """Nobody waits for ever for a task that has died; Spark should have ended them by then."""

    def work(task, barrier):
        if task.rank != gone:
            return timed_wait(barrier, ended(task))
        barrier.ring.abort("killed")
        return None

    results = ranks(work)
    for rank in {0, 1, 2} - {gone}:
        seconds, error = results[rank]
        assert SHORT["LEFT"] <= seconds < 10
        assert error == (
            f"rank {rank} succeeded, but its connection to rank {gone} was lost before rank"
            f" {gone} had ended: see the log of rank {gone}"
        )


GARBAGE = [b"", b"x", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100_000]


@pytest.mark.parametrize("sent", GARBAGE, ids=["silence", "a byte", "a request", "much"])
def test_outsiders(ranks, sent):
    """They connect to each port that a task may listen on, and keep no task out."""
    first = free_ports(40)
    over = threading.Event()

    def crowd():
        outsiders = []
        while not over.wait(0.001):
            for port in range(first, first + 40):
                outsider = socket.socket()
                outsider.setblocking(False)
                outsider.connect_ex(("127.0.0.1", port))
                with contextlib.suppress(OSError):
                    outsider.send(sent)
                outsiders.append(outsider)
            for outsider in outsiders[:-1000]:
                outsider.close()
            del outsiders[:-1000]
        for outsider in outsiders:
            outsider.close()

    def work(task, barrier):
        return barrier.ring is not None, timed_wait(barrier, ended(task))[1], task.barriers

    thread = threading.Thread(target=crowd)
    thread.start()
    try:
        assert ranks(work, ports=(first, first + 39)) == [(True, None, 0)] * SIZE
    finally:
        over.set()
        thread.join()


def free_ports(count):
    """Find the first of so many ports that nothing listens on."""
    for first in range(33000, 60000, count):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for port in range(first, first + count):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
    raise AssertionError("no ports are free")


def have_no_port(task, barrier):
    """Leave rank 1 no port to listen on."""
    if task.rank == 1:
        barrier.ports = taken


def be_changed_in_transit(task, barrier):
    """Let the tasks get a key of rank 2 that it has not made."""
    gather = task.allgather_object

    def changed(text):
        *texts, last = gather(text)
        return [*texts, last[:-2] + ("1" if last[-2:-1] == "0" else "0")]

    if task.rank != 2:
        task.allgather_object = changed


taken = (1, 1)


@pytest.mark.parametrize("prepare", [have_no_port, be_changed_in_transit])
def test_without_a_ring_spark_has_to_do(ranks, monkeypatch, prepare):
    monkeypatch.setattr(exit_barrier, "CONNECT", 1.0)

    def work(task, barrier):
        return barrier.ring, timed_wait(barrier, ended(task))[1], task.barriers

    with socket.create_server(("", 0)) as listener:
        monkeypatch.setitem(globals(), "taken", (listener.getsockname()[1],) * 2)
        assert ranks(work, prepare) == [(None, None, 1)] * SIZE


def test_who_has_missed_another_does_not_ask_spark(ranks):
    """Spark will end its task soon; in ``barrier()`` that would end its executor."""

    def work(task, barrier):
        seconds, error = timed_wait(
            barrier, ended(task, sparkring.TimeoutError("rank 9 is missing"))
        )
        return seconds >= SHORT["GRACE"] + SHORT["COURTESY"], error is not None, task.barriers

    with socket.create_server(("", 0)) as listener:
        globals()["taken"] = (listener.getsockname()[1],) * 2
        assert ranks(work, have_no_port) == [(True, True, 0)] * SIZE
