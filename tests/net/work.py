# SPDX-License-Identifier: Apache-2.0
"""What ranks do in these tests: collectives whose results are known to the bit.

Numbers are drawn from a generator that each rank seeds alike for every rank, so a rank knows what
all others hold. Integers are compared with plain NumPy; of floats, whose sums depend on the order,
digests come back, to be compared with those of a good network.
"""

import hashlib
import itertools
import time

import numpy as np
import sparkring

DTYPES = ["float32", "int64", "float16", "uint8"]


def numbers(rank, count, dtype):
    """Give a rank's numbers."""
    generator = np.random.default_rng([rank, count])
    if dtype.startswith("float"):
        return generator.standard_normal(count).astype(dtype)
    return generator.integers(0, 100, count).astype(dtype)


def digest(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def check(name, got, want):
    if got.dtype.kind in "iu":
        assert np.array_equal(got, want), f"{name}: a wrong result"


def collectives(comm, messages, count, dtype):
    """Make one call of each kind; yield names and results."""
    rank, size = comm.rank, comm.size
    everyone = np.stack([numbers(other, count * size, dtype) for other in range(size)])
    mine = everyone[rank]
    total = everyone.sum(axis=0, dtype=dtype)
    share = slice(rank * count, (rank + 1) * count)
    yield "allreduce", comm.allreduce(mine), total
    yield "broadcast", comm.broadcast(mine, root=size - 1), everyone[size - 1]
    yield "alltoall", comm.alltoall(mine), everyone[:, share].reshape(-1)
    yield "reduce_scatter", comm.reduce_scatter(mine.reshape(size, -1)).reshape(-1), total[share]
    yield "allgather", comm.allgather(mine).reshape(-1), everyone.reshape(-1)
    before, after = (rank - 1) % size, (rank + 1) % size
    yield "message", messages.sendrecv(mine, after, source=before), everyone[before]


def exact(options, counts, dtypes=DTYPES):
    """Make every call on a communicator; return digests of all results, by name."""
    found = {}
    with sparkring.init(**options) as comm, comm.messages() as messages:
        for count, dtype in itertools.product(counts, dtypes):
            for call, got, want in collectives(comm, messages, count, dtype):
                name = f"{call} of {count} {dtype}"
                check(name, got, want)
                found[name] = digest(got)
    return found


def count_up(options, progress, count=256, pause=0.0):
    """Call allreduce for ever; each sum is checked and counted in progress[rank]."""
    with sparkring.init(**options) as comm:
        expected = sum(numbers(rank, count, "int64") for rank in range(comm.size))
        mine = numbers(comm.rank, count, "int64")
        while True:
            got = comm.allreduce(mine)
            assert np.array_equal(got, expected), "a wrong sum"
            progress[comm.rank] += 1
            time.sleep(pause)


def count_until(options, progress, stop, count=256):
    """Call allreduce until rank 0 sees `stop`; return how often, and the seconds it took."""
    with sparkring.init(**options) as comm:
        mine = np.zeros(count + 1, "int64")
        mine[1:] = numbers(comm.rank, count, "int64")
        expected = sum(numbers(rank, count, "int64") for rank in range(comm.size))
        calls, begun = 0, time.monotonic()
        while True:
            mine[0] = stop.value if comm.rank == 0 else 0
            got = comm.allreduce(mine)
            assert np.array_equal(got[1:], expected), "a wrong sum"
            calls += 1
            progress[comm.rank] = calls
            if got[0]:
                return calls, time.monotonic() - begun


def close_together(options, since):
    """Close after a call; rank 0 notes when. Return the seconds it took."""
    comm = sparkring.init(**options)
    comm.barrier()
    began = time.monotonic()
    if comm.rank == 0:
        since.value = began
    comm.close()
    return time.monotonic() - began
