# SPDX-License-Identifier: Apache-2.0
"""Making the communicator of this process.

A process has one communicator at a time: with two, ranks that take them in a different order would
wait for each other forever. Spark reuses its Python workers, though, so one that an earlier task
left open is aborted when the next task asks for its own.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from sparkring import _barrier_task as barrier_task
from sparkring import _core
from sparkring import _options as options
from sparkring import _run_state as run_state
from sparkring import _spark_encryption as spark_encryption
from sparkring._core import BusyError, Communicator, InvalidError

Exchange = Callable[[str], Sequence[str]]


class _Opened(NamedTuple):
    """The last communicator of a process, and the Spark task attempt that it was made in."""

    communicator: weakref.ref[Communicator]
    process: int
    attempt: int | None


_last: _Opened | None = None
_opening = threading.Lock()
atexit.register(_core.end)


def init(
    *,
    rank: int | None = None,
    size: int | None = None,
    addresses: Iterable[str] | None = None,
    root_address: str | None = None,
    token: str | bytes | None = None,
    job: str | None = None,
    ports: tuple[int, int] | None = None,
    timeout: float | None = None,
    call_timeout: float = 600.0,
    warn_after: float | None = None,
    algorithms: str | None = None,
    exchange: Exchange | None = None,
    shared_memory: bool = True,
    connections: int | None = None,
    encryption: bool | None = None,
) -> Communicator:
    """Find the other ranks and form a communicator with them.

    Without ``rank`` this looks for, in this order: the PySpark barrier task that runs it; the
    environment of ``sparkring-run``, Open MPI, MPICH, torchrun or Slurm; and, when there is
    nothing, makes a world of one. Every rank of the job must call it; it returns when all have met.

    A process has one communicator at a time, however it was made: close it before the next `init`.
    Only one that another Spark task has left open in this process is aborted instead. In a script
    of `sparkring.spark.run` the first call returns the communicator of the run, which has the
    options of the run, whatever is asked for here.

    Ctrl-C ends every wait, here and in the methods of the communicator, which is broken then; the
    other ranks are told. In a Spark task, so does the end of the process that has started this one,
    which was its parent when ``sparkring`` was imported: without its executor a worker waits for
    nobody. Calls and requests then raise :class:`AbortedError`.

    In a barrier task, call it before rows are read or anything else is done that may fail or take
    long. Until the last task of the stage has called it, the others wait in Spark's ``allGather``.
    When Spark ends the stage meanwhile, as a task has failed before it called `init`, waited for
    longer than ``timeout``, or was lost with its host, the whole executors of the tasks that wait
    end, too, with exit code 50, and Spark starts new ones (not with ``local[n]``, where there are
    none). Once all have called it, nothing waits there any more, and executors stay when a task
    fails or is lost. `sparkring.spark.run` calls it first of all.

    Parameters
    ----------
    rank : int, optional
        This process, from 0 to ``size - 1``. Needs ``addresses``, or ``size`` and
        ``root_address``.
    size : int, optional
        The number of processes; by default the number of addresses.
    addresses : iterable of str, optional
        The host of every rank, in rank order: ``"host"``, ``"host:port"`` or ``"[v6]:port"``, where
        ports are ignored.
    root_address : str, optional
        The host of rank 0, when those of the others are unknown.
    token : str or bytes, optional
        The job's shared secret, at least 16 random bytes. Only processes that know it can join, and
        without one the methods for objects refuse to work. By default, when the environment tells
        who the ranks are, that of the file which ``SPARKRING_TOKEN_FILE`` names, or that in
        ``SPARKRING_TOKEN``. A barrier task needs none: Spark carries public keys between the ranks,
        from which every two of them make a secret of their own.
    job : str, optional
        Tells jobs apart that share addresses and token.
    ports : (int, int), optional
        The first and the last port to listen on. By default rank 0 is found on a port from 21000 to
        31999 (in a barrier task on any), and links use any free port; or, when the environment
        tells who the ranks are, those of ``SPARKRING_PORTS``.
    timeout : float, optional
        Seconds until all ranks must have met; by default 300 or, when the environment tells who the
        ranks are, ``SPARKRING_TIMEOUT``. In a barrier task, until all have called `init`, and as
        long again until they are connected.
    call_timeout : float
        Seconds that a later call may wait for other ranks with nothing moving.
    warn_after : float, optional
        Seconds after which a call that waits says so, with the ranks that it waits for and what
        they did last, and again after twice as long: a warning of the logger ``"sparkring"`` of
        `logging`, which goes to the standard error output unless that is set up otherwise. 0 for no
        warnings. By default ``SPARKRING_WARN_AFTER`` or, if that is not set, 60.
    algorithms : str, optional
        Overrides of the choice of algorithms, the same on every rank, such as
        ``"allreduce:ring:64KiB-,broadcast:tree:-1MiB"``: a collective, one of its algorithms and,
        unless it is for every size, a range of bytes of the larger of a rank's two buffers. The
        first rule that speaks of a call counts; `Communicator.explain` tells what is used. By
        default ``SPARKRING_ALGORITHM``, if it is set. There are, for allreduce: direct, doubling,
        halving (not for float16 and bfloat16, where the rule is passed over), ring, hierarchical
        (only for several hosts with several ranks on some of them; passed over elsewhere); reduce
        and broadcast: tree, chain; reduce_scatter: direct, ring; allgather and allgatherv: bruck,
        ring; gather, gatherv, scatter and scatterv: tree, direct; alltoall: bruck, pairwise.
    exchange : callable, optional
        Takes this rank's text and returns the texts of all ranks, in rank order, as
        ``BarrierTaskContext.allGather`` does. The texts are no secret, but whoever can change them
        on their way can be taken for a rank. What it raises, `init` raises.
    shared_memory : bool
        Whether ranks of one host use shared memory, where they can. It is the memory of large
        results, too, so a child that this process forks shares them, also what it writes to them.
        ``False`` on one rank is enough to turn it off on its host; so is ``0`` in the variable
        ``SPARKRING_SHARED_MEMORY``.
    connections : int, optional
        Connections of a link between two hosts, 1 to 16, the same on every rank: its bytes go over
        all of them, because one connection is often held to a part of what the network carries. By
        default ``SPARKRING_CONNECTIONS`` or, if that is not set, 1. Within a host a link is one
        connection, unless connections are given and shared memory is turned off.
    encryption : bool, optional
        Whether what ranks say to each other over the network is encrypted, the same on every rank:
        TLS 1.3 with a key that comes from ``token`` or ``exchange``, of which it needs one; a
        barrier task has the latter. Memory that ranks of one host share is not the network. By
        default ``SPARKRING_ENCRYPTION``, 1 or 0, or, if that is not set, yes in the tasks of a
        Spark that encrypts its own traffic (``spark.network.crypto.enabled``,
        ``spark.ssl.rpc.enabled`` or ``spark.authenticate.enableSaslEncryption``), else no.

    Returns
    -------
    Communicator

    Raises
    ------
    InvalidError
        For arguments or variables that make no sense, in a Spark task outside of barrier stages,
        and while this process has an open communicator.
    TimeoutError
        When ranks are missing; the message names them and the usual causes.
    AuthError
        When what answers in the place of a rank cannot prove that it belongs to the job.
    MismatchError
        When the ranks have different ``algorithms``, ``connections`` or ``encryption``.
    BusyError
        While another thread is in `init`.

    Examples
    --------
    In a function for ``rdd.barrier().mapPartitions``, or in a script for ``sparkring-run``:

    >>> with sparkring.init() as comm:
    ...     total = comm.allreduce(gradient)

    Two processes that know each other's hosts:

    >>> comm = sparkring.init(rank=0, addresses=["alpha", "beta"], token=secret)
    """
    attempt, encrypts = None, False
    if rank is None:
        if any(given is not None for given in (size, addresses, root_address, exchange)):
            raise InvalidError(
                "rank is missing: size, addresses, root_address or exchange was given, so rank must"
                " be given too"
            )
        if (open_already := run_state.lent()) is not None:
            return open_already
        task = barrier_task.find(options.check_seconds("timeout", timeout) or 300.0)
        if task is not None:
            rank, addresses, attempt, encrypts, exchange = task
    as_spark = encryption is None and spark_encryption.by_default(encrypts)
    checked = (
        options.check_rank(rank),
        options.check_count("size", size),
        options.check_addresses(addresses),
        None if root_address is None else options.check_text("root_address", root_address),
        options.check_token(token),
        None if job is None else options.check_text("job", job),
        options.check_ports(ports),
        options.check_seconds("timeout", timeout),
        options.check_seconds("call_timeout", call_timeout),
        options.check_warn_after(warn_after),
        None if algorithms is None else options.check_text("algorithms", algorithms),
        exchange,
        options.check_flag("shared_memory", shared_memory),
        options.check_count("connections", connections),
        options.check_encryption(True if as_spark else encryption),
        attempt is not None,
    )
    if as_spark and rank is not None and exchange is None:
        spark_encryption.check_token(checked[4], checked[1] or len(checked[2] or ()))
    return _open(checked, attempt)


def _open(checked: tuple[Any, ...], attempt: int | None) -> Communicator:
    global _last
    if not _opening.acquire(blocking=False):
        raise BusyError("another thread of this process is in sparkring.init()")
    try:
        _make_room(attempt)
        communicator = _core.open(*checked)
        _last = _Opened(weakref.ref(communicator), os.getpid(), attempt)
        return communicator
    finally:
        _opening.release()


def _make_room(attempt: int | None) -> None:
    """Refuse a second communicator, unless the first is what another Spark task left behind."""
    if _last is None or _last.process != os.getpid():
        return
    communicator = _last.communicator()
    if communicator is None or not communicator.usable:
        return
    if attempt == _last.attempt:
        raise InvalidError(
            f"this process has an open communicator, {communicator!r}: use that one, or close it"
            " before the next init()"
        )
    communicator.abort("its Spark task ended without closing it")
