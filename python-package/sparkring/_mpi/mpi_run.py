# SPDX-License-Identifier: Apache-2.0
"""`Communicator.mpi_run`: each rank starts an MPI program, and the programs find each other."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sparkring import _run_state
from sparkring._core import PmiHandle
from sparkring._launch.child_process import describe
from sparkring._mpi.arguments import (
    check_command,
    check_directory,
    check_output,
    check_plain,
    check_pmix,
    check_variables,
    shorten,
)
from sparkring._mpi.lines import write_all
from sparkring._mpi.program import Program
from sparkring._mpi.server import abort, aborting, check, served

if TYPE_CHECKING:
    from sparkring._communicator import Communicator

SLICE = 0.05  # seconds between two looks at the other ranks
LATE = 0.2  # seconds that the server may need for the last lines of a program that has ended


def mpi_run(
    self: Communicator,
    argv: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    allow_plain: bool = False,
    pmix: bool | None = None,
    output: Callable[[str], object] | None = None,
) -> None:
    """Start an MPI program on every rank, and wait until all programs have ended. Collective.

    The program of a rank has this rank in ``MPI_COMM_WORLD``. No mpiexec is needed. The programs
    find each other by PMI-1, the protocol of MPICH, of libraries made from it, and of programs of
    the MPI 5 ABI that run over MPICH; or by PMIx, the protocol of Open MPI 4 and 5, which is served
    where sparkring was installed with PMIx on all hosts. All programs use the same MPI library.
    Programs without MPI work, if no rank's program uses MPI. ``MPI_Comm_spawn`` fails. The
    communicator can be used afterwards.

    A program that fails, is killed or calls ``MPI_Abort`` ends the programs of all ranks, with all
    their descendants; so does a rank that dies, an exception in this call, and `abort` in another
    thread.

    Parameters
    ----------
    argv : sequence of str
        The program, as a path or a name in ``PATH``, and its arguments. Ranks may pass different
        ones.
    env : mapping of str to str
        Variables to set besides those of this process. Variables of other launchers, those of
        sparkring and secrets of Spark are not passed on. So a program opens a communicator of its
        own by `sparkring.init` with a token that it gets in another way.
    cwd : path
        The working directory; that of this process by default.
    allow_plain : bool
        MPI connects the programs by itself, neither authenticated nor encrypted. Where the
        communicator encrypts, this is refused unless ``allow_plain`` is true.
    pmix : bool, optional
        Whether to serve PMIx, by a process on each host. By default it is served where all hosts
        can; elsewhere a program of Open MPI is alone in its ``MPI_COMM_WORLD``. Pass true for
        programs of Open MPI, to raise an error instead, and false for programs of MPICH, which
        start a little faster. All ranks pass the same.
    output : callable
        Called with each line of output; a line of more than 64 KiB comes in pieces. By default
        lines go to the output of this process, with the rank before each line where nothing else
        puts it there.

    Raises
    ------
    AbortedError
        On every rank, when a program fails or cannot be started: the error names rank, host, and
        signal or exit code, and has the last lines of the program's output.
    MismatchError
        When a program has ended while another program waits for it in ``MPI_Init`` or
        ``MPI_Finalize``.
    UnsupportedError
        When the communicator encrypts, without ``allow_plain``; when a host cannot serve PMIx,
        with ``pmix=True``: the error names rank, host and reason.
    InvalidError
        For a bad argument.
    PeerLostError, TimeoutError
        When a rank dies or cannot be reached.

    Examples
    --------
    >>> comm.mpi_run(["./solve", "--steps", "100"])
    [0] residual 0.01
    >>> comm.mpi_run([sys.executable, "script.py"], env={"OMP_NUM_THREADS": "4"})  # mpi4py
    """
    command = check_command(argv)
    check_plain(self, allow_plain)
    variables = check_variables(env)
    directory = check_directory(cwd)
    check_output(output)
    check_pmix(pmix)
    prefix = b"[%d] " % self.rank if output is None and needs_rank() else b""
    write = write_lines if output is None else functools.partial(call, output)
    with served(self, pmix) as pmi:
        variables.update(dict(entry.split("=", 1) for entry in pmi.environment()))
        with aborting(pmi):
            program = start(pmi, command, variables, directory, prefix, write)
        with program, aborting(pmi):  # the other ranks know before this one has cleaned up
            pmi.started()
            watch(pmi, self, program, command[0])
            pmi.close()


def start(
    pmi: PmiHandle,
    command: list[str],
    variables: dict[str, str],
    directory: str | None,
    prefix: bytes,
    write: Callable[[int, bytes], None],
) -> Program:
    """Start the program. An error of the system is a failure of all ranks."""
    try:
        return Program(command, variables, directory, pmi.fd(), prefix, write)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        abort(pmi, f"the program {shorten(command[0])} cannot be started: {error}")
        pmi.test()  # raises
        raise


def watch(pmi: PmiHandle, comm: Communicator, program: Program, name: str) -> None:
    """Copy the output until the program has ended well. Any other end of a rank raises."""
    while not program.ended and check(pmi, comm) != "aborted":
        program.step(SLICE)
    program.end()
    program.drain()
    why = failure(pmi, program)
    if why is not None:
        abort(pmi, f"the program {shorten(name)} {why}")
    pmi.test()


def failure(pmi: PmiHandle, program: Program) -> str | None:
    """Describe how the program has failed, with its last lines; None: it has not."""
    if program.problem is not None:
        return program.problem
    state, code = last_state(pmi)
    if state == "aborted":
        return f"called MPI_Abort with exit code {code}{program.tail()}"
    if program.status:
        return describe(program.status) + program.tail()
    return f"ended without MPI_Finalize{program.tail()}" if state in ("active", "lost") else None


def last_state(pmi: PmiHandle) -> tuple[str, int]:
    """Return the state of a program that has ended. Its server may still have to read its end."""
    deadline = time.monotonic() + LATE
    while True:
        state, code = pmi.test()
        if state != "active" or time.monotonic() >= deadline:
            return state, code
        time.sleep(0.001)


def needs_rank() -> bool:
    """Whether nothing puts the rank before the lines of this process: no launcher, no run."""
    return not _run_state.tags_lines() and "SPARKRING_LAUNCHER" not in os.environ


def write_lines(target: int, text: bytes) -> None:
    """Write lines to the output of this process; in a worker of Spark, which shows descriptor 2."""
    write_all(
        2 if "pyspark.worker" in sys.modules and not _run_state.tags_lines() else target, text
    )


def call(output: Callable[[str], object], target: int, text: bytes) -> None:
    """Pass lines to the user's function."""
    del target
    for line in text.decode(errors="replace").split("\n")[:-1]:
        output(line)
