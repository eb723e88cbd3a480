# SPDX-License-Identifier: Apache-2.0
"""Arrays in memory that the ranks of a host share."""

from __future__ import annotations

import gc
import os
import pickle
import re

import numpy as np
import pytest
import sparkring
from cases import DTYPES
from ranks import open_comm, run

COUNT = 100_000  # float64 numbers, which are too many for results in ordinary memory


def is_shared(array):
    """Tell whether an array lies in memory of the core."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return type(array.base).__name__ == "Memory"


def sends(comm, call):
    """Count the bytes that a call sends over links."""
    before = comm.counters()["bytes_sent"]
    call()
    return comm.counters()["bytes_sent"] - before


def share_some():
    with open_comm() as comm:
        before = comm.counters()
        comm.allreduce(np.zeros(COUNT))
        after = comm.counters()
        names = ("bytes_shared", "bytes_sent", "messages_sent")
        return [after[name] - before[name] for name in names], comm.counters(1 - comm.rank)


def test_what_is_shared_is_counted():
    for moved, link in run(2, share_some):
        assert moved == [8 * COUNT, 0, 0]
        assert link["bytes_shared"] == 0


def make_every_result():
    with open_comm() as comm:
        size, root = comm.size, comm.size - 1
        x = np.arange(COUNT * size, dtype="float64")
        counts = [COUNT] * size
        results = [
            comm.allreduce(x),
            comm.reduce(x, root=root),
            comm.reduce_scatter(x),
            comm.broadcast(x),
            comm.allgather(x),
            comm.allgatherv(x),
            comm.gather(x, root),
            comm.gatherv(x, root),
            comm.scatter(x),
            comm.scatterv(x, counts),
            comm.alltoall(x),
            comm.alltoallv(x, counts),
            *comm.allreduce_group([x, x]),
            comm.allreduce_start(x).wait(),
        ]
        shared = [is_shared(result) for result in results if result is not None]
        assert not is_shared(comm.allreduce(x[:10]))
        return all(shared), len(shared)


def test_large_results_are_shared():
    assert run(2, make_every_result) == [(True, 12), (True, 15)]


def keep_results():
    comm = open_comm()
    child = comm.split(0)
    kept = [comm.allreduce(np.full(COUNT, i)) for i in range(5)]
    kept.append(child.allreduce(np.full(COUNT, 5)))
    part = comm.allreduce(np.full((2, COUNT), 6))[1, 1:].reshape(-1, 3)
    request = comm.allreduce_start(np.full(COUNT, 7))
    child.close()
    comm.close()
    del comm, child
    gc.collect()
    last = request.wait()
    del request
    gc.collect()
    for i, array in enumerate(kept):
        assert (array == 2 * i).all()
        array += 1
    assert is_shared(part)
    assert (part == 12).all()
    assert (last == 14).all()
    copy = pickle.loads(pickle.dumps(kept))
    del kept
    return [array[-1] for array in copy]


def test_results_survive_close_and_collection():
    assert run(2, keep_results) == [[2 * i + 1 for i in range(6)]] * 2


def use_empty():
    with open_comm() as comm:
        size, me, root = comm.size, comm.rank, 0
        for dtype in DTYPES:
            x = comm.empty((size * 5000, 3), dtype)
            assert is_shared(x)
            assert (x.shape, x.dtype, x.flags.c_contiguous) == ((size * 5000, 3), dtype, True)
            x[:] = np.arange(x.size).reshape(x.shape) % 3 == me % 3
            twin = np.array(x)
            op = "sum"
            for name, *arguments in [
                ("allreduce", op),
                ("reduce", op, root),
                ("reduce_scatter", op),
                ("broadcast", root),
                ("allgather",),
                ("gather", root),
                ("scatter", root),
                ("alltoall",),
                ("allgatherv",),
            ]:
                call = getattr(comm, name)
                expected, result = call(twin, *arguments), call(x, *arguments)
                assert expected is result is None or np.array_equal(expected, result), name
            out = comm.empty(x.shape, x.dtype)
            assert comm.allreduce(x, op, out=out) is out
            assert comm.allreduce(x, op, out=x) is x
            assert np.array_equal(out, x)
        return True


@pytest.mark.parametrize("size", [1, 2, 3])
def test_empty_in_collectives(size):
    if size == 1:  # where there is nobody to share with
        with sparkring.init(rank=0, addresses=["localhost"]) as comm:
            assert comm.allreduce(comm.empty(COUNT, "int8")).shape == (COUNT,)
        return
    assert run(size, use_empty) == [True] * size


def use_results_again():
    with open_comm() as comm:
        x = comm.allreduce(np.ones(COUNT))
        for _ in range(20):
            x = comm.allreduce(x, "avg")
        y = comm.allreduce_group([x, comm.allgather(x[: COUNT // 2])])
        return x[0], [part.ravel()[-1] for part in y]


def test_results_are_inputs():
    assert run(2, use_results_again) == [(2.0, [4.0, 4.0])] * 2


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def drop_results():
    with open_comm() as comm:
        x = comm.empty(1 << 20)
        x[:] = 1
        comm.allreduce(x)
        before = resident()
        for _ in range(300):
            comm.allreduce(x)
        return (resident() - before) // (1 << 20)


def test_dropped_results_are_used_again():
    assert max(run(2, drop_results)) < 64  # MiB, of the 2400 that went by


def shapes_of_empty():
    with open_comm() as comm:
        assert comm.empty(3).dtype == "float64"
        assert is_shared(comm.empty(3))
        assert comm.empty(()).shape == ()
        assert comm.empty((2, 0)).shape == (2, 0)
        assert comm.empty([2, np.int64(3)], np.int16).shape == (2, 3)
        assert comm.empty(shape=2, dtype="S5").nbytes == 10
        for shape, error in [(-1, ValueError), ((2, -1), ValueError), ("ab", TypeError)]:
            with pytest.raises(error):
                comm.empty(shape)
        with pytest.raises((ValueError, MemoryError)):
            comm.empty((2**40, 2**40))
        with pytest.raises(MemoryError):
            comm.empty(2**59)
        with pytest.raises(TypeError):
            comm.empty(3, "no dtype")
        text = "dtype is of Python objects, which cannot be shared"
        with pytest.raises(sparkring.InvalidError, match=f"^{re.escape(text)}$"):
            comm.empty(3, object)
        comm.close()
        return comm.empty(COUNT).shape


def test_empty():
    assert run(2, shapes_of_empty) == [(COUNT,)] * 2


# ---- Forked children


def in_child(work):
    """Run work() in a forked child, and return whether it went well."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def fork_with_results():
    with open_comm() as comm:
        shared = comm.allreduce(np.ones(COUNT))
        kept = {i: comm.allreduce(np.full(COUNT, i)) for i in range(4)}

        def work():
            shared[0] = 7
            kept.clear()
            gc.collect()
            for _ in range(10):
                own = comm.empty(COUNT)
                own[:] = -1

        assert in_child(work)
        assert shared[0] == 7
        right = all((kept[i] == 2 * i).all() for i in kept)
        more = [comm.allreduce(np.full(COUNT, i)) for i in range(4)]
        return right, len(kept), [array[-1] for array in more]


