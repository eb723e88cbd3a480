# SPDX-License-Identifier: Apache-2.0
"""Started collectives: results, order, buffers and blocks."""

from __future__ import annotations

import gc
import re
import sys
import threading
import time
import weakref

import numpy as np
import pytest
import sparkring
from cases import DTYPES, cases, check, numbers, total
from ranks import open_comm, run, wait_for

pytestmark = pytest.mark.quick

SIZES = [1, 2, 3, 4]


# ---- Results


def start_every_collective():
    with open_comm() as comm:
        size, root = comm.size, comm.size - 1
        for dtype in DTYPES:
            x = numbers(comm.rank, dtype)
            rows = np.resize(x, (2 * size, 3))
            counts = [(rank + 1) % 3 for rank in range(size)]
            uneven = np.resize(x, (sum(counts), 2))
            calls = [
                ("allreduce", x, "prod"),
                ("reduce", x, "sum", root),
                ("reduce_scatter", rows, "sum"),
                ("reduce_scatterv", uneven, counts, "prod"),
                ("scan", x, "sum"),
                ("exscan", x, "prod"),
                ("broadcast", x, root),
                ("allgather", x),
                ("allgatherv", x[comm.rank :]),
                ("gather", x, root),
                ("gatherv", x[comm.rank :], root),
                ("scatter", rows, root),
                ("scatterv", uneven, counts, root),
                ("alltoall", rows),
                ("alltoallv", uneven, counts),
            ]
            for name, *arguments in calls:
                request = getattr(comm, f"{name}_start")(*arguments)
                result = request.wait()
                assert request.wait() is result, name
                check(result, getattr(comm, name)(*arguments), name)
        assert comm.barrier_start().wait() is None
        return True


@pytest.mark.parametrize("size", SIZES)
def test_results_are_those_of_the_blocking_calls(size):
    assert run(size, start_every_collective) == [True] * size


def start_every_case():
    with open_comm() as comm:
        for ranks in zip(*(cases(rank) for rank in range(comm.size))):
            case = ranks[comm.rank]
            check(comm.allreduce_start(case.x).wait(), total("sum", ranks, comm.rank), case.name)
        return True


def test_every_container_and_dtype():
    assert run(2, start_every_case) == [True] * 2


def start_into_out():
    with open_comm() as comm:
        x, out = np.arange(6.0), np.empty(6)
        assert comm.allreduce_start(x, out=out).wait() is out
        assert comm.allreduce_start(x, out=x).wait() is x
        flags = np.array([comm.rank == 0, False])
        return x.tolist(), comm.allreduce_start(flags, "lor").wait().tolist()


def test_out_and_bool():
    expected = [[0.0, 2.0, 4.0, 6.0, 8.0, 10.0], [True, False]]
    assert [list(result) for result in run(2, start_into_out)] == [expected] * 2


def test_bad_arguments(comm):
    for call in (
        lambda: comm.allreduce_start("text"),
        lambda: comm.allreduce_start(1, "median"),
        lambda: comm.allreduce_start(1, out=np.empty(2)),
        lambda: comm.broadcast_start(1, root=1),
        lambda: comm.gatherv_start(np.ones(1), root=1),
    ):
        with pytest.raises(sparkring.InvalidError):
            call()
    with pytest.raises(TypeError, match=re.escape("allreduce_start()")):
        comm.allreduce_start()
    with pytest.raises(TypeError, match="a Request is made by methods of a Communicator"):
        sparkring.Request()


def test_start_after_close(comm):
    comm.close()
    with pytest.raises(sparkring.InvalidError, match=r"^the communicator is closed$"):
        comm.allreduce_start(1)


def test_what_it_prints(comm):
    request = comm.allgather_start(1)
    request.wait()
    assert repr(request) == "<sparkring.Request allgather, done>"


# ---- Many


def start_many():
    with open_comm() as comm:
        requests = [comm.allreduce_start(np.full(i + 1, i + comm.rank)) for i in range(200)]
        others = [comm.allgather_start(i) for i in range(50)]
        total = comm.allreduce(comm.rank)  # runs when all of them are done
        assert all(request.test() for request in requests + others)
        assert total == sum(range(comm.size))
        ranks = sum(range(comm.size))
        for i, request in reversed(list(enumerate(requests))):
            assert request.wait().tolist() == [i * comm.size + ranks] * (i + 1)
        return [request.wait().tolist() for request in others]


@pytest.mark.parametrize("size", [2, 3])
def test_many_are_outstanding(size):
    assert run(size, start_many) == [[[i] * size for i in range(50)]] * size


def wait_out_of_order(gate):
    with open_comm() as comm:
        requests = [comm.allreduce_start(np.full(100000, float(i))) for i in range(8)]
        if comm.rank == 0:
            wait_for(gate)
        order = [5, 0, 7, 1, 6, 2, 4, 3]
        values = {i: requests[i].wait()[-1] for i in order}
        gate.touch()
        return values


def test_waits_out_of_order(tmp_path):
    gate = tmp_path / "gate"
    gate.touch()
    assert run(2, wait_out_of_order, gate) == [{i: 2.0 * i for i in range(8)}] * 2


