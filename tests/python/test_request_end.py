# SPDX-License-Identifier: Apache-2.0
"""How requests end badly: a rank dies, aborts, differs or is interrupted; and forked children."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
import sparkring
from ranks import STRETCH, open_comm, outcomes, run, wait_for

SOON = 5 * STRETCH  # seconds, a quarter of what the calls would wait


def abort_after(gate, comm, *reason):
    """Be a rank that aborts once another has made the gate."""
    wait_for(gate)
    comm.abort(*reason)


def fail_in_block(gate):
    comm = open_comm()
    if comm.rank == 1:
        return abort_after(gate, comm, "no more")
    with pytest.raises(LookupError), comm.allreduce_start(1):
        gate.touch()
        raise LookupError
    with pytest.raises(sparkring.AbortedError, match="no more"):
        comm.allreduce_start(1)
    comm.abort()
    return True


def test_a_failed_request_does_not_hide_what_the_block_raised(tmp_path):
    assert run(2, fail_in_block, tmp_path / "gate") == [True, None]


def die_with_requests(gate):
    comm = open_comm()
    if comm.rank == 1:
        wait_for(gate)
        os._exit(0)
    requests = [comm.allreduce_start(np.ones(1000)) for _ in range(5)]
    gate.touch()
    errors = []
    for request in [*requests, requests[0]]:
        with pytest.raises(sparkring.PeerLostError) as caught:
            request.wait()
        errors.append((caught.value.rank, str(caught.value)))
        assert repr(request).endswith("failed>")
        with pytest.raises(sparkring.PeerLostError):
            request.test()
    with pytest.raises(sparkring.PeerLostError):
        comm.barrier()
    assert not comm.usable
    comm.abort()
    return errors


def test_a_rank_dies_with_requests_outstanding(tmp_path):
    survivor, dead = outcomes(2, die_with_requests, tmp_path / "gate")
    assert isinstance(dead.error, EOFError)
    assert survivor.error is None
    assert len(survivor.value) == 6
    assert len(set(survivor.value)) == 1
    assert survivor.value[0][0] == 1


def abort_with_requests(gate):
    comm = open_comm()
    if comm.rank == 1:
        return abort_after(gate, comm, "enough")
    requests = [comm.allreduce_start(np.ones(1000)) for _ in range(3)]
    gate.touch()
    errors = []
    for request in reversed(requests):
        with pytest.raises(sparkring.AbortedError) as caught:
            request.wait()
        errors.append((caught.value.rank, str(caught.value).endswith("enough")))
    comm.abort()
    return errors


def test_abort_with_requests_outstanding(tmp_path):
    assert run(2, abort_with_requests, tmp_path / "gate") == [[(1, True)] * 3, None]


def abort_own_requests(gate):
    comm = open_comm()
    if comm.rank == 1:
        return abort_after(gate, comm)
    requests = [comm.allreduce_start(np.ones(1000)) for _ in range(3)]
    comm.abort("mine")
    gate.touch()
    assert all(isinstance(fails(request), sparkring.AbortedError) for request in requests)
    return True


def fails(request):
    with pytest.raises(sparkring.RingError) as caught:
        request.wait()
    return caught.value


def test_own_abort_ends_requests(tmp_path):
    assert run(2, abort_own_requests, tmp_path / "gate") == [True, None]


def mismatch():
    comm = open_comm()
    error = fails(comm.allreduce_start(np.ones(3 + comm.rank)))
    comm.abort()
    return type(error).__name__


def test_mismatch():
    assert "MismatchError" in run(2, mismatch)


def interrupt_wait(gate):
    comm = open_comm()
    if comm.rank == 1:
        return abort_after(gate, comm)
    requests = [comm.allreduce_start(np.ones(3)) for _ in range(2)]
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        requests[1].wait()
    waited = time.monotonic() - start
    gate.touch()
    assert [type(fails(request)) for request in requests] == [sparkring.AbortedError] * 2
    assert not comm.usable
    comm.abort()
    return waited < SOON


def test_interrupt_while_waiting(tmp_path):
    assert run(2, interrupt_wait, tmp_path / "gate") == [True, None]


def interrupt_drop(gate):
    comm = open_comm()
    if comm.rank == 1:
        return abort_after(gate, comm)
    request = comm.allreduce_start(np.ones(3))
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        del request
        time.sleep(SOON)
    gate.touch()
    assert not comm.usable
    comm.abort()
    return True


def test_interrupt_while_dropping(tmp_path):
    assert run(2, interrupt_drop, tmp_path / "gate") == [True, None]


def drop_in_signal_handler(gate):
    with open_comm() as comm:
        if comm.rank == 1:
            wait_for(gate)
            return [comm.allreduce(i) for i in range(3)]

        def drop(number, frame):
            requests.clear()
            gate.touch()

        before = sys.getrefcount(comm)
        out = np.zeros((), "int64")
        requests = [comm.allreduce_start(0), comm.allreduce_start(1, out=out)]
        signal.signal(signal.SIGUSR1, drop)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        total = comm.allreduce(2)
        assert not requests
        while sys.getrefcount(comm) > before:
            time.sleep(0.001)
        return [0, int(out), total]


def test_dropping_in_a_signal_handler_does_not_wait(tmp_path):
    assert run(2, drop_in_signal_handler, tmp_path / "gate") == [[0, 2, 4]] * 2


def use_in_child(gate):
    with open_comm() as comm:
        if comm.rank == 1:
            wait_for(gate)
            return comm.allreduce(1)
        request = comm.allreduce_start(1)
        child = os.fork()
        if child == 0:
            text = str(fails(request))
            del request
            os._exit(0 if text == "this request belongs to the process that forked this one" else 1)
        status = os.waitpid(child, 0)[1]
        gate.touch()
        return request.wait() + status


@pytest.mark.forks
def test_forked_child(tmp_path):
    assert run(2, use_in_child, tmp_path / "gate") == [2, 2]
