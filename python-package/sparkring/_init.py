# SPDX-License-Identifier: Apache-2.0
"""The arguments of a communicator, and their defaults."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Sequence

from sparkring import _barrier_task as barrier_task
from sparkring import _core
from sparkring import _opening as opening
from sparkring import _options as options
from sparkring import _run_state as run_state
from sparkring import _spark_encryption as spark_encryption
from sparkring._communicator import Communicator
from sparkring._core import InvalidError

Exchange = Callable[[str], Sequence[str]]

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
    backend: str | None = None,
    timeline: str | os.PathLike[str] | None = None,
) -> Communicator:
    """Find the other ranks and form a communicator with them.

    Without ``rank``, `init` looks for, in this order: the PySpark barrier task that runs it; the
    environment of ``sparkring-run``, Open MPI, MPICH, torchrun or Slurm. Outside both, it
    opens a communicator of one rank. Every rank of the job must call `init`. It returns when the
    rendezvous is complete.

    A process has one communicator at a time: close it before the next `init`. The exception is a
    communicator that another Spark task has left open in this process: `init` aborts it. In a
    script of `sparkring.spark.run` the first call returns the communicator of the run. It has the
    options of the run; the arguments of `init` are ignored.

    Ctrl-C ends every wait in `init` and in the methods of the communicator. The communicator is
    then broken, and the other ranks receive the reason. In a Spark task, the end of the parent
    process has the same effect, because a worker must not outlive its executor. The process that
    was the parent at the import of ``sparkring`` counts. Calls and requests then raise
    :class:`AbortedError`.

    In a barrier task, call `init` before the task reads rows or does anything else that may fail or
    take long. Until the last task of the stage has called `init`, the other tasks wait in Spark's
    ``allGather``. Spark may end the stage during this wait: a task has failed before it called
    `init`, has waited longer than ``timeout``, or was lost with its host. Then the whole executors
    of the waiting tasks end, too, with exit code 50, and Spark starts new executors
    (``local[n]`` has no executors). Once all tasks have called `init`, none waits in ``allGather``,
    and executors stay when a task fails or is lost. `sparkring.spark.run` calls `init` first of
    all.

    Parameters
    ----------
    rank : int, optional
        The rank of this process, from 0 to ``size - 1``. Needs ``addresses``, or ``size`` and
        ``root_address``.
    size : int, optional
        The number of processes; by default the number of addresses.
    addresses : iterable of str, optional
        The host of every rank, in rank order: ``"host"``, ``"host:port"`` or ``"[v6]:port"``. Ports
        are ignored.
    root_address : str, optional
        The host of rank 0, when the hosts of the other ranks are unknown.
    token : str or bytes, optional
        The job's shared secret, at least 16 random bytes. Only processes with the token can join.
        Without a token the methods for objects raise an error. The default applies when the
        environment names the ranks: the contents of the file in ``SPARKRING_TOKEN_FILE``, or the
        value of ``SPARKRING_TOKEN``. A barrier task needs no token: Spark carries public keys
        between the ranks, and every two ranks derive a secret of their own from the keys.
    job : str, optional
        The name of the job. It separates jobs that share addresses and token.
    ports : (int, int), optional
        The first and the last port to listen on. By default rank 0 listens on a port from 21000 to
        31999 (in a barrier task on any port), and links use any free port. When the environment
        names the ranks, the default is ``SPARKRING_PORTS``, if it is set.
    timeout : float, optional
        Seconds until the rendezvous must be complete; by default 300 or, when the environment names
        the ranks, ``SPARKRING_TIMEOUT``. In a barrier task, seconds until all tasks have called
        `init`, and as long again until they are connected.
    call_timeout : float
        Seconds that a later call may wait for other ranks without progress.
    warn_after : float, optional
        Seconds without progress after which a waiting call logs a warning, and again after twice as
        long. The warning names the ranks that the call waits for and their last calls. The logger
        is ``"sparkring"`` of `logging`, which writes to the standard error output by default. 0 for
        no warnings. By default ``SPARKRING_WARN_AFTER`` or, if that is not set, 60.
    algorithms : str, optional
        Rules for the choice of algorithms, the same on every rank, such as
        ``"allreduce:ring:64KiB-,broadcast:tree:-1MiB"``. A rule has a collective, one of its
        algorithms and, unless it is for every size, a range of bytes of the larger of a rank's two
        buffers. The first rule that matches a call counts; `Communicator.explain` returns the
        algorithm of a call. By default ``SPARKRING_ALGORITHM``, if it is set. The algorithms are,
        for allreduce: direct, doubling, halving (not for float16 and bfloat16, where the rule is
        passed over), ring, hierarchical (only for several hosts with several ranks on some of them;
        passed over elsewhere); reduce and broadcast: tree, chain; reduce_scatter and
        reduce_scatterv: direct, ring; scan and exscan: doubling, chain; allgather and allgatherv:
        bruck, ring; gather, gatherv, scatter and scatterv: tree, direct; alltoall: bruck,
        pairwise.
    exchange : callable, optional
        Takes this rank's string and returns the strings of all ranks, in rank order, as
        ``BarrierTaskContext.allGather`` does. The strings are no secret. But an attacker that can
        change the strings in transit can pass for a rank. `init` raises the error of ``exchange``.
    shared_memory : bool
        Whether ranks of one host use shared memory, where they can. Large results are in shared
        memory, too: a child that this process forks shares them, and writes to the same memory.
        ``False`` on one rank turns shared memory off on its host; so does ``0`` in the variable
        ``SPARKRING_SHARED_MEMORY``.
    connections : int, optional
        Connections of a link between two hosts, 1 to 16, the same on every rank. The bytes of the
        link go over all its connections, because one connection is often limited to a part of the
        bandwidth. By default ``SPARKRING_CONNECTIONS`` or, if that is not set, 1. Within a host a
        link is one connection, unless connections are given and shared memory is turned off.
    encryption : bool, optional
        Whether the traffic of the ranks over the network is encrypted, the same on every rank. The
        protocol is TLS 1.3 with a key from ``token`` or ``exchange``, one of which is required. A
        barrier task has an exchange. Shared memory of a host is not part of the network. By
        default ``SPARKRING_ENCRYPTION``, 1 or 0. If that is not set, yes in the tasks of a Spark
        that encrypts its own traffic (``spark.network.crypto.enabled``, ``spark.ssl.rpc.enabled``
        or ``spark.authenticate.enableSaslEncryption``), else no.
    backend : str, optional
        What carries collectives out, the same on every rank: ``"native"``, or ``"mpi"`` for the MPI
        library of the ``mpirun`` or ``srun`` that has started the ranks, on networks that
        sparkring does not drive itself. MPI is loaded at run time, and initialized where the
        program has not done so. Messages, and all else that is no collective, use the links of
        sparkring in any case. With MPI ``call_timeout`` is for the whole call, and MPI encrypts
        nothing. After an error of a communicator end the process: MPI may still use the arrays of
        the call, which are not freed any more. By default ``SPARKRING_BACKEND`` or, if that is not
        set, ``"native"``.
    timeline : str or path, optional
        A directory for the timelines of the ranks, the same on every rank, as for
        `Communicator.start_timeline`. By default ``SPARKRING_TIMELINE``, if it is set. ``""`` for
        none.

    Returns
    -------
    Communicator

    Raises
    ------
    InvalidError
        For invalid arguments or variables, in a Spark task outside barrier stages, and while this
        process has an open communicator.
    TimeoutError
        When ranks are missing. The message names the missing ranks and the usual causes.
    AuthError
        When the peer at the address of a rank cannot prove that it belongs to the job.
    MismatchError
        When the ranks have different ``algorithms``, ``connections``, ``encryption`` or
        ``backend``.
    UnsupportedError
        When ``backend`` is ``"mpi"`` and a rank has no MPI library, not that of the launcher, or no
        launcher of MPI.
    BusyError
        While another thread is in `init`, or with MPI in `Communicator.split`.

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
        if (of_run := run_state.open_communicator()) is not None:
            return of_run
        task = barrier_task.find(options.check_seconds("timeout", timeout) or opening.TIMEOUT)
        if task is not None:
            rank, addresses, attempt, encrypts, exchange = task
    as_spark = encryption is None and spark_encryption.by_default(encrypts)
    checked = opening.Opening(
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
        None if backend is None else options.check_text("backend", backend),
    )
    if as_spark and rank is not None and exchange is None:
        spark_encryption.check_token(checked.token, checked.size or len(checked.addresses or ()))
    if timeline is None:
        timeline = os.environ.get("SPARKRING_TIMELINE", "")
    communicator = opening.open_first(Communicator, checked, attempt)
    if os.fspath(timeline):
        _record(communicator, timeline)
    return communicator


def _record(communicator: Communicator, timeline: str | os.PathLike[str]) -> None:
    try:
        communicator.start_timeline(timeline)
    except BaseException:
        communicator.abort("its timeline cannot be written")
        raise
