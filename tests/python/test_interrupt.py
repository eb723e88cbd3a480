# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends every wait, and other threads run during one.

A second thread sees by the counters, or by the open port, that the main thread is inside the core;
that it can look proves that the interpreter lock is free.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time

import numpy as np
import pytest
import sparkring
from ranks import STRETCH, open_comm, outcomes, run, wait_for

SOON = 5 * STRETCH  # seconds, a quarter of what the calls would wait


def when(condition, action):
    """Start a thread that acts as soon as the condition holds."""

    def poll():
        while not condition():
            time.sleep(0.001)
        action()

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    return thread


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def interrupt_rank_0(gate):
    with open_comm() as comm:
        if comm.rank == 1:
            wait_for(gate)
            comm.barrier()  # for which rank 0 may have sent all it had to
            comm.barrier()
        when(lambda: comm.counters()["calls"] == 1, interrupt)
        start = time.monotonic()
        try:
            comm.barrier()
        except KeyboardInterrupt:
            waited = time.monotonic() - start
        gate.touch()
        assert not comm.usable
        with pytest.raises(sparkring.AbortedError):
            comm.barrier()
        comm.abort()
        return waited


def test_interrupt_a_collective(tmp_path):
    interrupted, other = outcomes(2, interrupt_rank_0, tmp_path / "gate")
    assert interrupted.error is None
    assert interrupted.value < SOON
    assert isinstance(other.error, sparkring.AbortedError)
    assert other.error.rank == 0


def abort_between_calls():
    """Abort from a second thread while the main thread makes short calls, one after the other."""
    comm = open_comm()
    x = np.ones(100)
    times = []

    def strike():
        times.append(time.monotonic())
        comm.abort("planned")
        times.append(time.monotonic())

    if comm.rank == 0:
        thread = when(lambda: comm.counters()["calls"] > 100, strike)
    with pytest.raises(sparkring.AbortedError, match="aborted the communicator: planned"):
        while True:
            comm.allreduce(x)
    if comm.rank == 0:
        thread.join()
        assert comm.closed
        return times[1] - times[0]
    comm.abort()
    return 0


def test_abort_between_short_calls():
    for _ in range(3):
        assert max(run(2, abort_between_calls)) < SOON


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_interrupt_init():
    port = free_port()
    start = time.monotonic()
    thread = when(lambda: listens(port), interrupt)
    with pytest.raises(KeyboardInterrupt):
        sparkring.init(rank=0, addresses=["127.0.0.1"] * 2, ports=(port, port), timeout=20)
    assert time.monotonic() - start < SOON
    thread.join()
    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        assert comm.usable


def test_what_a_signal_handler_raises(monkeypatch):
    def raise_from_handler(number, frame):
        raise LookupError(number)

    before = signal.signal(signal.SIGUSR1, raise_from_handler)
    try:
        port = free_port()
        when(lambda: listens(port), lambda: os.kill(os.getpid(), signal.SIGUSR1))
        with pytest.raises(LookupError):
            sparkring.init(rank=0, addresses=["127.0.0.1"] * 2, ports=(port, port), timeout=20)
    finally:
        signal.signal(signal.SIGUSR1, before)


def call_from_two_threads(gate):
    with open_comm() as comm:
        if comm.rank == 1:
            wait_for(gate)
            return comm.allreduce(1), []
        errors = []

        def call_all():
            for call in (comm.barrier, lambda: comm.allreduce(1), comm.close):
                try:
                    call()
                except sparkring.BusyError as error:
                    errors.append((str(error), error.status))
            gate.touch()

        thread = when(lambda: comm.counters()["calls"] == 1, call_all)
        total = comm.allreduce(1)
        thread.join()
        return total, errors


def test_calls_from_two_threads(tmp_path):
    (total, errors), other = run(2, call_from_two_threads, tmp_path / "gate")
    assert (total, other) == (2, (2, []))
    assert errors == [("another call on this communicator is running", "BUSY")] * 3


def test_init_from_two_threads():
    port = free_port()
    errors = []

    def call():
        try:
            sparkring.init(rank=0, addresses=["localhost"])
        except sparkring.BusyError as error:
            errors.append(str(error))
        interrupt()

    thread = when(lambda: listens(port), call)
    with pytest.raises(KeyboardInterrupt):
        sparkring.init(rank=0, addresses=["127.0.0.1"] * 2, ports=(port, port), timeout=20)
    thread.join()
    assert errors == ["another thread of this process is in sparkring.init()"]
