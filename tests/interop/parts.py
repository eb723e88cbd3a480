# SPDX-License-Identifier: Apache-2.0
"""The Python ranks of a ring in which the ranks get different things.

parts.R does the same; test_interop.py works out the expected lines of every rank.
"""

import hashlib

import numpy as np
import sparkring


def digest(x):
    return "none" if x is None else hashlib.md5(x.tobytes()).hexdigest()


def rows(rank, count):
    """Give what a rank brings: `count` rows of three, which in R are columns."""
    return ((np.arange(3 * count) * 7 + rank * 3) % 5 - 2).reshape(count, 3)


TYPES = {
    "float64": lambda x: x / 4,
    "int32": lambda x: x.astype("int32"),
    "uint8": lambda x: abs(x).astype("uint8"),
    "logical": lambda x: (x > 0).astype("int32"),
}


def run(comm):
    rank, size = comm.rank, comm.size
    after, before = (rank + 1) % size, (rank - 1) % size
    messages = comm.messages()
    for name, to_type in TYPES.items():

        def of(rank, count, to_type=to_type):
            return to_type(rows(rank, count))

        even = of(rank, 2 * size)
        print(name, "reduce_scatter", digest(comm.reduce_scatter(even, "max")))
        print(name, "alltoall", digest(comm.alltoall(even)))
        print(name, "allgatherv", digest(comm.allgatherv(of(rank, rank))))
        sends = [(rank + to) % 3 for to in range(size)]
        print(name, "alltoallv", digest(comm.alltoallv(of(rank, sum(sends)), sends)))
        for root in range(size):
            print(name, "reduce", root, digest(comm.reduce(even, "max", root)))
            print(name, "gather", root, digest(comm.gather(even, root)))
            print(name, "scatter", root, digest(comm.scatter(even, root)))
            print(name, "gatherv", root, digest(comm.gatherv(of(rank, rank), root)))
            counts = range(size)
            given = of(rank, sum(counts) if rank == root else 0)
            print(name, "scatterv", root, digest(comm.scatterv(given, counts, root)))
        comm.send(even, after)
        print(name, "recv", digest(comm.recv(even, before)))
        print(
            name, "message", digest(messages.sendrecv(even, after, 7, source=before, source_tag=7))
        )
    messages.close()


if __name__ == "__main__":
    with sparkring.init(timeout=60, call_timeout=60) as comm:
        run(comm)
