# SPDX-License-Identifier: Apache-2.0
"""MPI inside the ranks' own processes: `Communicator.mpi_init`, over MPICH and Open MPI."""

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

# What scripts/requirements-mpi.txt and scripts/requirements-openmpi.txt have, and Debian.
LIBRARIES = {
    "MPICH 5": ("mpi", "libmpi.so.12"),
    "MPICH 4": ("mpi", "/usr/lib/*/libmpich.so.12"),
    "Open MPI 5": ("openmpi", "libmpi.so.40"),
    "Open MPI 4": ("openmpi", "/usr/lib/*/libmpi.so.40"),
}


@pytest.fixture(autouse=True, params=LIBRARIES)
def library(request, monkeypatch, tmp_path):
    """Let mpi4py find one of the MPI libraries, under the name that it has in wheels."""
    environment, name = LIBRARIES[request.param]
    wheels = Path(sys.prefix, environment, "lib")
    (packages,) = wheels.glob("python3*/site-packages")
    path = wheels / name
    if name.startswith("/"):
        (installed,) = Path("/").glob(name[1:])
        path = tmp_path / {"mpi": "libmpi.so.12", "openmpi": "libmpi.so.40"}[environment]
        path.symlink_to(installed)
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("MPI4PY_LIBMPI", str(path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(packages), *sys.path]))
    return request.param


one_of_each = pytest.mark.parametrize("library", ["MPICH 5", "Open MPI 5"], indirect=True)


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
        found = world.allgather((comm.rank, half.size)), MPI.get_vendor()
        half.Free()
    assert os.environ["PMI_PORT"] == "somewhere:1"
    assert not any(name.startswith(("PMI", "OMPI_")) for name in os.environ if name != "PMI_PORT")
    assert MPI.Is_finalized()
    assert comm.allreduce(1) == comm.size
    with pytest.raises(sparkring.AbortedError, match=r"rank \d .*MPI allows once"):
        comm.mpi_init().__enter__()
    comm.close()
    assert threading.active_count() == 1
    return found


@pytest.mark.parametrize("size", [1, 2, 4])
def test_mpi_beside_the_communicator(size, library):
    halves = [(rank, len(range(rank % 2, size, 2))) for rank in range(size)]
    for found, (vendor, version) in run(size, compute):
        assert (found, f"{vendor} {version[0]}") == (halves, library)


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


@one_of_each
def test_an_exception_ends_all_ranks():
    code = "import test_mpi_init; test_mpi_init.fail()"
    job = launch(3, sys.executable, "-c", code, cwd=Path(__file__).parent)
    output = job.stderr.decode()
    assert job.returncode == 1
    reason = r"rank 1 \(127.0.0.1\): ArithmeticError: no \\0 solution"
    assert re.search(rf"rank ([02]) ends, because its MPI has ended: {reason}", output), output


def be_alone():
    with open_comm() as comm, comm.mpi_init(pmix=False):
        pass


@pytest.mark.parametrize("library", ["Open MPI 5"], indirect=True)
def test_open_mpi_without_pmix():
    for outcome in outcomes(2, be_alone):
        assert "MPI's world has size 1 and not 2" in str(outcome.error)
        assert "PMIx cannot be served: rank 0 (127.0.0.1): PMIx was switched" in str(outcome.error)


def refuse_arguments():
    with open_comm() as comm, pytest.raises(sparkring.InvalidError, match="pmix is 'yes': pass"):
        comm.mpi_init(pmix="yes").__enter__()


def test_bad_arguments():
    run(1, refuse_arguments)


def initialize_early():
    from mpi4py import MPI

    assert MPI.Is_initialized()
    with open_comm() as comm, comm.mpi_init():
        pass


@one_of_each
def test_mpi_that_was_initialized_before():
    for outcome in outcomes(2, initialize_early):
        assert "import mpi4py.MPI inside mpi_init()" in str(outcome.error)
