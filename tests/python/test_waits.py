# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C in every call that can wait: an error that names the rank on all others.

Three ranks. Rank 0 is interrupted while it waits for rank 1, which comes too late; rank 2 waits in
the same call. Then all of them open another communicator, for the next call of the table.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import signal
import socket
import threading
import time

import numpy as np
import pytest
import sparkring
from ranks import LIMIT, open_comm, run, wait_for

X = np.arange(6.0)
MUCH = np.ones(1 << 21)  # more than a rank sends before the other one receives

CALLS = {
    "allreduce": lambda comm: comm.allreduce(X),
    "allreduce of much": lambda comm: comm.allreduce(MUCH),
    "allreduce_group": lambda comm: comm.allreduce_group([X, MUCH]),
    "reduce": lambda comm: comm.reduce(X),
    "reduce_scatter": lambda comm: comm.reduce_scatter(X),
    "scan": lambda comm: comm.scan(X),
    "broadcast": lambda comm: comm.broadcast(X, 1),
    "allgather": lambda comm: comm.allgather(X),
    "allgatherv": lambda comm: comm.allgatherv(X),
    "gather": lambda comm: comm.gather(X),
    "gatherv": lambda comm: comm.gatherv(X),
    "scatter": lambda comm: comm.scatter(X, 1),
    "scatterv": lambda comm: comm.scatterv(X, [1, 2, 3], 1),
    "alltoall": lambda comm: comm.alltoall(X),
    "alltoallv": lambda comm: comm.alltoallv(X, [1, 2, 3]),
    "barrier": lambda comm: comm.barrier(),
    "send": lambda comm: comm.send(MUCH, 1),
    "recv": lambda comm: comm.recv(X, 1),
    "broadcast_object": lambda comm: comm.broadcast_object(X, 1),
    "allgather_object": lambda comm: comm.allgather_object(X),
    "gather_object": lambda comm: comm.gather_object(X),
    "scatter_object": lambda comm: comm.scatter_object([X] * 3, 1),
    "alltoall_object": lambda comm: comm.alltoall_object([X] * 3),
    "allreduce_object": lambda comm: comm.allreduce_object(X),
    "send_object": lambda comm: comm.send_object(MUCH, 1),
    "recv_object": lambda comm: comm.recv_object(1),
    "split": lambda comm: comm.split(0),
    "close": lambda comm: comm.close(),
    "the end of with": lambda comm: end_block(comm),
    "wait": lambda comm: comm.allreduce_start(X).wait(),
    "wait for the second": lambda comm: wait_for_last(
        [comm.barrier_start(), comm.allreduce_start(X)]
    ),
    "a call behind a request": lambda comm: [comm.barrier_start(), comm.allreduce(X)],
    "close behind a request": lambda comm: [comm.allreduce_start(X), comm.close()],
    "the end of with of a request": lambda comm: end_block(comm.allreduce_start(X)),
    "await": lambda comm: asyncio.run(wait_in_loop(comm)),
}

MESSAGES = {"send", "recv", "send_object", "recv_object"}


def wait_for_last(requests):
    requests[-1].wait()


def end_block(manager):
    with manager:
        pass


async def wait_in_loop(comm):
    """Ctrl-C ends the loop, which leaves the request alone; the block ends that."""
    with comm:
        await comm.allreduce_start(X)


def raise_here():
    os.kill(os.getpid(), signal.SIGINT)


def raise_in(thread):
    """Make the interpreter raise KeyboardInterrupt in another thread."""
    exception = ctypes.py_object(KeyboardInterrupt)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception) == 1


def interrupt_soon(raise_interrupt, *arguments, comm=None):
    """Interrupt a moment after the first call, if there is a communicator to see it by.

    What this returns shows when that was.
    """
    times = []

    def act():
        until = time.monotonic() + 0.5  # close and split are not counted
        while comm and comm.counters()["calls"] == 0 and time.monotonic() < until:
            time.sleep(0.001)
        time.sleep(0.05 if comm else 0.15)
        times.append(time.monotonic())
        raise_interrupt(*arguments)

    threading.Thread(target=act).start()
    return times


