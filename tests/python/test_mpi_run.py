# SPDX-License-Identifier: Apache-2.0
"""MPI programs in place of the ranks' own code, with Debian's MPICH and that of the mpich wheel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import sparkring
from ranks import LIMIT, launch, open_comm, outcomes, run

HERE = Path(__file__).parent
PYTHON = str(Path(sys.prefix, "mpi", "bin", "python"))  # scripts/requirements-mpi.txt
SCRIPT = str(HERE / "mpi_script.py")
LEAVES_CHILDREN = "sleep 3600 & setsid sleep 3600 & echo $! >&2; echo started; "


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """Compile the program with Debian's MPICH; Open MPI's compiler may be the default one."""
    path = tmp_path_factory.mktemp("mpi") / "mpi_program"
    subprocess.run(["mpicc.mpich", HERE / "mpi_program.c", "-o", path], check=True)
    return str(path)


def remains():
    """Count the threads, descriptors and children of this process."""
    me = Path("/proc/self")
    children = [path for path in me.glob("task/*/children") if path.read_text()]
    return len(list(me.glob("task/*"))), len(list(me.glob("fd/*"))), children


def run_program(argv, **options):
    """Run a program; return its lines, and check that nothing remains."""
    lines = []
    with open_comm() as comm:
        comm.barrier()
        comm.mpi_run(["true"])  # from now on nothing new is kept
        before = remains()
        comm.mpi_run(argv, output=lines.append, **options)
        assert remains() == before
        assert comm.allreduce(1) == comm.size  # it works on
    return sorted(lines)


# ---- Programs that end well


@pytest.mark.parametrize("size", [1, 2, 4])
def test_mpich_of_debian(program, size):
    total = size * (size + 1) // 2
    for rank, lines in enumerate(run(size, run_program, [program])):
        greeting = f"rank {rank} of {size}: sum {total}, {size} on this host"
        assert lines == (["a warning", greeting] if rank == 0 else [greeting])


@pytest.mark.parametrize("size", [2, 4])
def test_mpi4py_over_the_mpich_wheel(size):
    vendor = ("MPICH", (5, 0, 2))
    expected = [[f"rank {rank} of {size}: {vendor}"] for rank in range(size)]
    assert run(size, run_program, [PYTHON, SCRIPT]) == expected


def test_names(program):
    assert run(3, run_program, [program, "names"]) == [
        [f"rank {r} found tag#0$a$"] for r in range(3)
    ]


def test_environment_and_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("PMI_PORT", "somewhere:1")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "5")
    show = 'echo "$MINE $PMI_RANK $PMI_SIZE $MPI_LOCALRANKID $MPI_LOCALNRANKS"; pwd'
    absent = 'echo "${PMI_PORT-none} ${OMPI_COMM_WORLD_RANK-none}"'
    argv = ["sh", "-c", f"{show}; {absent}"]
    for rank, lines in enumerate(run(2, run_with_variables, argv, str(tmp_path))):
        assert lines == sorted([f"yes {rank} 2 {rank} 2", str(tmp_path), "none none"])


def run_with_variables(argv, directory):
    return run_program(argv, env={"MINE": "yes"}, cwd=directory)


def test_lines_have_the_rank_once(program):
    code = "import sparkring, sys; sparkring.init().mpi_run(sys.argv[1:])"
    job = launch(2, sys.executable, "-c", code, program)
    said = job.stdout.decode().splitlines()
    assert sorted(said) == [f"[{r}] rank {r} of 2: sum 3, 2 on this host" for r in range(2)]
    alone = subprocess.run([sys.executable, "-c", code, program], capture_output=True, check=True)
    assert alone.stdout == b"[0] rank 0 of 1: sum 1, 1 on this host\n"
    assert alone.stderr == b"[0] a warning\n"


# ---- Programs that fail


def run_and_fail(argv):
    """Run a program that fails, and check that nothing remains but a usable communicator."""
    comm = open_comm()
    comm.mpi_run(["true"])
    comm.barrier()
    before = remains()
    with pytest.raises(sparkring.RingError) as told:
        comm.mpi_run(argv)
    error = told.value
    told = None  # which refers to the call's frames
    text, kind, rank = str(error), type(error).__name__, error.rank
    del error
    assert remains() == before
    assert comm.allreduce(1) == comm.size
    comm.close()
    return text, kind, rank


def check_failure(argv, size, rank, text, kind="AbortedError"):
    for said, name, fault in run(size, run_and_fail, argv):
        assert (name, fault) == (kind, rank)
        assert said.startswith(f"rank {rank} (127.0.0.1): the program ")
        assert text in said


@pytest.mark.parametrize(
    ("what", "how"),
    [
        ("abort", "called MPI_Abort with exit code 7"),
        ("kill", "was killed by SIGKILL"),
        ("leave", "ended without MPI_Finalize"),
    ],
)
@pytest.mark.parametrize("size", [2, 4])
def test_one_program_ends_all(program, what, how, size):
    check_failure(
        [program, what], size, size - 1, f"{how}; its last lines:\nrank {size - 1} begins to {what}"
    )


def test_a_program_without_mpi_fails():
    script = "echo some; echo words >&2; test $PMI_RANK != 1 || exit 3; sleep 3600"
    check_failure(["sh", "-c", script], 3, 1, "failed with exit code 3; its last lines:")


def test_no_such_program():
    for text, kind, _ in run(2, run_and_fail, ["/no/such/program"]):
        assert kind == "AbortedError"
        assert "the program '/no/such/program' cannot be started: No such file" in text


def test_a_program_without_mpi_leaves_one_that_waits(program):
    script = f"test $PMI_RANK = 1 || exec {program}"
    for text, kind, rank in run(2, run_and_fail, ["sh", "-c", script]):
        assert (kind, rank) == ("MismatchError", 1)
        assert "its program ended, and that of rank 0 waits for it in a barrier of PMI" in text


# ---- What is left behind


def children_of(text):
    return [int(line) for line in text.split() if line.isdigit()]


def gone(process):
    """Whether a process ends soon; a zombie counts as gone."""
    for _ in range(1000 * LIMIT):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.001)
    return False


@pytest.mark.parametrize("end", ["exit 0", "exit 3", "kill -9 $$"])
def test_descendants_end(end):
    lines = []
    comm = sparkring.init(rank=0, size=1, addresses=["127.0.0.1"])
    try:
        comm.mpi_run(["sh", "-c", LEAVES_CHILDREN + end], output=lines.append)
    except sparkring.AbortedError:
        assert end != "exit 0"
    comm.close()
    assert "started" in lines
    assert all(gone(process) for process in children_of("\n".join(lines)))


def be_killed(argv, folder):
    """Run programs; rank 1 is killed while they run. Rank 0 learns of it."""
    comm = open_comm()

    def note(line):
        (folder / f"{comm.rank}.part").write_text(line)
        (folder / f"{comm.rank}.part").rename(folder / str(comm.rank))

    if comm.rank == 1:
        wait = threading.Thread(target=kill_when, args=(folder,), daemon=True)
        wait.start()
    with pytest.raises(sparkring.PeerLostError) as told:
        comm.mpi_run(argv, output=note)
    assert told.value.rank == 1
    comm.abort()


def kill_when(folder):
    while not all((folder / str(rank)).exists() for rank in range(2)):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_rank_leaves_no_program(tmp_path):
    argv = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(99)"]
    code = (
        "import sys, pathlib; sys.path.insert(0, sys.argv[1]); import standin;"
        "import pytest, test_mpi_run as t; t.be_killed(sys.argv[3:], pathlib.Path(sys.argv[2]))"
    )
    launch(2, sys.executable, "-c", code, str(HERE), str(tmp_path), *argv)
    pids = [int((tmp_path / str(rank)).read_text()) for rank in range(2)]
    assert all(gone(process) for process in pids)


def interrupt():
    """Rank 0 is interrupted while its program runs, rank 1 waits in close."""
    comm = open_comm()
    comm.mpi_run(["true"])
    before = remains()
    begun = []
    argv = ["sh", "-c", "echo $$; test $PMI_RANK = 1 || sleep 3600"]

    def begin(line):
        begun.append(line)
        if comm.rank == 0:
            os.kill(os.getpid(), signal.SIGINT)

    expected = KeyboardInterrupt if comm.rank == 0 else sparkring.AbortedError
    with pytest.raises(expected):
        comm.mpi_run(argv, output=begin)
    assert remains() == before
    assert gone(int(begun[0]))
    comm.close()


def test_an_interrupt_ends_all():
    run(2, interrupt)


def test_an_error_of_the_output_ends_all():
    first, second = outcomes(2, raise_in_output)
    assert isinstance(first.error, LookupError)
    assert isinstance(second.error, sparkring.AbortedError)
    assert "rank 0 (127.0.0.1): LookupError: no" in str(second.error)


def raise_in_output():
    def fail(line):
        raise LookupError("no")

    with open_comm() as comm:
        argv = ["sh", "-c", "test $PMI_RANK = 0 && echo line; sleep 3600"]
        comm.mpi_run(argv, output=fail)


# ---- Arguments


def refuse():
    with open_comm(encryption=True) as comm:
        with pytest.raises(sparkring.UnsupportedError, match="pass allow_plain=True"):
            comm.mpi_run(["true"])
        comm.mpi_run(["true"], allow_plain=True)
        for argv in ("true", [], None, [3], ["a\0b"]):
            with pytest.raises(sparkring.InvalidError, match="argv"):
                comm.mpi_run(argv, allow_plain=True)
        with pytest.raises(sparkring.InvalidError, match="env"):
            comm.mpi_run(["true"], env={"A": 1}, allow_plain=True)


def test_encrypted_communicators_refuse():
    run(2, refuse)
