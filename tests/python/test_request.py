# SPDX-License-Identifier: Apache-2.0
"""Started collectives, alone and in groups: results, order, buffers, failures and asyncio."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
import sys
import threading
import time
import weakref

import numpy as np
import pytest
import sparkring
from cases import DTYPES, cases, numbers, reduced
from ranks import open_comm, outcomes, run, wait_for

SIZES = [1, 2, 3, 4]
SOON = 5  # seconds, a quarter of what the calls would wait


@pytest.fixture
def comm():
    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        yield comm


def same(result, expected):
    """Compare two results: type, shape, dtype and bits."""
    assert type(result) is type(expected)
    if expected is not None:
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        assert result.tobytes() == expected.tobytes()
    return True


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
                ("allreduce", x, "max"),
                ("reduce", x, "sum", root),
                ("reduce_scatter", rows, "min"),
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
                assert same(result, getattr(comm, name)(*arguments)), name
        assert comm.barrier_start().wait() is None
        return True


@pytest.mark.parametrize("size", SIZES)
def test_results_are_those_of_the_blocking_calls(size):
    assert run(size, start_every_collective) == [True] * size


def start_every_case():
    with open_comm() as comm:
        for ranks in zip(*(cases(rank) for rank in range(comm.size))):
            case = ranks[comm.rank]
            expected = reduced("sum", [other.values for other in ranks])
            expected = type(case.values)(expected) if case.is_number else np.asarray(expected)
            assert same(comm.allreduce_start(case.x).wait(), expected), case.name
        return True


def test_every_container_and_dtype():
    assert run(2, start_every_case) == [True] * 2


def start_messages():
    with open_comm() as comm:
        peer = 1 - comm.rank
        sent = [comm.send_start(np.full(3, float(i)), peer) for i in range(2)]
        received = [comm.recv_start(np.empty(3), peer) for _ in range(2)]
        assert [request.wait() for request in sent] == [None] * 2
        return [request.wait().tolist() for request in received]


def test_messages():
    assert run(2, start_messages) == [[[0.0] * 3, [1.0] * 3]] * 2


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
        lambda: comm.send_start(1, 0),
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
        said = []

        def wait():
            try:
                assert request.wait() == 2
            except sparkring.BusyError as error:
                said.append(str(error))
                assert not request.test()
                gate.touch()

        threads = [threading.Thread(target=wait) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return request.wait(), said


def test_two_threads_wait_for_one_request(tmp_path):
    (total, said), _ = run(2, wait_twice_at_once, tmp_path / "gate")
    assert (total, said) == (2, ["another thread is waiting for this request"])


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
        lambda: pytest.raises(sparkring.InvalidError, comm.allreduce_group, [x, 1]),
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


def fail_in_block(gate):
    comm = open_comm()
    if comm.rank == 1:
        wait_for(gate)
        comm.abort("no more")
        return None
    with pytest.raises(LookupError), comm.allreduce_start(1):
        gate.touch()
        raise LookupError
    with pytest.raises(sparkring.AbortedError, match="no more"):
        comm.allreduce_start(1)
    comm.abort()
    return True


def test_a_failed_request_does_not_hide_what_the_block_raised(tmp_path):
    assert run(2, fail_in_block, tmp_path / "gate") == [True, None]


# ---- Failure


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
        wait_for(gate)
        comm.abort("enough")
        return None
    requests = [comm.allreduce_start(np.ones(1000)) for _ in range(3)]
    gate.touch()
    said = []
    for request in reversed(requests):
        with pytest.raises(sparkring.AbortedError) as caught:
            request.wait()
        said.append((caught.value.rank, str(caught.value).endswith("enough")))
    comm.abort()
    return said


def test_abort_with_requests_outstanding(tmp_path):
    assert run(2, abort_with_requests, tmp_path / "gate") == [[(1, True)] * 3, None]


def abort_own_requests(gate):
    comm = open_comm()
    if comm.rank == 1:
        wait_for(gate)
        comm.abort()
        return None
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


# ---- Interrupts


def interrupt_wait(gate):
    comm = open_comm()
    if comm.rank == 1:
        wait_for(gate)
        comm.abort()
        return None
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
        wait_for(gate)
        comm.abort()
        return None
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
            said = str(fails(request))
            del request
            os._exit(0 if said == "this request belongs to the process that forked this one" else 1)
        status = os.waitpid(child, 0)[1]
        gate.touch()
        return request.wait() + status


@pytest.mark.forks
def test_forked_child(tmp_path):
    assert run(2, use_in_child, tmp_path / "gate") == [2, 2]


# ---- asyncio


def gather_requests():
    async def job():
        requests = [comm.allreduce_start(np.full(1000, float(i))) for i in range(20)]
        totals = await asyncio.gather(*requests)
        again = await requests[3]
        slow = comm.allreduce_start(np.zeros(1 << 20))
        tasks = [asyncio.create_task(slow) for _ in range(2)] + [asyncio.create_task(requests[4])]
        first, second, third = await asyncio.gather(*tasks)
        assert first is second is slow.wait() and third is totals[4]
        return [total[0] for total in totals] == [2.0 * i for i in range(20)] and again is totals[3]

    with open_comm() as comm:
        return asyncio.run(job())


def test_await():
    assert run(2, gather_requests) == [True] * 2


def count_while_waiting(gate):
    async def count():
        nonlocal ticks
        while ticks < 20:
            await asyncio.sleep(0.001)
            ticks += 1
        gate.touch()

    async def job():
        async def total():
            return await comm.allreduce_start(1)

        return (await asyncio.gather(total(), count()))[0]

    ticks = 0
    with open_comm() as comm:
        if comm.rank == 1:
            wait_for(gate)
            return comm.allreduce(1), 20
        return asyncio.run(job()), ticks


def test_await_does_not_block_the_loop(tmp_path):
    assert run(2, count_while_waiting, tmp_path / "gate") == [(2, 20)] * 2


def cancel(gate):
    async def job():
        request = comm.allreduce_start(1)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(waited(request), 0.05)
        task = asyncio.create_task(request)
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not request.test()
        gate.touch()
        return await request

    async def waited(request):
        return await request

    with open_comm() as comm:
        if comm.rank == 1:
            wait_for(gate)
            return comm.allreduce(1)
        return asyncio.run(job())


def test_cancelling_leaves_the_request(tmp_path):
    assert run(2, cancel, tmp_path / "gate") == [2, 2]


def fail_awaiting(gate):
    async def job():
        request = comm.allreduce_start(1)
        gate.touch()
        with pytest.raises(sparkring.AbortedError, match="enough"):
            await request
        return True

    comm = open_comm()
    if comm.rank == 1:
        wait_for(gate)
        comm.abort("enough")
        return True
    return asyncio.run(job())


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_await_raises(tmp_path):
    assert run(2, fail_awaiting, tmp_path / "gate") == [True] * 2


# ---- Groups


def reduce_groups():
    with open_comm() as comm:
        for dtype in DTYPES:
            shapes = [(3,), (2, 0), (), (50, 3), (40000,), (2, 3, 4)]
            xs = [np.resize(numbers(comm.rank, dtype), shape) for shape in shapes]
            for op in ("sum", "max"):
                expected = [comm.allreduce(x, op) for x in xs]
                results = comm.allreduce_group(xs, op)
                started = comm.allreduce_group_start(xs, op=op)
                assert isinstance(results, list)
                assert all(map(same, results, expected)), dtype
                assert all(map(same, started.wait(), expected)), dtype
        assert comm.allreduce_group([]) == []
        assert comm.allreduce_group_start(()).wait() == []
        return comm.allreduce_group([1, np.int64(2)]), comm.allreduce_group(iter([1.5]))


@pytest.mark.parametrize("size", SIZES)
def test_group_of_mixed_sizes_and_shapes(size):
    assert run(size, reduce_groups) == [([size, 2 * size], [1.5 * size])] * size


def reduce_groups_into_out():
    with open_comm() as comm:
        xs = [np.full(i, 1.0) for i in (1, 20000, 5)]
        outs = [np.empty(1), np.empty((2, 10000)), np.empty(5)]
        results = comm.allreduce_group(xs, out=outs)
        assert all(map(lambda one, other: one is other, results, outs))
        comm.allreduce_group(xs, "prod", out=xs)
        halves = np.ones(6)
        comm.allreduce_group_start([halves[:3], halves[3:]], out=[halves[:3], halves[3:]]).wait()
        flags = comm.allreduce_group([np.array([True, comm.rank == 0])], "land")
        return [out.max() for out in outs + xs], halves.tolist(), flags[0].tolist()


def test_group_into_out():
    expected = ([2.0] * 3 + [1.0] * 3, [2.0] * 6, [True, False])
    assert run(2, reduce_groups_into_out) == [expected] * 2


def test_group_errors(comm):
    x = np.ones(4)
    for text, *arguments in [
        ("xs is of type int: pass a list of arrays", 3),
        (
            "xs[0] holds float64 and xs[2] int64: the arrays of a group must have the same dtype",
            [x, 1.0, 2],
        ),
        (
            "xs[1] is of type str, which has no buffer of numbers: make an array of it with"
            " numpy.asarray(xs[1])",
            [x, "a"],
        ),
        ('op "sum" is not defined on bool: use "land" or "lor", or count with', [x > 0]),
        ('unknown op "median"', [x], "median"),
    ]:
        with pytest.raises(sparkring.InvalidError, match=f"^{re.escape(text)}"):
            comm.allreduce_group(*arguments)
    for text, xs, out in [
        ("out has 1 arrays and xs 2: pass one for each", [x, x], [x]),
        ("out is of type int: pass a list of arrays", [x], 3),
        ("out[1] has 3 elements and the result 4", [x, x], [np.ones(4), np.ones(3)]),
        ("out[0] overlaps xs[0] without being in place", [x[:3]], [x[1:]]),
        ("xs[1] overlaps out[0]: the arrays of a group must lie apart", [x, x], [x, np.ones(4)]),
    ]:
        with pytest.raises(sparkring.InvalidError, match=f"^{re.escape(text)}"):
            comm.allreduce_group(xs, out=out)
    both = np.ones(4)
    with pytest.raises(sparkring.InvalidError, match="the arrays of a group must lie apart"):
        comm.allreduce_group([x, x], out=[both, both])
    assert comm.allreduce_group([x, x[1:]])[1].tolist() == [1.0] * 3  # inputs may
