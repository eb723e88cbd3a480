# SPDX-License-Identifier: Apache-2.0
"""MPI programs and ranks that fail, and what is left behind then: nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import sparkring
from mpi_programs import HERE, remains
from ranks import LIMIT, STRETCH, launch, open_comm, outcomes, run

LEAVES_CHILDREN = "sleep 3600 & echo $!; setsid sleep 3600 & echo $!; echo started; "
SOON = 5 * STRETCH  # seconds; a failure ends all ranks within one second


# ---- Programs that fail


def run_and_fail(argv, **options):
    """Run a program that fails, and check that nothing remains but a usable communicator."""
    printed = [time.monotonic()]
    comm = open_comm()
    comm.mpi_run(["true"])
    comm.barrier()
    before = remains()
    with pytest.raises(sparkring.RingError) as caught:
        comm.mpi_run(argv, output=lambda line: printed.append(time.monotonic()), **options)
    lasted = time.monotonic() - printed[-1]
    error = caught.value
    caught = None  # which refers to the call's frames
    text, kind, rank = str(error), type(error).__name__, error.rank
    del error
    assert remains(before) == before
    assert comm.allreduce(1) == comm.size
    comm.close()
    return text, kind, rank, lasted


def check_failure(argv, size, rank, text, kind="AbortedError"):
    """Run a program of which one fails after the last line of all."""
    for text, name, fault, lasted in run(size, run_and_fail, argv):
        print(f"rank {rank} failed, which took {lasted:.3f} s: {text.splitlines()[0]}")
        assert lasted < SOON
        assert (name, fault) == (kind, rank)
        assert text.startswith(f"rank {rank} (127.0.0.1): the program ")
        assert text in text


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
    first = f"rank {size - 1} begins to {what}"
    if "openmpi" in program and what == "abort":  # which has many lines of its own
        first = ""
    check_failure([program, what], size, size - 1, f"{how}; its last lines:\n{first}")


def test_a_program_without_mpi_fails():
    script = "echo some; echo words >&2; test $PMI_RANK != 1 || exit 3; sleep 3600"
    check_failure(["sh", "-c", script], 3, 1, "failed with exit code 3; its last lines:")


def test_no_such_program():
    for text, kind, _, _ in run(2, run_and_fail, ["/no/such/program"]):
        assert kind == "AbortedError"
        assert "the program '/no/such/program' cannot be started: No such file" in text


def test_a_program_without_mpi_leaves_one_that_waits(program):
    script = f"test $PMI_RANK = 1 || exec {program}"
    for text, kind, rank, _ in run(2, run_and_fail, ["sh", "-c", script]):
        assert (kind, rank) == ("MismatchError", 1)
        assert "the program of rank 0 waits for it in MPI_Init or MPI_Finalize" in text


def test_programs_of_two_libraries(programs):
    script = f"test $PMI_RANK = 1 && exec {programs['openmpi']}; exec {programs['mpich']}"
    for text, kind, rank, _ in run(2, run_and_fail, ["sh", "-c", script]):
        assert (kind, rank) == ("MismatchError", 1)
        assert "its program uses PMIx, as Open MPI does, and the program of rank 0 uses" in text


def test_no_such_directory():
    for text, kind, rank in run(2, fail_in_no_directory):
        assert kind == "AbortedError"
        assert text.startswith(f"rank {rank} (127.0.0.1): the program 'true' cannot be started: ")
        assert "No such file or directory: '/no/such/directory'" in text


def fail_in_no_directory():
    return run_and_fail(["true"], cwd="/no/such/directory")[:3]


def test_any_bytes_in_the_reason():
    script = "printf 'a\\000b\\377c\\n'; exit 3"
    for text, _, _, _ in run(2, run_and_fail, ["sh", "-c", script]):
        assert text.endswith("failed with exit code 3; its last lines:\na\\0b\ufffdc")


def test_a_program_that_aborts_leaves_a_chatty_child(program):
    script = f"test $PMI_RANK = 0 || yes & exec {program} abort"
    check_failure(["sh", "-c", script], 2, 1, "called MPI_Abort with exit code 7; its last lines:")


def kill_guardian():
    """Rank 1 loses its guardian, and the program ends with it."""
    pids = []

    def kill(line):
        pids.append(int(line))
        if len(pids) == 3 and comm.rank == 1:
            os.kill(pids[0], signal.SIGKILL)

    comm = open_comm()
    with pytest.raises(sparkring.AbortedError) as caught:
        comm.mpi_run(["sh", "-c", "echo $PPID; sleep 3600 & echo $!; echo $$; wait"], output=kill)
    comm.close()
    assert caught.value.rank == 1
    assert "the program 'sh' was ended, because its guardian was killed by SIG" in str(caught.value)
    assert len(pids) == 3 or comm.rank == 0
    assert all(gone(process) for process in pids)


def test_a_killed_guardian():
    run(2, kill_guardian)


# ---- What is left behind


def children_of(lines):
    """Read the pids of what LEAVES_CHILDREN has started."""
    children = [int(line) for line in lines if line.isdigit()]
    assert len(children) == 2
    return children


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
    assert all(gone(process) for process in children_of(lines))


def be_killed(argv, folder):
    """Run programs; rank 1 is killed while they run. Rank 0 fails with it."""
    comm = open_comm()

    def note(line):
        (folder / f"{comm.rank}.part").write_text(line)
        (folder / f"{comm.rank}.part").rename(folder / str(comm.rank))

    if comm.rank == 1:
        wait = threading.Thread(target=kill_when, args=(folder,), daemon=True)
        wait.start()
    with pytest.raises(sparkring.PeerLostError) as caught:
        comm.mpi_run(argv, output=note)
    assert caught.value.rank == 1
    comm.abort()


def abort_beside_programs():
    """Rank 0 aborts its communicator from another thread while the programs run."""
    comm = open_comm()
    begun = []
    started = threading.Event()

    def strike():
        started.wait()
        begun.append(time.monotonic())
        comm.abort("planned")

    if comm.rank == 0:
        threading.Thread(target=strike, daemon=True).start()
    with pytest.raises(sparkring.AbortedError, match="aborted the communicator: planned") as caught:
        comm.mpi_run(["sh", "-c", "echo; exec sleep 3600"], output=lambda line: started.set())
    assert caught.value.rank == 0
    comm.abort()
    return time.monotonic() - begun[0] if begun else 0


def test_abort_ends_programs():
    assert max(run(2, abort_beside_programs)) < SOON


def kill_when(folder):
    while not all((folder / str(rank)).exists() for rank in range(2)):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_rank_ends_all(tmp_path):
    argv = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(99)"]
    code = (
        "import sys, pathlib; sys.path.insert(0, sys.argv[1]); import standin;"
        "import pytest, test_mpi_failure as t; t.be_killed(sys.argv[3:], pathlib.Path(sys.argv[2]))"
    )
    launch(2, sys.executable, "-c", code, str(HERE), str(tmp_path), *argv)
    pids = [int((tmp_path / str(rank)).read_text()) for rank in range(2)]
    assert all(gone(process) for process in pids)


def be_killed_alone(forks):
    """Print the pids of the program's processes; no launcher ends what a killed rank leaves."""
    comm = sparkring.init(rank=0, size=1, addresses=["127.0.0.1"])

    def die(line):
        print(line, flush=True)
        if line == "started":
            if forks and os.fork() == 0:  # a child that keeps every descriptor of Python
                time.sleep(3600)
            os.kill(os.getpid(), signal.SIGKILL)

    comm.mpi_run(["sh", "-c", f"{LEAVES_CHILDREN} sleep 3600"], output=die)


