# SPDX-License-Identifier: Apache-2.0
"""Times that arithmetic has made nearly equal become equal, as by ``timefix`` of R's survival.

The different times of all ranks are sorted, and each rank has an interval of them. Neighbors whose
distance is within a tolerance are a chain, which may extend over several ranks. All times of a
chain become its first time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._agree import agree
from sparkring._core import InvalidError
from sparkring.models._cox_records import owners

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._core import Communicator
    from sparkring.models._table import Array

TOLERANCE = float(np.sqrt(np.finfo(float).eps))


def fix(comm: Communicator, columns: dict[str, Array]) -> dict[str, Array]:
    """Return the columns of `_cox_records.columns_of` with equal times. Collective.

    Raises
    ------
    InvalidError
        On every rank, if nothing is left of an interval from start to stop.
    """
    names = [name for name in ("start", "stop") if name in columns]
    times = np.concatenate([columns[name] for name in names])
    # Neighbors of whole numbers are too far from each other.
    is_near = (times % 1 != 0).any() or np.abs(times).max(initial=0) >= 0.5 / TOLERANCE
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
    owner = owners(comm, np.column_stack([np.zeros(len(own)), own]))
    sends = np.bincount(owner, minlength=comm.size)
    received, counts = comm.alltoallv(own, sends, return_counts=True)
    known, places = np.unique(received, return_inverse=True)
    count, total = comm.allreduce(np.array([len(known), np.abs(known).sum()]))
    mean = total / max(1.0, count)
    firsts = chains(known, mean)
    edge = np.zeros(4)
    if len(known):
        edge[:] = 1, known[0], known[-1], firsts[-1]
    before = first_before(comm.allgather(edge)[: comm.rank + 1], mean)
    firsts[firsts == known[:1]] = before
    return comm.alltoallv(firsts[places.ravel()], counts)


def chains(known: Array, mean: float) -> Array:
    """Return the first time of the chain of each of the sorted times of one rank."""
    begins = np.append(True, ~are_near(np.diff(known), mean))[: len(known)]
    found: Array = known[begins][np.cumsum(begins) - 1]
    return found


def are_near(gaps: Any, mean: float) -> NDArray[np.bool_]:
    """Return whether times at these distances count as equal; ``mean`` is that of all times."""
    return np.asarray(gaps <= TOLERANCE * max(1.0, mean))


def first_before(edges: Array, mean: float) -> float:
    """Return the first time of the chain of the first time of the last rank.

    ``edges`` has a row for each rank up to that rank: 1 for a rank with times, its first and last
    time, and the first time of the chain of its last time.
    """
    last, begin = -np.inf, 0.0
    for has_times, first, final, of_final in edges:
        if not has_times:
            continue
        start = begin if are_near(first - last, mean) else first
        begin, last = (start if of_final == first else of_final), final
    return float(start) if len(edges) and edges[-1, 0] else 0.0
