# SPDX-License-Identifier: Apache-2.0
"""Communicators of some ranks of another one."""

from __future__ import annotations

import os
import re
import threading

import numpy as np
import pytest
import sparkring
from ranks import open_comm, outcomes, run, wait_for

pytestmark = pytest.mark.quick


def split_by_color():
    with open_comm() as comm:
        with comm.split(comm.rank % 2) as half:
            known = (half.rank, half.size, half.authenticated, half.hosts)
            total = half.allreduce(np.array([comm.rank, 1]))
            epochs = comm.epoch != half.epoch
            text = repr(half)
        assert (half.closed, half.usable) == (True, False)
        return known, total.tolist(), epochs, text, comm.allreduce(1)


def test_split_by_color():
    for rank, (known, total, epochs, text, everyone) in enumerate(run(4, split_by_color)):
        assert known == (rank // 2, 2, True, ["127.0.0.1"] * 2)
        assert total == [2 + 2 * (rank % 2), 2]
        assert epochs
        assert text.startswith(f"<sparkring.Communicator rank {rank // 2} of 2 on 127.0.0.1")
        assert everyone == 4


def split_by_key():
    with open_comm() as comm, comm.split(0, key=-comm.rank) as child:
        return child.rank, child.allgather(comm.rank).tolist()


def test_split_by_key():
    assert run(3, split_by_key) == [(2 - rank, [2, 1, 0]) for rank in range(3)]


def split_without_color():
    with open_comm() as comm:
        child = comm.split(None if comm.rank == 1 else 7)
        if child is None:
            return None, comm.allreduce(1)
        with child:
            return child.allgather(comm.rank).tolist(), comm.allreduce(1)


def test_split_without_color():
    assert run(3, split_without_color) == [([0, 2], 3), (None, 3), ([0, 2], 3)]


def split_again():
    with open_comm() as comm, comm.split(comm.rank // 2) as half, half.split(half.rank) as alone:
        return alone.size, half.size, alone.allreduce(comm.rank)


def test_split_again():
    assert run(4, split_again) == [(1, 2, rank) for rank in range(4)]


def use_all_at_once():
    with open_comm() as comm, comm.split(comm.rank % 2) as half, comm.split(0) as twin:
        totals = {}

        def work(name, used):
            totals[name] = [used.allreduce(np.full(1000, i))[0] for i in range(50)]

        names = {"all": comm, "half": half, "twin": twin}
        threads = [threading.Thread(target=work, args=pair) for pair in names.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        requests = [used.allreduce_start(1) for used in (comm, half, twin) for _ in range(3)]
        return totals, [request.wait() for request in reversed(requests)]


def test_all_are_used_at_once():
    expected = {name: [size * i for i in range(50)] for name, size in SIZES.items()}
    assert run(4, use_all_at_once) == [(expected, [4] * 3 + [2] * 3 + [4] * 3)] * 4


SIZES = {"all": 4, "half": 2, "twin": 4}


def outlive_the_parent():
    comm = open_comm()
    child = comm.split(0)
    objects = child.allgather_object({comm.rank})
    comm.close()
    with child:
        return objects, child.allreduce(1)


def test_it_outlives_its_parent():
    assert run(2, outlive_the_parent) == [([{0}, {1}], 2)] * 2


def abort_child():
    with open_comm() as comm:
        child = comm.split(0)
        if comm.rank == 0:
            child.abort("not this one")
        else:
            with pytest.raises(sparkring.AbortedError, match="not this one"):
                child.barrier()
            child.abort()
        return comm.usable, comm.allreduce(1)


def test_abort_of_a_child():
    assert run(2, abort_child) == [(True, 2)] * 2


def die_with_child(gate):
    comm = open_comm()
    child = comm.split(0)
    child.barrier()
    if comm.rank == 1:
        wait_for(gate)
        os._exit(0)
    gate.touch()
    for broken in (child, comm):
        with pytest.raises(sparkring.PeerLostError) as caught:
            broken.barrier()
            broken.barrier()
        assert caught.value.rank == 1
        broken.abort()
    return True


def test_a_rank_dies(tmp_path):
    survivor, _ = outcomes(2, die_with_child, tmp_path / "gate")
    assert survivor.error is None
    assert survivor.value


def drop_child():
    with open_comm() as comm:
        child = comm.split(0)
        child.barrier()
        comm.barrier()
        with pytest.warns(ResourceWarning, match="was collected while open"):
            del child
        return comm.allreduce(1)


def test_dropping_a_child():
    assert run(2, drop_child) == [2, 2]


def test_bad_arguments():
    comm = sparkring.init(rank=0, addresses=["localhost"])
    for color in (-1, 2**31):
        text = f"color is {color}: it must be from 0 to 2147483647, or None for no communicator"
        with pytest.raises(sparkring.InvalidError, match=f"^{re.escape(text)}$"):
            comm.split(color)
    with pytest.raises(TypeError):
        comm.split("red")
    with pytest.raises(TypeError):
        comm.split()
    comm.close()
    with pytest.raises(sparkring.InvalidError, match=r"^the communicator is closed$"):
        comm.split(0)
