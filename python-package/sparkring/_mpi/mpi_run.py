# SPDX-License-Identifier: Apache-2.0
"""`Communicator.mpi_run`: each rank starts an MPI program, and the programs find each other."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkring import _core, _run_state
from sparkring._core import Communicator, InvalidError, PmiHandle, UnsupportedError
from sparkring._launch.process_tree import describe
from sparkring._method import method
from sparkring._mpi.program import Program, write_all

SLICE = 0.05  # seconds between two looks at the other ranks

# Of other launchers, which MPI libraries would take for theirs.
FOREIGN = ("PMI_", "PMIX_", "HYDI_", "HYDRA_", "MPIEXEC_", "OMPI_", "PALS_")


@method
def mpi_run(
    self: Communicator,
    argv: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    allow_plain: bool = False,
    output: Callable[[str], object] | None = None,
) -> None:
    """Start an MPI program on every rank, and wait until all programs have ended. Collective.

    The program of a rank has this rank in ``MPI_COMM_WORLD``. The programs find each other by
    PMI-1, which MPICH speaks, libraries made from it, and programs of the MPI 5 ABI that run over
    MPICH. No mpiexec is needed. A program of Open MPI does not speak it, and is alone in its
    ``MPI_COMM_WORLD``. Programs without MPI work, if no rank's program uses MPI.
    ``MPI_Comm_spawn`` fails. The communicator can be used afterwards.

    A program that fails, is killed or calls ``MPI_Abort`` ends the programs of all ranks, with all
    their descendants; so does a rank that dies, and an exception in this call.

    Parameters
    ----------
    argv : sequence of str
        The program, as a path or a name in ``PATH``, and its arguments. Ranks may pass different
        ones.
    env : mapping of str to str
        Variables to set besides those of this process.
    cwd : path
        The working directory; that of this process by default.
    allow_plain : bool
        MPI connects the programs by itself, neither authenticated nor encrypted. Where the
        communicator encrypts, this is refused unless ``allow_plain`` is true.
    output : callable
        Called with each line of output. By default lines go to the output of this process, with
        the rank before each line where nothing else puts it there.

    Raises
    ------
    AbortedError
        On every rank, when a program fails: it names rank, host, signal or exit code, and has the
        last lines of the program's output.
    MismatchError
        When a program has ended while another one waits for it in ``MPI_Init``.
    UnsupportedError
        When the communicator encrypts, without ``allow_plain``.
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
    if self.encrypted and not allow_plain:
        raise UnsupportedError(
            "this communicator encrypts, and MPI connects programs without authentication or"
            " encryption: pass allow_plain=True where the network between the hosts is trusted"
        )
    variables = check_variables(env)
    directory = None if cwd is None else os.fspath(cwd)
    prefix = b"[%d] " % self.rank if output is None and needs_rank() else b""
    pmi = _core.pmi_serve(self)
    variables.update(dict(entry.split("=", 1) for entry in pmi.environment()))
    write = write_lines if output is None else functools.partial(call, output)
    try:
        try:
            program = Program(command, variables, directory, pmi.fd(), prefix, write)
        except OSError as error:
            pmi.abort(f"cannot start a program: {error}")
            raise
        with program:
            pmi.started()
            watch(pmi, program, command[0])
            pmi.close()
    except BaseException as error:
        pmi.abort(f"{type(error).__name__}: {error}")
        raise
    finally:
        pmi.free()


def check_command(argv: Any) -> list[str]:
    """Return the command, or raise InvalidError."""
    if isinstance(argv, (str, bytes, os.PathLike)) or not isinstance(argv, Sequence) or not argv:
        raise InvalidError(f'argv is {argv!r}: pass a list, as in ["./program", "--option"]')
    for part in argv:
        if not isinstance(part, (str, os.PathLike)) or "\0" in os.fspath(part):
            raise InvalidError(f"argv has {part!r}: pass str without zero bytes, or paths")
    return [os.fspath(part) for part in argv]


def check_variables(env: Any) -> dict[str, str]:
    """Return the variables of the program without those of other launchers."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    for name, value in ({} if env is None else env).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidError(f"env has {name!r}: {value!r}: pass names and values of type str")
        variables[name] = value
    return variables


def watch(pmi: PmiHandle, program: Program, name: str) -> None:
    """Copy the output until the program has ended well. Any other end of a rank raises."""
    while not program.ended and pmi.test()[0] != "aborted":
        program.step(SLICE)
    program.drain()
    why = failure(pmi, program)
    if why is not None:
        pmi.abort(f"the program {name!r} {why}{program.tail()}")
    pmi.test()


def failure(pmi: PmiHandle, program: Program) -> str | None:
    """Describe how the program has failed; None: it has not."""
    state, code = pmi.test()
    if program.errno is not None:
        return f"cannot be started: {os.strerror(program.errno)}"
    if state == "aborted":
        return f"called MPI_Abort with exit code {code}"
    if program.status:
        return describe(program.status)
    return "ended without MPI_Finalize" if state in ("active", "lost") else None


def needs_rank() -> bool:
    """Whether nothing puts the rank before the lines of this process: no launcher, no run."""
    return not _run_state.tags_lines() and "SPARKRING_RANK" not in os.environ


def write_lines(target: int, text: bytes) -> None:
    """Write lines to the output of this process; in a worker of Spark, which shows descriptor 2."""
    write_all(
        2 if "pyspark.worker" in sys.modules and not _run_state.tags_lines() else target, text
    )


def call(output: Callable[[str], object], target: int, text: bytes) -> None:
    """Pass lines to the user's function."""
    del target
    for line in text.decode(errors="replace").splitlines():
        output(line)
