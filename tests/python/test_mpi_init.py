# SPDX-License-Identifier: Apache-2.0
"""MPI inside the ranks' own processes: `Communicator.mpi_init`, with mpi4py over MPICH."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import sparkring
from ranks import LIMIT, launch, open_comm, outcomes, run

WHEELS = Path(sys.prefix, "mpi", "lib")  # scripts/requirements-mpi.txt


@pytest.fixture(autouse=True, params=["wheel", "Debian's"])
def library(request, monkeypatch, tmp_path):
    """Let mpi4py find one of the two MPICHs."""
    (packages,) = WHEELS.glob("python3*/site-packages")
    path = WHEELS / "libmpi.so.12"
    if request.param != "wheel":  # mpi4py loads it under the name that it has elsewhere
        (debian,) = Path("/usr/lib").glob("*/libmpich.so.12")
        path = tmp_path / path.name
        path.symlink_to(debian)
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("MPI4PY_LIBMPI", str(path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(packages), *sys.path]))


only_the_wheel = pytest.mark.parametrize("library", ["wheel"], indirect=True)


def compute():
    """Use MPI and the communicator beside each other, and return what remains afterwards."""
    comm = open_comm()
    os.environ["PMI_PORT"] = "somewhere:1"  # of another launcher
    with comm.mpi_init() as world:
        from mpi4py import MPI

        ones = np.ones(1 << 16)
        total = np.empty_like(ones)
        world.Allreduce(ones, total)
        assert (total == comm.allreduce(ones)).all()
        half = world.Split(world.rank % 2)
        found = world.allgather((comm.rank, half.size)), MPI.get_vendor()[0]
        half.Free()
    assert os.environ["PMI_PORT"] == "somewhere:1"
    assert "PMI_FD" not in os.environ
    assert MPI.Is_finalized()
    assert comm.allreduce(1) == comm.size
    with pytest.raises(sparkring.AbortedError, match=r"rank \d .*MPI allows once"):
        comm.mpi_init().__enter__()
    comm.close()
    assert threading.active_count() == 1
    return found


@pytest.mark.parametrize("size", [1, 2, 4])
def test_mpi_beside_the_communicator(size):
    halves = [(rank, len(range(rank % 2, size, 2))) for rank in range(size)]
    assert run(size, compute) == [(halves, "MPICH")] * size


def fail():
    """Fail on rank 1 while the other ranks wait in MPI, and outlive them."""
    comm = open_comm()
    try:
        with comm.mpi_init() as world:
            world.barrier()
            if comm.rank == 1:
                raise ArithmeticError("no \0 solution")
            world.barrier()
    except ArithmeticError:
        time.sleep(LIMIT)


@only_the_wheel
def test_an_exception_ends_all_ranks():
    code = "import test_mpi_init; test_mpi_init.fail()"
    job = launch(3, sys.executable, "-c", code, cwd=Path(__file__).parent)
    told = job.stderr.decode()
    assert job.returncode == 1
    reason = r"rank 1 \(127.0.0.1\): ArithmeticError: no \\0 solution"
    assert re.search(rf"rank ([02]) ends, because its MPI has ended: {reason}", told), told


def initialize_early():
    from mpi4py import MPI

    assert MPI.Is_initialized()
    with open_comm() as comm, comm.mpi_init():
        pass


@only_the_wheel
def test_mpi_that_was_initialized_before():
    for outcome in outcomes(2, initialize_early):
        assert "import mpi4py.MPI inside mpi_init()" in str(outcome.error)