def test_forked_child_shares_and_harms_nothing():
    assert run(2, fork_with_results) == [(True, 4, [0, 2, 4, 6])] * 2


def fork_and_drop_late():
    with open_comm() as comm:
        old = [comm.allreduce(np.full(COUNT, i)) for i in range(4)]
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.read(reader, 1)
            old.clear()
            del comm
            os._exit(0)
        old.clear()  # another array lies here when the child lets go
        new = comm.empty(4 * COUNT)
        new[:] = -1.5
        os.write(writer, b"!")
        status = os.waitpid(child, 0)[1]
        return status, bool((new == -1.5).all())


def test_forked_child_drops_what_the_parent_uses_again():
    assert run(2, fork_and_drop_late) == [(0, True)] * 2


# ---- Without


def go_without(everywhere):
    with open_comm(shared_memory=not everywhere and sparkring_rank() != 1) as comm:
        x = comm.empty(COUNT)
        x[:] = comm.rank
        sent = sends(comm, lambda: comm.allreduce(np.ones(COUNT)))
        return comm.allreduce(x)[-1], sent > COUNT


def sparkring_rank():
    return int(os.environ["SPARKRING_RANK"])


@pytest.mark.parametrize("everywhere", [True, False])
def test_shared_memory_off(everywhere):
    assert run(2, go_without, everywhere) == [(1, True)] * 2


def share():
    with open_comm() as comm:
        return sends(comm, lambda: comm.allreduce(np.ones(COUNT))) > COUNT


def test_shared_memory_by_the_environment(monkeypatch):
    assert run(2, share) == [False, False]
    monkeypatch.setenv("SPARKRING_SHARED_MEMORY", "0")
    assert run(2, share) == [True, True]
