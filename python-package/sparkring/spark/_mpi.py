# SPDX-License-Identifier: Apache-2.0
"""`mpi`: an MPI program as a Spark job, without a function around it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from sparkring import Communicator
from sparkring._mpi.arguments import (
    check_command,
    check_directory,
    check_pmix,
    check_variables,
)
from sparkring.spark._run import run


def mpi(
    argv: Sequence[str | os.PathLike[str]],
    num_proc: int | None = None,
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    allow_plain: bool = False,
    pmix: bool | None = None,
    **options: Any,
) -> None:
    """Run an MPI program on all ranks, as the tasks of a Spark barrier stage.

    Each rank calls `Communicator.mpi_run` with these arguments. The program must be on the
    executors, as its MPI library must. Its output is shown as that of `run`.

    Parameters
    ----------
    argv : sequence of str
        The program and its arguments.
    num_proc : int, optional
        As for `run`.
    env : mapping of str to str
        Variables to set on the executors besides those of Spark's workers, of which programs do
        not inherit the secrets of sparkring and Spark.
    cwd : path
        The working directory on the executors.
    allow_plain : bool
        Whether to start programs where the ranks encrypt. MPI connects programs unencrypted.
    pmix : bool, optional
        Whether to serve PMIx, which programs of Open MPI use: by default where all executors can.
        True raises an error where one cannot.
    **options : object
        Further arguments of `run`, such as ``spark``, ``resources`` or ``max_restarts``.

    Raises
    ------
    AbortedError
        When a program fails: as for `Communicator.mpi_run`.
    RankError, InvalidError, UnsupportedError, TimeoutError
        As for `run` and `Communicator.mpi_run`.

    Examples
    --------
    >>> from sparkring.spark import mpi
    >>> mpi(["./solve", "--steps", "100"], num_proc=4)
    [0] residual 0.01
    """
    command = check_command(argv)
    check_variables(env)
    variables = None if env is None else dict(env)
    directory = check_directory(cwd)
    check_pmix(pmix)

    def work(comm: Communicator) -> None:
        comm.mpi_run(command, env=variables, cwd=directory, allow_plain=allow_plain, pmix=pmix)

    run(work, num_proc=num_proc, **options)