def take_part(comm, name, gate):
    """Be a rank; returns what was raised and when."""
    times = []
    if comm.rank == 1:
        wait_for(gate)
    try:
        if comm.rank == 0:
            times = interrupt_soon(raise_here, comm=comm)
        if comm.rank != 1 or name not in MESSAGES:
            CALLS[name](comm)
        while True:
            comm.barrier()
    except BaseException as error:
        return error, time.monotonic(), times
    finally:
        if comm.rank == 0:
            gate.touch()


def judge(comm, error, ended, times):
    """Check what was raised, and return what matters in the end: when."""
    if comm.rank == 0:
        assert type(error) is KeyboardInterrupt, repr(error)
        return times[0], ended
    if comm.rank == 1 and isinstance(error, sparkring.MismatchError):
        return 0, ended  # it called a barrier where rank 0 sent
    assert error.rank == 0, repr(error)
    if comm.rank == 1 and isinstance(error, sparkring.PeerLostError):
        return 0, ended  # it came too late to open a link to rank 0
    assert type(error) is sparkring.AbortedError, repr(error)
    assert re.match("rank 0 .*(interrupted|KeyboardInterrupt|CancelledError)", str(error)), str(
        error
    )
    return 0, ended


def interrupt_every_call(folder):
    results = {}
    for name in CALLS:
        comm = open_comm()
        outcome = take_part(comm, name, folder / name)
        results[name] = judge(comm, *outcome)
        with pytest.raises(sparkring.RingError):
            comm.barrier()
        comm.abort()
    with open_comm() as comm:
        assert comm.allreduce(1) == 3
    return results


