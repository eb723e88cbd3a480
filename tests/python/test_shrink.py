# SPDX-License-Identifier: Apache-2.0
"""Communicators of the ranks that live on after others were lost."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
import sparkring
from ranks import open_comm, outcomes, run, wait_for

pytestmark = pytest.mark.quick
LOST = (sparkring.PeerLostError, sparkring.AbortedError)


def lose(comm, ranks):
    """Lose some ranks, whose processes end; return the error of another one."""
    if comm.rank in ranks:
        comm.barrier()
        os._exit(0)
    with pytest.raises(LOST):
        while True:
            comm.barrier()


def meet(comm):
    """Wait until all ranks have come; the first that goes on may shrink the communicator."""
    with contextlib.suppress(sparkring.AbortedError):
        comm.barrier()


def go_on():
    comm = open_comm()
    rank, kept = comm.rank, np.full(1000, comm.rank)
    lose(comm, (1,))
    with comm.shrink() as shrunk:
        assert (comm.closed, comm.usable) == (True, False)
        with pytest.raises(sparkring.InvalidError, match="closed, aborted or shrunk"):
            comm.shrink()
        comm.close()
        total = shrunk.allreduce(kept)
        return rank, shrunk.rank, shrunk.size, total[0], shrunk.allgather_object(rank)


def test_the_living_ranks_go_on():
    ended = outcomes(4, go_on)
    assert isinstance(ended[1].error, EOFError)
    left = [ended[rank].value for rank in (0, 2, 3)]
    assert left == [(old, new, 3, 5, [0, 2, 3]) for new, old in enumerate((0, 2, 3))]


def lose_one_after_another():
    comm = open_comm()
    sizes = []
    while comm.size > 1:
        lose(comm, (comm.size // 2,))
        comm = comm.shrink(timeout=60)
        sizes.append((comm.size, comm.allreduce(1)))
    comm.close()
    return sizes


def test_ranks_are_lost_one_after_another():
    ended = outcomes(4, lose_one_after_another)
    assert ended[0].value == [(size, size) for size in (3, 2, 1)]


def end_what_was_made():
    comm = open_comm()
    half, messages, reducer = comm.split(comm.rank % 2), comm.messages(), comm.reducer()
    meet(comm)
    with comm.shrink() as shrunk:
        errors = []
        for call in (
            lambda: half.allreduce(1),
            lambda: messages.send(1, 0),
            lambda: reducer.allreduce("x", np.ones(2)).wait(),
        ):
            with pytest.raises(sparkring.AbortedError) as caught:
                call()
            errors.append(str(caught.value))
        return errors, shrunk.allreduce(1)


def test_whatever_was_made_of_the_old_communicator_ends():
    for errors, total in run(4, end_what_was_made):
        assert total == 4
        assert all("has shrunk the communicator" in error for error in errors), errors


def leave_first():
    comm = open_comm()
    if comm.rank == 0:
        comm.barrier()
        comm.abort("it leaves")
        with pytest.raises(sparkring.InvalidError, match="closed, aborted or shrunk"):
            comm.shrink()
        return None
    lose(comm, ())
    with comm.shrink() as shrunk:
        return shrunk.allreduce(1)


def test_a_rank_that_aborts_is_not_awaited():
    assert run(3, leave_first) == [None, 2, 2]


def interrupt_and_repeat(folder):
    comm = open_comm()
    again = Path(folder, "again")
    meet(comm)
    if comm.rank == 0:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            comm.shrink()
        again.touch()
    wait_for(again)
    with comm.shrink() as shrunk:
        return shrunk.allreduce(1)


def test_an_interrupt_ends_the_call_which_may_be_repeated(tmp_path):
    assert run(3, interrupt_and_repeat, str(tmp_path)) == [3, 3, 3]


def check_arguments():
    with open_comm() as comm:
        for timeout in (0, -1, float("nan")):
            with pytest.raises(sparkring.InvalidError, match="timeout"):
                comm.shrink(timeout)
        with pytest.raises((TypeError, sparkring.InvalidError)):
            comm.shrink("soon")
        return comm.allreduce(1)


def test_arguments():
    assert run(2, check_arguments) == [2, 2]
