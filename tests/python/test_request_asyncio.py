# SPDX-License-Identifier: Apache-2.0
"""Requests that asyncio awaits."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import sparkring
from ranks import open_comm, run, wait_for


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
