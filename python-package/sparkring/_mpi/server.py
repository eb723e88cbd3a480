# SPDX-License-Identifier: Apache-2.0
"""The server of PMI-1 and PMIx, by which MPI finds the ranks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sparkring import _core
from sparkring._core import PmiHandle, UnsupportedError

if TYPE_CHECKING:
    from sparkring._communicator import Communicator

NO_PMIX = (
    "PMIx, which programs of Open MPI need, cannot be served: {}. Install PMIx and its headers"
    " (libpmix-dev, pmix-devel) on every host, and sparkring after them, from source"
)


@contextlib.contextmanager
def served(comm: Communicator, pmix: bool | None) -> Iterator[PmiHandle]:
    """Serve PMI-1 and, unless `pmix` is false, PMIx; with true an error where that cannot be."""
    pmi = _core.pmi_serve(comm, pmix is not False)
    try:
        problem = pmi.pmix_problem()
        if pmix and problem is not None:
            pmi.close()
            raise UnsupportedError(NO_PMIX.format(problem))
        yield pmi
    finally:
        pmi.free()


@contextlib.contextmanager
def aborting(pmi: PmiHandle) -> Iterator[None]:
    """End the programs of all ranks with an exception of this rank."""
    try:
        yield
    except BaseException as error:
        abort(pmi, f"{type(error).__name__}: {error}")  # no effect after another failure
        raise


def abort(pmi: PmiHandle, reason: str) -> None:
    """End the programs of all ranks, with a reason that may hold any characters."""
    text = reason.replace("\0", "\\0").encode(errors="backslashreplace").decode()
    pmi.abort(text)


def check(pmi: PmiHandle, comm: Communicator) -> str:
    """Return the state of this rank's program; raise when a rank has failed or aborted."""
    if not comm.usable:
        comm.barrier()  # another thread has aborted it: raises with its reason
    return pmi.test()[0]
