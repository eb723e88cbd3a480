# SPDX-License-Identifier: Apache-2.0
"""Results that go into arrays of the caller: out, apart and in place."""

from __future__ import annotations

import numpy as np
import pytest
import sparkring
from cases import DTYPES, numbers, parted, reduced
from ranks import open_comm, run


def write_into_out():
    with open_comm() as comm:
        for dtype in DTYPES:
            every = [numbers(rank, dtype) for rank in range(comm.size)]
            x, out = every[comm.rank].copy(), np.empty((3, 10), dtype)
            assert comm.allreduce(x, out=out) is out
            assert out.tobytes() == reduced("sum", every).tobytes()
            assert comm.broadcast(x, 1, out=out) is out
            assert out.tobytes() == every[1].tobytes()
            assert x.tobytes() == every[comm.rank].tobytes()
            gathered = bytearray(comm.size * x.nbytes)
            view = memoryview(np.frombuffer(gathered, dtype))
            assert comm.allgather(x, out=view) is view
            assert bytes(gathered) == np.stack(every).tobytes()
    return True


def write_in_place():
    with open_comm() as comm:
        for dtype in DTYPES:
            every = [numbers(rank, dtype) for rank in range(comm.size)]
            x = every[comm.rank].copy()
            assert comm.allreduce(x, out=x) is x
            assert x.tobytes() == reduced("sum", every).tobytes()
            x = every[comm.rank].copy()
            assert comm.broadcast(x, 1, out=x) is x
            assert x.tobytes() == every[1].tobytes()
            every_row = np.zeros((comm.size, *x.shape), dtype)
            every_row[comm.rank] = every[comm.rank]
            comm.allgather(every_row[comm.rank], out=every_row)
            assert every_row.tobytes() == np.stack(every).tobytes()
    return True


def write_parts_into_out():
    with open_comm() as comm:
        ranks, me = range(comm.size), comm.rank
        for dtype in DTYPES:
            every = [parted(rank, comm.size, (4,), dtype) for rank in ranks]
            total, out = reduced("sum", every), np.empty(4, dtype)
            assert comm.reduce_scatter(every[me], "sum", out=out) is out
            assert out.tobytes() == np.split(total, comm.size)[me].tobytes()
            assert comm.scatter(every[me], 1, out=out) is out
            assert out.tobytes() == np.split(every[1], comm.size)[me].tobytes()
            out = np.empty((comm.size, 4), dtype)
            assert comm.alltoall(every[me], out=out) is out
            assert out.tobytes() == np.stack([x[4 * me : 4 * me + 4] for x in every]).tobytes()
            out = np.empty((comm.size, 4 * comm.size), dtype) if me == 1 else None
            assert comm.gather(every[me], 1, out=out) is out
            assert out is None or out.tobytes() == np.stack(every).tobytes()
            out = np.empty_like(total)
            assert comm.reduce(every[me], "sum", 1, out=out) is (out if me == 1 else None)
            assert me != 1 or out.tobytes() == total.tobytes()
    return True


def write_parts_in_place():
    with open_comm() as comm:
        ranks, me = range(comm.size), comm.rank
        own = slice(4 * me, 4 * me + 4)
        for dtype in DTYPES:
            every = [parted(rank, comm.size, (4,), dtype) for rank in ranks]
            x = every[me].copy()
            comm.reduce_scatter(x, "sum", out=x[own])
            assert x[own].tobytes() == reduced("sum", every)[own].tobytes()
            x = every[me].copy()
            comm.scatter(x, 1, out=x[own])
            assert x[own].tobytes() == every[1][own].tobytes()
            x = every[me].copy()
            assert comm.reduce(x, "sum", 1, out=x) is (x if me == 1 else None)
            assert x.tobytes() == (reduced("sum", every) if me == 1 else every[me]).tobytes()
            gathered = np.zeros((comm.size, *x.shape), dtype)
            gathered[me] = every[me]
            comm.gather(gathered[me], 1, out=gathered)
            assert me != 1 or gathered.tobytes() == np.stack(every).tobytes()
        if me == 1:
            for call in (comm.reduce_scatter, comm.alltoall):
                with pytest.raises(sparkring.InvalidError, match="out overlaps x"):
                    call(x, out=x[: len(x) // comm.size] if call == comm.reduce_scatter else x)
        comm.barrier()
    return True


@pytest.mark.parametrize(
    "function", [write_into_out, write_in_place, write_parts_into_out, write_parts_in_place]
)
def test_out(function):
    assert run(3, function) == [True] * 3
