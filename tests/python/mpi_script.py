# SPDX-License-Identifier: Apache-2.0
"""A program of mpi4py: collectives, other communicators, names, and a spawn that is refused."""

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
ones = np.ones(1 << 16)
total = np.empty_like(ones)
world.Allreduce(ones, total)
assert (total == world.size).all()
half = world.Split(world.rank % 2)
assert half.allreduce(1) == len(range(world.rank % 2, world.size, 2))
half.Free()
if world.rank == 0:
    MPI.Publish_name("ocean", "tag#0$a$")
world.barrier()
assert MPI.Lookup_name("ocean") == "tag#0$a$"
try:
    MPI.COMM_SELF.Spawn("true")
    raise AssertionError
except MPI.Exception:
    pass
print(f"rank {world.rank} of {world.size}: {MPI.get_vendor()}")