@pytest.mark.parametrize("forks", [False, True])
def test_a_killed_rank_leaves_nothing(forks, tmp_path):
    code = f"import test_mpi_failure; test_mpi_failure.be_killed_alone({forks})"
    rank = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        cwd=HERE,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        lines = [rank.stdout.readline().decode().strip() for _ in range(3)]
        assert rank.wait() == -signal.SIGKILL
        assert all(gone(process) for process in children_of(lines))
        for _ in range(1000 * SOON):
            if not list(tmp_path.iterdir()):
                break
            time.sleep(0.001)
        assert not list(tmp_path.iterdir())  # of a PMIx server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(rank.pid, signal.SIGKILL)  # the child


def interrupt(folder):
    """Rank 0 is interrupted while its program runs, and that of rank 1 has printed its line."""
    comm = open_comm()
    comm.mpi_run(["true"])
    before = remains()
    begun = []
    other = f"until test -e {folder}/printed; do sleep 0.01; done"
    script = f"test $PMI_RANK = 1 || {other}; echo $$; test $PMI_RANK = 1 || sleep 3600"

    def begin(line):
        begun.append(line)
        if comm.rank == 0:
            os.kill(os.getpid(), signal.SIGINT)
        else:
            (folder / "printed").touch()

    expected = KeyboardInterrupt if comm.rank == 0 else sparkring.AbortedError
    with pytest.raises(expected):
        comm.mpi_run(["sh", "-c", script], output=begin)
    assert remains(before) == before
    assert begun or comm.rank == 1  # whose program may have been ended before its line
    assert all(gone(int(line)) for line in begun)
    comm.close()


def test_an_interrupt_ends_all(tmp_path):
    run(2, interrupt, tmp_path)


def test_an_error_of_the_output_ends_all():
    first, second = outcomes(2, raise_in_output)
    assert isinstance(first.error, LookupError)
    assert isinstance(second.error, sparkring.AbortedError)
    assert "rank 0 (127.0.0.1): LookupError: no\\0\\udcff" in str(second.error)


def raise_in_output():
    def fail(line):
        raise LookupError("no\0\udcff")

    with open_comm() as comm:
        argv = ["sh", "-c", "test $PMI_RANK = 0 && echo line; sleep 3600"]
        comm.mpi_run(argv, output=fail)
