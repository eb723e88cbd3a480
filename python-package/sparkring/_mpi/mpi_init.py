# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found, import-untyped, unused-ignore"
"""`Communicator.mpi_init`: the ranks' own processes join MPI, for mpi4py."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sparkring._core import InvalidError, PmiHandle, RingError, UnsupportedError
from sparkring._mpi.arguments import FOREIGN, check_plain, check_pmix
from sparkring._mpi.server import abort, aborting, check, served

if TYPE_CHECKING:
    from sparkring._communicator import Communicator

GRACE = 0.5  # seconds in which the rank at fault reports its error, before MPI's waits are ended
SLICE = 0.05  # seconds between two looks at the other ranks
ACKNOWLEDGED = b"cmd=finalize_ack\n"  # PMI-1's answer to the end of a connection


@contextlib.contextmanager
def mpi_init(
    self: Communicator, *, allow_plain: bool = False, pmix: bool | None = None
) -> Iterator[Any]:
    """Initialize MPI in this process, for code that uses mpi4py; a context manager. Collective.

    ``MPI_COMM_WORLD`` has the ranks of the communicator, which can be used beside MPI. The MPI
    library is that of mpi4py: MPICH, a library made from it, or, where PMIx is served, Open MPI 4
    or 5. The end of the block finalizes MPI.

    A process can initialize MPI once, by the MPI standard. Spark uses its Python workers again, so
    inside ``rdd.barrier()`` a second job needs ``spark.python.worker.reuse=false``.
    `sparkring.spark.run` gives each job new processes.

    MPI has no deadline, and nothing can end a call of MPI that waits for a rank that has died or
    left the block with an exception. Within 1 s the processes of the other ranks therefore print
    the error and exit with code 1; after the death of a host within 1 minute.

    Parameters
    ----------
    allow_plain : bool
        As for `mpi_run`: MPI connects the processes without authentication or encryption.
    pmix : bool, optional
        As for `mpi_run`: whether to serve PMIx, which Open MPI uses.

    Yields
    ------
    mpi4py.MPI.Intracomm
        ``MPI.COMM_WORLD``. Import ``mpi4py.MPI`` inside the block, because the import initializes
        MPI.

    Raises
    ------
    AbortedError
        When a rank cannot initialize MPI: the error names the rank. The processes of ranks that
        are initializing MPI meanwhile exit.
    UnsupportedError
        When the communicator encrypts, without ``allow_plain``; when a host cannot serve PMIx,
        with ``pmix=True``.
    PeerLostError, TimeoutError
        When a rank dies or cannot be reached.

    Examples
    --------
    >>> with comm.mpi_init() as world:
    ...     from mpi4py import MPI
    ...     world.allreduce(1.0, op=MPI.SUM)
    """
    check_plain(self, allow_plain)
    check_pmix(pmix)
    with served(self, pmix) as pmi, aborting(pmi):
        fd = os.dup(pmi.fd())  # for MPI, which may close it
        inode = os.fstat(fd).st_ino
        pmi.started()
        with ended_with_the_job(pmi, self):
            yield join(pmi, self, fd)
            finalize(pmi, fd, inode)
        pmi.close()


def join(pmi: PmiHandle, comm: Communicator, fd: int) -> Any:
    """Initialize MPI, which gets this end of its connection, and return the world."""
    variables = dict(entry.split("=", 1) for entry in pmi.environment())
    try:
        with replaced_environment({**variables, "PMI_FD": str(fd)}):
            world = _initialize()
    except BaseException as error:
        if pmi.test()[0] == "silent":  # else MPI has taken the descriptor
            os.close(fd)
        abort(pmi, f"cannot initialize MPI: {error}")
        pmi.test()
        raise
    if (world.Get_rank(), world.Get_size()) != (comm.rank, comm.size):
        problem = pmi.pmix_problem()
        pmix = "" if problem is None else f", and PMIx cannot be served: {problem}"
        abort(
            pmi,
            f"MPI's world has size {world.Get_size()} and not {comm.size}: the MPI library of"
            f" mpi4py does not use PMI-1{pmix}. Install MPICH, as pip install mpich does",
        )
        pmi.test()
    return world


def _initialize() -> Any:
    """Import mpi4py, initialize MPI, and return the world."""
    try:
        import mpi4py
    except ImportError:
        raise UnsupportedError("mpi4py is not installed: pip install mpi4py mpich") from None
    loaded = sys.modules.get("mpi4py.MPI")
    if loaded is not None and loaded.Is_initialized():
        raise InvalidError(
            "this process has initialized MPI before, which MPI allows once: import mpi4py.MPI"
            " inside mpi_init(), use new processes (spark.python.worker.reuse=false), or mpi_run()"
        )
    mpi4py.rc.initialize = mpi4py.rc.finalize = False
    from mpi4py import MPI

    MPI.Init_thread(MPI.THREAD_MULTIPLE)
    return MPI.COMM_WORLD


def finalize(pmi: PmiHandle, fd: int, inode: int) -> None:
    """Finalize MPI, and its connection, where MPI has not closed it."""
    mpi = sys.modules["mpi4py.MPI"]
    if not mpi.Is_finalized():
        mpi.Finalize()
    try:
        kept = os.fstat(fd).st_ino == inode
    except OSError:
        kept = False
    if not kept:
        return
    if pmi.test()[0] != "active":  # of an MPI that does not use PMI-1
        os.close(fd)
        return
    try:
        acknowledge(fd)
    except OSError:
        pmi.test()  # raises where another rank has failed
        raise


def acknowledge(fd: int) -> None:
    """Finalize the connection of MPICH 5.

    MPICH 5 does so in an exit handler, when the server is gone. The exit handler gets its answer
    from a socket that outlives the server.
    """
    os.write(fd, b"cmd=finalize\n")
    os.read(fd, len(ACKNOWLEDGED))
    ours, theirs = socket.socketpair()
    ours.send(ACKNOWLEDGED)
    with theirs:
        os.dup2(theirs.fileno(), fd, inheritable=False)
    ours.detach()  # stays open as long as this process


@contextlib.contextmanager
def replaced_environment(variables: dict[str, str]) -> Iterator[None]:
    """Set variables, and remove those of other launchers, for a while."""
    names = {*variables, *(name for name in os.environ if name.startswith(FOREIGN))}
    before = {name: os.environ.pop(name, None) for name in names}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def ended_with_the_job(pmi: PmiHandle, comm: Communicator) -> Iterator[None]:
    """End this process soon after another rank has failed, unless the block ends before."""
    left = threading.Event()
    watcher = threading.Thread(
        target=_watch, args=(pmi, comm, left), name="sparkring-mpi", daemon=True
    )
    watcher.start()
    try:
        yield
    finally:
        left.set()
        watcher.join()


def _watch(pmi: PmiHandle, comm: Communicator, left: threading.Event) -> None:
    while not left.wait(SLICE):
        try:
            check(pmi, comm)
        except RingError as error:
            abort(pmi, str(error))  # no effect after another failure
            if left.wait(GRACE):
                return
            text = f"rank {comm.rank} ends, because its MPI has ended: {error}\n"
            with contextlib.suppress(OSError):  # nobody reads the errors of this process
                os.write(2, text.encode(errors="replace"))
            os._exit(1)