@pytest.mark.parametrize("shared", ["1", "0"])
def test_every_call(shared, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARKRING_SHARED_MEMORY", shared)
    first, late, other = run(3, interrupt_every_call, tmp_path)
    for name in CALLS:
        interrupted, ended = first[name]
        taken = [ended - interrupted, other[name][1] - interrupted]
        print(f"{name:30} {taken[0]:.3f} {taken[1]:.3f} s")
        assert max(taken) < LIMIT, name
    assert set(late) == set(CALLS)


# ---- Opening


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


HOSTS = "127.0.0.1,127.0.0.1"
WAYS = {
    "rank 0 of addresses": lambda: sparkring.init(rank=0, addresses=HOSTS.split(",")),
    "rank 1 of addresses": lambda: sparkring.init(rank=1, addresses=HOSTS.split(",")),
    "root_address": lambda: sparkring.init(rank=1, size=2, root_address="127.0.0.1"),
    "inside the exchange": lambda: sparkring.init(
        rank=0, addresses=HOSTS.split(","), exchange=lambda text: time.sleep(30)
    ),
    "environment": lambda: sparkring.init(),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_init(way, monkeypatch):
    monkeypatch.setenv("SPARKRING_PORTS", "{0}-{0}".format(free_port()))
    if way == "environment":
        monkeypatch.setenv("SPARKRING_RANK", "0")
        monkeypatch.setenv("SPARKRING_SIZE", "2")
        monkeypatch.setenv("SPARKRING_ADDRESSES", HOSTS)
    times = interrupt_soon(raise_here)
    with pytest.raises(KeyboardInterrupt):
        WAYS[way]()
    assert time.monotonic() - times[0] < LIMIT
    monkeypatch.undo()
    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        assert comm.allreduce(1) == 1


def interrupt_after_exchange(folder):
    """Rank 1 shares its endpoint and does not come."""
    rank = int(os.environ["SPARKRING_RANK"])
    times = []

    def exchange(text):
        (folder / f"new{rank}").write_text(text)
        (folder / f"new{rank}").rename(folder / str(rank))
        wait_for(folder / str(1 - rank))
        if rank == 1:
            wait_for(folder / "gate")
        else:
            times.append(interrupt_soon(raise_here))
        return [(folder / str(which)).read_text() for which in range(2)]

    options = {"rank": rank, "addresses": HOSTS.split(","), "exchange": exchange, "timeout": 30}
    if rank == 1:
        with pytest.raises(sparkring.RingError):
            sparkring.init(**options)
        return 0
    with pytest.raises(KeyboardInterrupt):
        sparkring.init(**options)
    (folder / "gate").touch()
    return time.monotonic() - times[0][0]


def test_init_after_its_exchange(tmp_path):
    assert max(run(2, interrupt_after_exchange, tmp_path)) < LIMIT


# ---- Other threads


def call_in_thread(comm, call):
    """Start a thread that makes a call; what it raised, and when, comes back in the list."""
    raised = []

    def work():
        try:
            call(comm)
        except BaseException as error:
            raised.append((error, time.monotonic()))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread, raised


THREAD_CALLS = ["allreduce", "recv", "broadcast_object", "wait", "close"]


def interrupt_threads(folder):
    slowest = 0
    for name in THREAD_CALLS:
        comm = open_comm()
        if comm.rank == 0:
            thread, raised = call_in_thread(comm, CALLS[name])
            times = interrupt_soon(raise_in, thread.ident, comm=comm)
            thread.join()
            (folder / name).touch()
            (error, ended), started = raised[0], times[0]
            assert type(error) is KeyboardInterrupt
            slowest = max(slowest, ended - started)
        else:
            error, _, _ = take_part(comm, name, folder / name)
            judge(comm, error, 0, [])
        comm.abort()
    return slowest


def test_exceptions_that_are_sent_to_a_thread(tmp_path):
    slowest, *_ = run(3, interrupt_threads, tmp_path)
    assert slowest < LIMIT


def interrupt_main_thread(folder):
    """The block ends with Ctrl-C while another thread is in a call."""
    comm = open_comm()
    if comm.rank != 0:
        error, _, _ = take_part(comm, "allreduce", folder / "gate")
        judge(comm, error, 0, [])
        return 0
    with pytest.raises(KeyboardInterrupt), comm:
        _, raised = call_in_thread(comm, CALLS["allreduce"])
        times = interrupt_soon(raise_here, comm=comm)
        time.sleep(20)
    while not raised:
        time.sleep(0.001)
    (folder / "gate").touch()
    error, ended = raised[0]
    assert type(error) is sparkring.AbortedError
    return ended - times[0]


def test_interrupt_of_the_main_thread_ends_calls_of_others(tmp_path):
    assert max(run(3, interrupt_main_thread, tmp_path)) < LIMIT


def abort_in_handler(folder, name):
    comm = open_comm()
    if comm.rank != 0:
        error, _, _ = take_part(comm, name, folder / "gate")
        judge(comm, error, 0, [])
        return True
    signal.signal(signal.SIGTERM, lambda number, frame: comm.abort("it was interrupted"))
    interrupt_soon(os.kill, os.getpid(), signal.SIGTERM, comm=comm)
    with pytest.raises(sparkring.AbortedError):
        CALLS[name](comm)
    (folder / "gate").touch()
    comm.close()  # it is aborted already
    return comm.closed


@pytest.mark.parametrize("name", ["allreduce", "wait", "a call behind a request"])
def test_abort_in_a_signal_handler(name, tmp_path):
    assert run(3, abort_in_handler, tmp_path, name) == [True] * 3


def wait_in_handler(gate):
    """What the thread itself runs cannot be waited for in a handler; what another runs can."""
    comm = open_comm()
    if comm.rank != 0:
        wait_for(gate)
        comm.allreduce(X)
        comm.barrier()
        comm.close()
        return True
    results = []
    request = comm.allreduce_start(X)

    def handle(number, frame):
        gate.touch()
        try:
            results.append(request.wait()[1])
        except sparkring.BusyError:
            results.append(3)

    signal.signal(signal.SIGTERM, handle)
    interrupt_soon(os.kill, os.getpid(), signal.SIGTERM, comm=comm)
    comm.barrier()
    assert (results, request.wait()[1]) == ([3], 3)
    comm.close()
    return True


def test_wait_in_a_signal_handler(tmp_path):
    assert run(3, wait_in_handler, tmp_path / "gate") == [True] * 3


def cancel(gate):
    """Cancelling a task ends the wait and not the request; aborting ends that."""
    comm = open_comm()
    if comm.rank == 1:
        wait_for(gate)
        with pytest.raises(sparkring.AbortedError) as caught:
            while True:
                comm.barrier()
        return caught.value.rank

    async def work():
        request = comm.allreduce_start(X)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(request, 0.2)
        comm.abort("it took too long")
        with pytest.raises(sparkring.AbortedError):
            await request

    asyncio.run(work())
    gate.touch()
    return None


def test_cancelled_task(tmp_path):
    assert run(2, cancel, tmp_path / "gate") == [None, 0]
