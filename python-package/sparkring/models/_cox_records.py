# SPDX-License-Identifier: Apache-2.0
"""Rows in the order of stratum and time, of which each rank has an interval.

A row with a start time has a second record, of sign -1, at its start: so the rows at risk at a time
are the records from that time on. Records of the same stratum and time are on the same rank, and
are a group. numerics/cox_records.h makes and sorts them, for R's coxph-records.R, too.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkring import _numerics as numerics
from sparkring._agree import agree
from sparkring._core import InvalidError
from sparkring.models import _alike as alike
from sparkring.models._doubles import doubles
from sparkring.models._moments import summed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._communicator import Communicator
    from sparkring.models._rows import Rows
    from sparkring.models._table import Array

FIELDS = ("stratum", "time", "sign", "event", "weight", "offset", "cluster")
PROPOSALS = 256  # records of a rank that propose the intervals
MOST = 2**30  # rows of a rank, which have one or two records


class Records(NamedTuple):
    """The records of this rank.

    Attributes
    ----------
    all : array
        A record in each row: `FIELDS`, and the features around ``means``, divided by ``scale``.
    width, groups : int
        The number of features, and of groups with events.
    means, scale : array
        The means of the features over all ranks, and the mean distances from them; 0 and 1 for
        columns of -1, 0 and 1.
    rows, events : int
        Rows with a weight, and events among them, of all ranks.
    """

    comm: Communicator
    all: Array
    width: int
    groups: int
    means: Array
    scale: Array
    rows: int
    events: int

    def field(self, name: str) -> Array:
        """Return a field of each record."""
        return self.all[:, FIELDS.index(name)]

    def carried(self, edge: Array, back: bool) -> Array:
        """Return the sums of the ranks beyond that belong to the stratum at this side. Collective.

        ``edge`` has the strata at the other side and at this side, and the sums at the other side.
        """
        found = np.zeros(len(edge) - 2)
        if self.comm.size > 1:
            numerics.cox_carry(self.comm.allgather(edge), self.comm.rank, back, found)
        return found


def make(rows: Rows, columns: dict[str, Array]) -> Records:
    """Send the rows of all ranks to their places. Collective.

    ``columns`` has `FIELDS` without the sign, ``x`` and perhaps ``start``.
    """
    comm, count = rows.comm, len(columns["stop"])
    x = np.ascontiguousarray(columns["x"])
    means, scale = centering(comm, columns, x)
    counts = comm.allreduce(np.array([count, columns["event"].sum()]))
    parts = [columns["stratum"], columns["stop"], np.ones(count), columns["event"]]
    fields = np.stack([*parts, columns["weight"], columns["offset"], columns["cluster"]])
    if "start" in columns:
        entry = np.array(fields)
        entry[1], entry[2], entry[3] = columns["start"], -1, 0
        fields = np.concatenate([fields, entry], axis=1)
    packed = np.empty((fields.shape[1], numerics.cox_size(rows.width)))
    numerics.cox_pack(fields, x, means, scale, packed)
    if comm.size > 1:
        received = comm.alltoallv(packed, divide(comm, packed, 2))
        packed = np.empty_like(received)
        numerics.cox_sort(received, 2, packed)
    groups = numerics.cox_groups(packed, rows.width)
    return Records(comm, packed, rows.width, groups, means, scale, int(counts[0]), int(counts[1]))


def centering(comm: Communicator, columns: dict[str, Array], x: Array) -> tuple[Array, Array]:
    """Return the means of the features, as survival has them, and their scale. Collective.

    Means of rows with start times have no weights. The scale is the mean distance from the mean.
    Columns of -1, 0 and 1 have the mean 0 and the scale 1.
    """
    weights = None if "start" in columns else columns["weight"]
    plain = comm.allreduce((~np.isin(x, (-1, 0, 1)).all(axis=0)).astype(np.float64)) == 0
    found = summed(comm, x, weights)
    means = np.where(plain, 0.0, found.mean)
    distances = np.empty(x.shape[1])
    numerics.cox_distances(x, weights, means, distances)
    with np.errstate(all="ignore"):
        scale = comm.allreduce(distances) / found.weight
    return means, np.where(~plain & (scale > 0), scale, 1.0)


def divide(comm: Communicator, keys: Array, numbers: int) -> NDArray[np.int64]:
    """Return how many of the sorted rows belong to each rank, by their first numbers. Collective.

    The intervals have nearly equal sizes.
    """
    own, counts = np.empty((PROPOSALS, 3)), np.empty(comm.size)
    proposals = comm.allgatherv(own[: numerics.cox_propose(keys, numbers, own)])
    ordered = np.empty_like(proposals)
    numerics.cox_sort(proposals, 2, ordered)
    numerics.cox_divide(keys, numbers, ordered, counts)
    return counts.astype(np.int64)


def columns_of(rows: Rows) -> tuple[dict[str, Array], list[Any]]:
    """Read the rows of this rank with a weight, and the strata of all ranks. Collective.

    Strata and clusters are numbered.

    Raises
    ------
    InvalidError
        For responses that are no times, statuses other than 0 and 1, and several columns of
        clusters.
    """
    if rows.streamed:
        raise InvalidError("CoxPH sorts its rows: pass an array or a table, and not batches")
    comm = rows.comm
    rows.count()
    found = agree(comm, lambda: own_columns(rows))
    sample = rows.sample()
    has_rows = sample is not None
    shape = None if sample is None else sample.roles["y"].shape[1:]
    alike.join(comm, "columns of y", None if shape is None else int(np.prod(shape)))
    strata: list[Any] = []
    found["stratum"] = np.zeros(len(found["stop"]))
    if "strata" in rows.roles:
        found["stratum"], strata = numbered(comm, "strata", found.pop("strata"), has_rows)
    before = float(comm.exscan(np.array([len(found["stop"])], np.float64))[0])
    if "cluster" in rows.roles:
        found["cluster"], _ = numbered(comm, "cluster", found["cluster"], has_rows)
    else:
        found["cluster"] = before + np.arange(len(found["stop"]))
    return found, strata


def numbered(comm: Communicator, role: str, values: Any, has_rows: bool) -> tuple[Array, list[Any]]:
    """Return numbers for the sorted distinct values of all ranks, and the values. Collective."""
    count = values.shape[1] if values.ndim == 2 else 1
    count = alike.join(comm, f"columns of {role}", count if has_rows else None)
    columns = values.reshape(len(values), count)
    codes, known = np.zeros(len(columns), np.int64), []
    for column in columns.T:
        counts = agree(comm, functools.partial(alike.counts_of, column, role))
        known.append(alike.distinct(comm, list(counts)))
        places = {value: place for place, value in enumerate(known[-1])}
        codes = codes * len(places) + np.array([places[v] for v in column.tolist()], np.int64)
    present = alike.distinct(comm, np.unique(codes).tolist())
    numbers = np.searchsorted(present, codes).astype(np.float64)
    if count == 1:
        return numbers, known[0]
    shape = tuple(map(len, known))
    rows = zip(*np.unravel_index(np.array(present, np.int64), shape))
    return numbers, [[column[at] for column, at in zip(known, row)] for row in rows]


def own_columns(rows: Rows) -> dict[str, Any]:
    """Read times, status, weights and features."""
    parts: list[dict[str, Any]] = []
    for block in rows.blocks():
        y = doubles(block.roles["y"], "y")
        if y.ndim == 1:
            y = with_events(y)
        if y.ndim != 2 or y.shape[1] not in (2, 3):
            raise InvalidError(
                f"y has shape {y.shape}: pass columns of time and status, or of start, stop and"
                " status, or times that all are events"
            )
        check_times(y)
        used = block.weight > 0
        part = {
            "x": block.x[used],
            "stop": y[used, -2],
            "event": y[used, -1],
            "weight": block.weight[used],
            "offset": block.numbers("offset")[used],
        }
        if y.shape[1] == 3:
            part["start"] = y[used, 0]
        for role in ("strata", "cluster"):
            if role in block.roles:
                part[role] = block.roles[role][used]
                if role == "cluster":
                    part[role] = one_column(part[role], role)
        parts.append(part)
    if sum(len(part["stop"]) for part in parts) > MOST:
        raise InvalidError(f"CoxPH sorts up to {MOST} rows on a rank: pass more ranks")
    if parts:
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    found: dict[str, Any] = {name: np.zeros(0) for name in ("stop", "event", "weight", "offset")}
    found["x"] = np.zeros((0, rows.width))
    found.update({role: np.zeros(0) for role in ("strata", "cluster") if role in rows.roles})
    return found


def with_events(times: Any) -> Array:
    """Return columns of times and of statuses of 1."""
    return np.column_stack([times, np.ones(len(times))])


def one_column(values: NDArray[Any], role: str) -> NDArray[Any]:
    """Refuse several columns."""
    if values.ndim != 1:
        raise InvalidError(
            f"{role} has shape {values.shape}: pass one value for each row, as of a column that"
            " joins the others"
        )
    return values


def check_times(y: Array) -> None:
    """Refuse times that are not finite or not in order, and statuses other than 0 and 1."""
    if not np.isfinite(y).all():
        raise InvalidError("y has values that are NaN or infinite: leave out these rows")
    if not np.isin(y[:, -1], (0, 1)).all():
        raise InvalidError("the status in y must be 1 for an event, and 0 otherwise")
    if y.shape[1] == 3 and not (y[:, 0] < y[:, 1]).all():
        raise InvalidError("y has rows whose start is not before their stop")