def look_and_wait(gate):
    with open_comm() as comm:
        if comm.rank == 1:
            wait_for(gate)
            return comm.allreduce(1.0), True
        request = comm.allreduce_start(1.0)
        early = (request.test(), repr(request))
        assert early == (False, "<sparkring.Request allreduce, under way>")
        gate.touch()
        while not request.test():
            time.sleep(0.001)
        return request.wait(), request.test()


def test_test(tmp_path):
    assert run(2, look_and_wait, tmp_path / "gate") == [(2.0, True)] * 2


def wait_in_threads():
    with open_comm() as comm:
        results = {}

        def work(i, request):
            results[i] = request.wait()[0]

        threads = []
        for i in range(16):
            request = comm.allreduce_start(np.full(1000, float(i)))
            threads.append(threading.Thread(target=work, args=(i, request)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        return results


def test_threads_that_wait():
    assert run(2, wait_in_threads) == [{i: 2.0 * i for i in range(16)}] * 2


def wait_twice_at_once(gate):
    with open_comm() as comm:
        if comm.rank == 1:
            wait_for(gate)
            return comm.allreduce(1), None
        request = comm.allreduce_start(1)
        texts = []

        def wait():
            try:
                assert request.wait() == 2
            except sparkring.BusyError as error:
                texts.append(str(error))
                assert not request.test()
                gate.touch()

        threads = [threading.Thread(target=wait) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return request.wait(), texts


def test_two_threads_wait_for_one_request(tmp_path):
    (total, texts), _ = run(2, wait_twice_at_once, tmp_path / "gate")
    assert (total, texts) == (2, ["another thread is waiting for this request"])


# ---- Buffers


def lock_and_drop(gate):
    with open_comm() as comm:
        if comm.rank == 1:
            wait_for(gate)
            return comm.allreduce(bytes([1, 2, 3])).tolist()
        memory = bytearray([1, 2, 3])
        request = comm.allreduce_start(memory)
        with pytest.raises(BufferError):
            memory.append(4)
        gate.touch()
        request.wait()
        memory.append(4)
        return request.wait().tolist()


def test_buffers_are_locked_until_it_is_done(tmp_path):
    assert run(2, lock_and_drop, tmp_path / "gate") == [[2, 4, 6]] * 2


def drop_unfinished(gate):
    with open_comm() as comm:
        out = np.zeros(1000)
        if comm.rank == 1:
            wait_for(gate)
        request = comm.allreduce_start(np.ones(1000), out=out)
        gate.touch()
        reference = weakref.ref(request)
        del request  # waits
        assert reference() is None
        return out.tolist() == [2.0] * 1000, comm.allreduce(1)


def test_dropping_it_waits(tmp_path):
    assert run(2, drop_unfinished, tmp_path / "gate") == [(True, 2)] * 2


def test_references_are_balanced(comm):
    x, out = np.arange(6.0), np.empty(6)
    calls = [
        lambda: comm.allreduce_start(x).wait(),
        lambda: comm.allreduce_start(x, out=out),
        lambda: comm.allgatherv_start(x).test(),
        lambda: comm.allreduce_group_start([x, x], out=[out, np.empty(6)]).wait(),
        lambda: comm.allreduce_group([x, x]),
        lambda: pytest.raises(sparkring.InvalidError, comm.allreduce_start, x, "median"),
        lambda: pytest.raises(sparkring.InvalidError, comm.allreduce_group, [x, "text"]),
    ]
    for call in calls:
        call()
        gc.collect()
        before = sys.getrefcount(x), sys.getrefcount(out), sys.getrefcount(comm)
        for _ in range(100):
            call()
        gc.collect()
        after = sys.getrefcount(x), sys.getrefcount(out), sys.getrefcount(comm)
        assert after == before


class Holder(np.ndarray):
    """An array that can refer to its request."""


def test_cycles_are_collected(comm):
    for wait in (False, True):
        x = np.ones(3).view(Holder)
        x.request = comm.allreduce_start(x)
        if wait:
            x.request.wait()
        gone = weakref.ref(x.request)
        comm.barrier()  # after the requests before it
        del x
        gc.collect()
        assert gone() is None


def test_it_keeps_the_communicator():
    request = sparkring.init(rank=0, addresses=["localhost"]).allreduce_start(np.ones(3))
    gc.collect()
    assert request.wait().tolist() == [1.0] * 3
    with pytest.warns(ResourceWarning, match="was collected while open"):
        del request


def close_with_requests():
    comm = open_comm()
    requests = [comm.allreduce_start(np.full(1000, i)) for i in range(20)]
    comm.close()
    return [request.wait()[0] for request in requests]


def test_close_waits_for_requests():
    assert run(2, close_with_requests) == [[2 * i for i in range(20)]] * 2


# ---- The end of a block


def use_blocks():
    with open_comm() as comm:
        out = np.zeros(100000)
        with comm.allreduce_start(np.ones(100000), out=out) as request:
            assert isinstance(request, sparkring.Request)
        assert out[-1] == 2.0
        with pytest.raises(LookupError), comm.allreduce_start(out, out=out) as request:
            raise LookupError
        assert request.test()
        return out[-1]


def test_a_block_waits_at_its_end():
    assert run(2, use_blocks) == [4.0] * 2
