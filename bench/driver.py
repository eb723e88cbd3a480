# SPDX-License-Identifier: Apache-2.0
"""Measures the collectives of one library from Python, in the way driver.c describes.

driver.py LIBRARY FOLDER LINK SECONDS COLLECTIVE,... BYTES,...

Each library has a class with the same few methods. A collective takes an input and an output, and
returns the array that holds the result: torch.distributed reduces in place, and at the root of a
broadcast it is the input everywhere. sparkring allocates a long result without a given
output in the memory that the ranks share.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

BATCH, MOST_CALLS, LEAST_SAMPLES, MOST_SAMPLES, WRONG_LINK = 1 << 17, 256, 3, 1000, 3
SHORT = 4096


class Sparkring:
    """Ours."""

    def __init__(self, _folder):
        import sparkring

        self._comm = comm = sparkring.init()
        self.rank, self.size = comm.rank, comm.size
        self.barrier, self.close = comm.barrier, comm.close
        self.array = np.asarray
        shares = self.link() == "shm"
        self.output = lambda array: None if shares and array.nbytes > SHORT else array

    def link(self):
        """Name the way to the other ranks."""
        return self._comm.explain("barrier", 0).tier.replace("loopback", "tcp")

    def allreduce(self, given, out):
        """Sum."""
        return self._comm.allreduce(given, out=out)

    def broadcast(self, given, out):
        """Send from rank 0."""
        return self._comm.broadcast(given, out=given if self.rank == 0 else out)

    def allgather(self, given, out):
        """Gather everywhere."""
        return self._comm.allgather(given, out=out)

    def alltoall(self, given, out):
        """Exchange blocks."""
        return self._comm.alltoall(given, out=out)


class Mpi4py:
    """Open MPI from Python, with its fast (upper case) methods."""

    def __init__(self, _folder):
        from mpi4py import MPI

        self._comm = comm = MPI.COMM_WORLD
        self.rank, self.size, self.barrier = comm.rank, comm.size, comm.Barrier
        self.array = self.output = np.asarray

    def close(self):
        """Do nothing: mpi4py finalizes at exit."""

    def allreduce(self, given, out):
        """Sum."""
        self._comm.Allreduce(given, out)
        return out

    def broadcast(self, given, out):
        """Send from rank 0."""
        buffer = given if self.rank == 0 else out
        self._comm.Bcast(buffer)
        return buffer

    def allgather(self, given, out):
        """Gather everywhere."""
        self._comm.Allgather(given, out)
        return out

    def alltoall(self, given, out):
        """Exchange blocks."""
        self._comm.Alltoall(given, out)
        return out


class TorchGloo:
    """torch.distributed on tensors that share the arrays' memory."""

    def __init__(self, folder):
        import torch
        import torch.distributed as dist

        self._dist = dist
        self.rank, self.size = (int(os.environ["SPARKRING_" + x]) for x in ("RANK", "SIZE"))
        store = f"file://{folder}/store"
        dist.init_process_group("gloo", store, rank=self.rank, world_size=self.size)
        self.array = self.output = torch.from_numpy
        self.barrier, self.close = dist.barrier, dist.destroy_process_group

    def allreduce(self, given, _out):
        """Sum, in place."""
        self._dist.all_reduce(given)
        return given

    def broadcast(self, given, out):
        """Send from rank 0."""
        buffer = given if self.rank == 0 else out
        self._dist.broadcast(buffer, 0)
        return buffer

    def allgather(self, given, out):
        """Gather everywhere."""
        self._dist.all_gather_into_tensor(out, given)
        return out

    def alltoall(self, given, out):
        """Exchange blocks."""
        self._dist.all_to_all_single(out, given)
        return out


LIBRARIES = {"sparkring-python": Sparkring, "mpi4py": Mpi4py, "torch-gloo": TorchGloo}


class Test:
    """One collective at one size."""

    def __init__(self, library, name, size):
        self._library, self._name = library, name
        self._call = getattr(library, name)
        ranks, elements = library.size, size // 4
        splits = name in ("allgather", "alltoall")
        self._count = -(-elements // ranks) if splits else elements
        outputs = self._count * ranks if splits else elements
        inputs = self._count if name == "allgather" else outputs
        self.bytes = 4 * outputs
        calls = min(max(BATCH // size, 1), MOST_CALLS)
        self._given = np.zeros((calls, inputs), "float32")
        self._inputs = [library.array(row) for row in self._given]
        self._out = library.output(np.zeros(outputs, "float32"))

    def sample(self):
        """Return the seconds of one call."""
        self._given[:] = self._library.rank + 1
        call, out = self._call, self._out
        self._library.barrier()
        start = time.perf_counter()
        for given in self._inputs:
            result = call(given, out)
        seconds = time.perf_counter() - start
        self._result = result
        return seconds / len(self._inputs)

    def check(self):
        """Stop when the result of the last sample is wrong."""
        ranks = self._library.size
        if self._name == "allreduce":
            expected = ranks * (ranks + 1) / 2
        elif self._name == "broadcast":
            expected = 1
        else:
            expected = np.repeat(np.arange(1, ranks + 1), self._count)
        if not np.all(np.asarray(self._result).ravel() == expected):
            sys.exit(f"bench driver: wrong result: {self._name}")

    def samples(self, seconds):
        """Warm up, and agree on how many samples there will be."""
        self.sample()
        self.check()
        start = time.perf_counter()
        self.sample()
        fitting = seconds / (time.perf_counter() - start)
        number = np.full(1, min(max(int(fitting), LEAST_SAMPLES), MOST_SAMPLES), "float32")
        array = self._library.array
        return int(self._library.broadcast(array(number), array(np.zeros(1, "float32")))[0])


def main(name, folder, link, seconds, collectives, sizes):
    """Measure everything that the library has."""
    library = LIBRARIES[name](folder)
    if hasattr(library, "link") and library.link() != link:
        sys.exit(WRONG_LINK)
    with (Path(folder) / str(library.rank)).open("w") as report:
        for collective in collectives.split(","):
            for size in map(int, sizes.split(",")) if hasattr(library, collective) else ():
                test = Test(library, collective, size)
                times = [test.sample() for _ in range(test.samples(float(seconds)))]
                listed = " ".join(f"{1e6 * time:.3f}" for time in times)
                print(collective, "-", test.bytes, "float32", listed, file=report)
    library.close()


main(*sys.argv[1:])
