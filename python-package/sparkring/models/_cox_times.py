# SPDX-License-Identifier: Apache-2.0
"""Times that arithmetic has made nearly equal become equal, as by ``timefix`` of R's survival.

The different times of all ranks are sorted, and each rank has an interval of them. Neighbors whose
distance is within a tolerance are a chain, which may extend over several ranks. All times of a
chain become its first time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparkring import _numerics as numerics
from sparkring._agree import agree
from sparkring._core import InvalidError
from sparkring.models._cox_records import divide

if TYPE_CHECKING:
    from sparkring._communicator import Communicator
    from sparkring.models._table import Array

WHOLE = 2.0**25  # whole numbers up to this one are too far from their neighbors


def fix(comm: Communicator, columns: dict[str, Array]) -> dict[str, Array]:
    """Return the columns of `_cox_records.columns_of` with equal times. Collective.

    Raises
    ------
    InvalidError
        On every rank, if nothing is left of an interval from start to stop.
    """
    names = [name for name in ("start", "stop") if name in columns]
    times = np.concatenate([columns[name] for name in names])
    is_near = (times % 1 != 0).any() or np.abs(times).max(initial=0) >= WHOLE
    if comm.allreduce(float(is_near), op="max") == 0:
        return columns
    known, places = np.unique(times, return_inverse=True)
    fixed = first_times(comm, known)[places.ravel()]
    found = {**columns, **dict(zip(names, np.split(fixed, len(names))))}

    def check() -> None:
        if "start" in found and (found["start"] >= found["stop"]).any():
            raise InvalidError(
                "an interval in y has no length: its start and stop differ by rounding alone; leave"
                " the row out, or pass timefix=False"
            )

    agree(comm, check)
    return found


def first_times(comm: Communicator, own: Array) -> Array:
    """Return the first time of the chain of each of these sorted, different times. Collective."""
    sends = divide(comm, own[:, None], 1)
    received, counts = comm.alltoallv(own, sends, return_counts=True)
    known, places = np.unique(received, return_inverse=True)
    count, total = comm.allreduce(np.array([len(known), numerics.cox_times_sum(known)]))
    mean = total / max(1.0, count)
    firsts = chains(known, mean)
    edge = np.zeros(4)
    if len(known):
        edge[:] = 1, known[0], known[-1], firsts[-1]
    edges = comm.allgather(edge)[: comm.rank + 1]
    firsts[firsts == known[:1]] = numerics.cox_chain_before(edges, mean)
    return comm.alltoallv(firsts[places.ravel()], counts)


def chains(known: Array, mean: float) -> Array:
    """Return the first time of the chain of each of the sorted times of one rank."""
    firsts = np.empty(len(known))
    numerics.cox_chains(known, mean, firsts)
    return firsts
