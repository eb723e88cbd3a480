# SPDX-License-Identifier: Apache-2.0
"""XGBoost: its tracker, through which the workers find each other.

The tracker cannot bind a reserved port. So the tracker runs before other ranks receive its port.
The port is reserved first only to get a port of the right range.

A worker connects to the tracker when it starts and when it finalizes. So the tracker runs until
every worker has finalized, and the end of rank 0's process waits for that. A worker that was killed
never finalizes, so the wait has a limit.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from sparkring.frameworks._exchange import communicator, of_root

if TYPE_CHECKING:
    from sparkring._communicator import Communicator
    from sparkring.frameworks._exchange import Ring

END_LIMIT = 60.0  # seconds that the end of the process waits for other ranks, as in R


class _Served(NamedTuple):
    """A tracker, the thread that ends with it, and the communicator of its ranks."""

    tracker: Any
    thread: threading.Thread
    comm: weakref.ref[Communicator]
    kept: bool  # the communicator was opened, and closed again, by the call

    def may_end(self) -> bool:
        """Whether the other ranks can still train, as far as rank 0 knows."""
        comm = self.comm()
        return self.kept or (comm is not None and comm.usable)


_served: list[_Served] = []


def xgboost_config(comm: Ring = None, /) -> dict[str, Any]:
    """Start XGBoost's tracker on rank 0 and return the arguments of ``CommunicatorContext``.

    Collective. XGBoost's ranks become those of the communicator. The tracker runs in rank 0's
    process until every rank has left its ``CommunicatorContext``. The end of that process waits for
    the other ranks, for at most 60 seconds, unless it ends by an error or `comm` was closed or
    failed. So close `comm` after training. A second call ends the former tracker of `comm`.

    Parameters
    ----------
    comm : Communicator or BarrierTaskContext, optional
        As for `torch_env`.

    Returns
    -------
    dict
        ``dmlc_tracker_uri``, ``dmlc_tracker_port`` and ``dmlc_task_id``.

    Raises
    ------
    ImportError
        When rank 0 has no XGBoost from 2.1 on.
    InvalidError, SystemCallError, MismatchError, PeerLostError, TimeoutError, AbortedError
        As for `torch_env`.

    Examples
    --------
    >>> with sparkring.init() as comm:
    ...     with xgboost.collective.CommunicatorContext(**comm.xgboost_config()):
    ...         booster = xgboost.train(parameters, xgboost.DMatrix(x, y))
    """
    with communicator(comm) as ring:
        former = [served for served in _served if served.comm() is ring]
        port = of_root(ring, lambda: _start_tracker(ring, ring is not comm))
        _end(former)  # no rank trains with it any more: every rank has called this function
        return {
            "dmlc_tracker_uri": ring.hosts[0],
            "dmlc_tracker_port": port,
            "dmlc_task_id": f"{ring.rank:08d}",  # sorted as strings
        }


def _start_tracker(comm: Communicator, kept: bool) -> int:
    from xgboost.tracker import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
        RabitTracker,
    )

    port = comm.port_reserve()
    comm.port_release(port)
    tracker = RabitTracker(n_workers=comm.size, host_ip=comm.hosts[0], port=port, sortby="task")
    tracker.start()
    thread = threading.Thread(target=_wait, args=(tracker,), daemon=True)
    thread.start()
    _served[:] = [served for served in _served if served.thread.is_alive()]
    _served.append(_Served(tracker, thread, weakref.ref(comm), kept))
    return int(tracker.worker_args()["dmlc_tracker_port"])


def _wait(tracker: Any) -> None:
    with contextlib.suppress(Exception):  # of a tracker that was ended
        tracker.wait_for()


def _end(former: list[_Served]) -> None:
    for served in former:
        with contextlib.suppress(Exception):  # workers failed, and the error was theirs
            served.tracker.free()
    _served[:] = [served for served in _served if served not in former]


@atexit.register
def _wait_for_other_ranks() -> None:
    """Keep the trackers until the other ranks have finalized, unless this rank has failed."""
    if hasattr(sys, "last_type"):
        return
    deadline = time.monotonic() + END_LIMIT
    for served in _served:
        if served.may_end():
            served.thread.join(max(0.0, deadline - time.monotonic()))
