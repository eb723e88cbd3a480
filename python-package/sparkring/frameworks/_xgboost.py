# SPDX-License-Identifier: Apache-2.0
"""XGBoost: its tracker, through which the workers find each other.

The tracker cannot bind a reserved port. So the tracker runs before other ranks receive its port.
The port is reserved first only to get a port of the right range. The tracker lives as long as the
communicator.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from sparkring._core import Communicator
from sparkring._method import method
from sparkring.frameworks._exchange import communicator, of_root

if TYPE_CHECKING:
    from sparkring.frameworks._exchange import Ring

_trackers: weakref.WeakKeyDictionary[Communicator, Any] = weakref.WeakKeyDictionary()


@method
def xgboost_config(comm: Ring = None, /) -> dict[str, Any]:
    """Start XGBoost's tracker on rank 0 and return the arguments of ``CommunicatorContext``.

    Collective. XGBoost's ranks become those of the communicator. Rank 0 keeps the tracker until the
    communicator is collected; training that still runs then fails. Another call replaces the
    tracker.

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
        former = _trackers.get(ring)
        port = of_root(ring, lambda: _start_tracker(ring))
        del former  # no rank trains with it any more: every rank has called this function
        return {
            "dmlc_tracker_uri": ring.hosts[0],
            "dmlc_tracker_port": port,
            "dmlc_task_id": f"{ring.rank:08d}",  # sorted as strings
        }


def _start_tracker(comm: Communicator) -> int:
    from xgboost.tracker import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
        RabitTracker,
    )

    port = comm.port_reserve()
    comm.port_release(port)
    tracker = RabitTracker(n_workers=comm.size, host_ip=comm.hosts[0], port=port, sortby="task")
    tracker.start()
    _trackers[comm] = tracker
    return int(tracker.worker_args()["dmlc_tracker_port"])
