# SPDX-License-Identifier: Apache-2.0
"""The arguments of `mpi_run` and `mpi_init`: checks before anything starts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sparkring._core import InvalidError, UnsupportedError

if TYPE_CHECKING:
    from sparkring._communicator import Communicator

SHOWN = 200  # characters of an argument in an error

# Of other launchers, which MPI libraries would take for theirs.
FOREIGN = (
    *("PMI_", "PMIX_", "HYDI_", "HYDRA_", "MPIEXEC_", "MPI_LOCAL"),
    *("OMPI_", "PALS_", "SLURM_", "FLUX_"),
)
SECRETS = (
    *("SPARKRING_", "PYTHON_WORKER_FACTORY_SECRET", "PYSPARK_GATEWAY_SECRET"),
    *("_SPARK_AUTH_SECRET", "_SPARK_LAUNCHER_SECRET"),
    *("SPARKR_WORKER_SECRET", "SPARKR_BACKEND_AUTH_SECRET"),
)


def shorten(value: object) -> str:
    """Show a value in an error."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def is_text(value: object) -> bool:
    """Whether a value can be passed to a program."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def check_command(argv: Any) -> list[str]:
    """Return the command, or raise InvalidError."""
    if isinstance(argv, (str, bytes, os.PathLike)) or not isinstance(argv, Sequence) or not argv:
        raise InvalidError(f'argv is {shorten(argv)}: pass a list, as in ["./program", "--option"]')
    parts = [os.fspath(part) if isinstance(part, os.PathLike) else part for part in argv]
    for part in parts:
        if not is_text(part):
            raise InvalidError(f"argv has {shorten(part)}: pass str without zero bytes, or paths")
    return parts


def check_variables(env: Any) -> dict[str, str]:
    """Return the variables of the program: those of this process, and `env`."""
    if env is not None and not isinstance(env, Mapping):
        raise InvalidError(f"env is {shorten(env)}: pass a mapping of str to str")
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith((*FOREIGN, *SECRETS))
    }
    for name, value in ({} if env is None else env).items():
        if not is_text(name) or not is_text(value):
            raise InvalidError(
                f"env has {shorten(name)}: {shorten(value)}: pass names and values of type str,"
                " without zero bytes"
            )
        if not name or "=" in name:
            raise InvalidError(f"env has the name {shorten(name)}: pass names without '='")
        variables[name] = value
    return variables


def check_directory(cwd: Any) -> str | None:
    """Return the working directory, or raise InvalidError."""
    path = os.fspath(cwd) if isinstance(cwd, os.PathLike) else cwd
    if path is not None and (not path or not is_text(path)):
        raise InvalidError(f"cwd is {shorten(cwd)}: pass a path of type str")
    return path


def check_output(output: Any) -> None:
    """Raise InvalidError unless `output` can be called."""
    if output is not None and not callable(output):
        raise InvalidError(f"output is {shorten(output)}: pass a function of one line")


def check_pmix(pmix: Any) -> None:
    """Raise InvalidError unless `pmix` is a bool or None."""
    if pmix not in (None, True, False):
        raise InvalidError(f"pmix is {shorten(pmix)}: pass True, False or None")


def check_plain(comm: Communicator, allow_plain: bool) -> None:
    """Refuse MPI's own connections where the communicator encrypts."""
    if comm.encrypted and not allow_plain:
        raise UnsupportedError(
            "this communicator encrypts, and MPI connects programs without authentication or"
            " encryption: pass allow_plain=True where the network between the hosts is trusted"
        )
