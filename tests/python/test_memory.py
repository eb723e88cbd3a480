# SPDX-License-Identifier: Apache-2.0
"""Python's memory runs out in the module's C: for every k, the k-th allocation of a call fails.

Each method is tried in a world of one rank. It must raise MemoryError or do without; what it had
taken by then (references, views of buffers, memory) it gives back, and the communicator goes on.
The allocations of the core fail in tests/core/api/test_allocator.c.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sparkring

testcapi = pytest.importorskip("_testcapi", reason="this Python has no allocator that can fail")

HERE = Path(__file__).parent
ENOUGH = 12  # calls in a row in which nothing failed: there are no further allocations
MOST = 2000
SWEEPS = 200
X = np.arange(6.0).reshape(3, 2)
BYTES = bytearray(48)


class Library:
    """An array of a library that is not NumPy, with NumPy's memory."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **_):
        return self.values.__dlpack__()

    def __dlpack_device__(self):
        return 1, 0


TENSOR, STRIDED = Library(X), Library(X.T)


def split_close(comm):
    with comm.split(0) as child:
        return child.size


def call_started(comm):
    return comm.allreduce_start(X).wait()


def drop_started(comm):
    comm.allreduce_start(X)


def raise_invalid(comm):
    """Call C directly: CPython 3.11 loses an exception for which it cannot make a frame object."""
    try:
        comm._allreduce(None, X, "sum", np.empty(2), None, 1.0, 1.0)
    except (ValueError, TypeError) as error:
        str(error)


CALLS = {
    "allreduce": lambda comm: comm.allreduce(X),
    "allreduce of a view": lambda comm: comm.allreduce(X.T),
    "allreduce of a number": lambda comm: comm.allreduce(3.0),
    "allreduce of bytes": lambda comm: comm.allreduce(BYTES, dtype="uint8"),
    "allreduce, out": lambda comm: comm.allreduce(X, out=np.empty_like(X)),
    "allreduce of a tensor": lambda comm: comm.allreduce(TENSOR),
    "allreduce of a view of a tensor": lambda comm: comm.allreduce(STRIDED),
    "allreduce, out of a library": lambda comm: comm.allreduce(X, out=Library(np.empty_like(X))),
    "allgatherv of a tensor": lambda comm: comm.allgatherv(TENSOR),
    "empty": lambda comm: comm.empty((3, 2)),
    "allreduce, a start": call_started,
    "allreduce, dropped": drop_started,
    "allreduce, invalid": raise_invalid,
    "group": lambda comm: comm.allreduce_group([X, X + 1]),
    "group, out": lambda comm: comm.allreduce_group([X, X + 1], out=[X.copy(), X.copy()]),
    "reduce": lambda comm: comm.reduce(X),
    "reduce_scatter": lambda comm: comm.reduce_scatter(X),
    "reduce_scatterv": lambda comm: comm.reduce_scatterv(X, [3]),
    "exscan": lambda comm: comm.exscan(X),
    "broadcast": lambda comm: comm.broadcast(X),
    "allgather": lambda comm: comm.allgather(X),
    "allgatherv": lambda comm: comm.allgatherv(X),
    "gatherv": lambda comm: comm.gatherv(X),
    "scatterv": lambda comm: comm.scatterv(X, counts=[3]),
    "alltoallv": lambda comm: comm.alltoallv(X, counts=[3]),
    "alltoall": lambda comm: comm.alltoall(X[:1]),
    "split": split_close,
    "explain": lambda comm: comm.explain("allreduce", 100, "float32"),
    "repr": repr,
}


def one_call(comm, call, number):
    """Make a call of which one allocation fails; return whether that showed."""
    testcapi.set_nomemory(number, number + 1)
    try:
        call(comm)
    except MemoryError:
        return True
    finally:
        testcapi.remove_mem_hooks()
    return False


def starve(comm, call):
    """Let every allocation of a call fail in turn; return how many calls were made, and failed."""
    number = failures = quiet = 0
    while quiet < ENOUGH and number < MOST:
        failed = one_call(comm, call, number)
        failures += failed
        quiet = 0 if failed else quiet + 1
        number += 1
    assert number < MOST, "no end of allocations"
    return number, failures


def settle(comm, call):
    """Count what is allocated after a call that went well, less what Python keeps to use again."""
    for _ in range(3):
        call(comm)
    gc.collect()
    return sys.getallocatedblocks()


def run(comm, name):
    call = CALLS[name]
    starve(comm, call)  # what is made once and kept is made now
    counts = [settle(comm, call)]
    for _ in range(SWEEPS):  # caches of Python and NumPy fill; a leak is one each time
        number, failures = starve(comm, call)
        counts.append(settle(comm, call))
        if counts[-1] - counts[-2] <= 1:  # which is the last of the counts
            break
    assert failures > 0, f"{name}: {number} calls, and none failed"
    grown = counts[-1] - counts[-2]
    assert grown <= 1, f"{name}: {counts} blocks, each time after {failures} failures"
    BYTES.append(0)  # raises as long as somebody has a view of it
    del BYTES[48:]
    assert comm.allreduce(1) == 1


def test_every_allocation_fails():
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
    command = [sys.executable, str(HERE / "test_memory.py")]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stdout}{done.stderr[-3000:]}"


if __name__ == "__main__":
    with sparkring.init(rank=0, size=1, addresses=["127.0.0.1"]) as comm:
        for name in CALLS:
            run(comm, name)
