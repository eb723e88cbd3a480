# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found, import-untyped, unused-ignore"
"""RAFT: a handle whose ranks are those of a communicator, for the algorithms of cuML on many GPUs.

RAFT wants an NCCL communicator that blocks while it connects. It is made on a thread of its own,
and the ranks ask each other meanwhile, so that a lost or failed rank is an error on all of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring import _core
from sparkring._agree import agree
from sparkring._core import InvalidError, UnsupportedError
from sparkring.frameworks import _device as device

if TYPE_CHECKING:
    from sparkring._communicator import Communicator

SLICE = 0.05  # seconds between two questions


@contextlib.contextmanager
def raft_handle(
    self: Communicator, *, n_streams: int = 0, timeout: float = 120.0, allow_plain: bool = False
) -> Iterator[Any]:
    """Yield a handle of RAFT for cuML's algorithms on many GPUs; a context manager. Collective.

    Each rank uses the current GPU of its process. In a Spark task with GPUs that is one of the
    task. `gpus` gives GPUs to the ranks elsewhere. The end of the block waits for the streams of
    the handle and destroys its NCCL communicator; an exception aborts it.

    Inside the block the algorithms' own calls of NCCL have no deadline: a rank that is lost there
    does not end the calls of the other ranks.

    Parameters
    ----------
    n_streams : int
        Streams of the handle beside its main stream.
    timeout : float
        Seconds for NCCL to connect the ranks.
    allow_plain : bool
        Whether NCCL, which neither authenticates nor encrypts, may be used where the communicator
        encrypts.

    Yields
    ------
    pylibraft.common.Handle

    Raises
    ------
    UnsupportedError
        When pylibraft or raft-dask is missing; when the communicator encrypts, without
        ``allow_plain``. The other ranks raise InvalidError, which names the rank.
    InvalidError
        When NCCL fails on a rank.
    TimeoutError
        When a rank is not connected in time. Its thread stays in NCCL until the process ends.
    PeerLostError, AbortedError
        As for `allreduce`.

    Examples
    --------
    >>> from cuml.cluster.kmeans_mg import KMeansMG
    >>> with comm.raft_handle() as handle:
    ...     model = KMeansMG(handle=handle, n_clusters=8).fit(rows)
    """
    nccl_type, handle_type, inject = agree(self, lambda: _find(self, allow_plain))
    unique = self.broadcast_object(agree(self, lambda: _unique_id(self, nccl_type)))
    handle = agree(self, lambda: handle_type(n_streams=n_streams))
    nccl = nccl_type()
    context = _current_context()

    def start() -> None:
        _use_context(context)
        nccl.init(self.size, unique, self.rank)

    _connect(self, start, timeout)
    agree(self, lambda: inject(handle, nccl, self.size, self.rank, False))
    try:
        yield handle
        handle.sync()
    except BaseException:
        nccl.abort()
        raise
    nccl.destroy()


def _find(comm: Communicator, allow_plain: bool) -> tuple[Any, Any, Any]:
    """Import the parts of RAFT, for this task's GPUs."""
    if comm.encrypted and not allow_plain:
        raise UnsupportedError(
            "this communicator encrypts, and NCCL sends in plain: pass allow_plain=True where the"
            " network between the hosts is trusted"
        )
    device.use_task_gpus()
    try:
        from pylibraft.common import Handle
        from raft_dask.common.comms_utils import inject_comms_on_handle_coll_only
        from raft_dask.common.nccl import nccl
    except ImportError as error:
        raise UnsupportedError(
            f"RAFT cannot be used ({error}): install raft-dask-cu12 or raft-dask-cu13, which cuML"
            " needs on many GPUs"
        ) from error
    return nccl, Handle, inject_comms_on_handle_coll_only


def _unique_id(comm: Communicator, nccl_type: Any) -> bytes | None:
    return nccl_type.get_unique_id() if comm.rank == 0 else None


def _connect(comm: Communicator, start: Callable[[], None], timeout: float) -> None:
    """Run `start` on a thread until all ranks have returned from it, or one has failed."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            start()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work, name="sparkring-raft", daemon=True)
    thread.start()
    deadline = time.monotonic() + timeout

    def check() -> None:
        if failures:
            raise InvalidError(f"NCCL cannot connect the ranks: {failures[0]}") from failures[0]

    waits = True
    while waits:
        thread.join(SLICE)
        alive = thread.is_alive()
        agree(comm, check)
        late = alive and time.monotonic() > deadline
        waits, any_late = map(bool, comm.allreduce(np.array([alive, late]), "max"))
        if any_late:
            raise _core.TimeoutError(
                f"NCCL has not connected the ranks within {timeout:g} s: see whether the ports"
                " between the hosts are open and which interface NCCL_SOCKET_IFNAME names, or pass"
                " a longer timeout"
            )


def _current_context() -> ctypes.c_void_p:
    """Return the CUDA context of this thread, which RAFT's handle has made current."""
    context = ctypes.c_void_p()
    _driver().cuCtxGetCurrent(ctypes.byref(context))
    return context


def _use_context(context: ctypes.c_void_p) -> None:
    """Make a CUDA context current on this thread: NCCL takes the GPU from there."""
    _driver().cuCtxPushCurrent_v2(context)


def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")
