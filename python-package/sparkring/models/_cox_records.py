# SPDX-License-Identifier: Apache-2.0
"""Rows in the order of stratum and time, of which each rank has an interval.

A row with a start time has a second record, of sign -1, at its start: so the rows at risk at a time
are the records from that time on. Records of the same stratum and time are on the same rank, and
are a group. R's coxph-records.R does the same.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkring._agree import agree
from sparkring._core import InvalidError
from sparkring.models import _alike as alike
from sparkring.models._doubles import doubles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._core import Communicator
    from sparkring.models._rows import Rows
    from sparkring.models._table import Array

COLUMNS = ("stratum", "time", "sign", "event", "weight", "cluster")
SAMPLES = 256  # records of a rank that propose the intervals


class Records(NamedTuple):
    """The records of this rank.

    Attributes
    ----------
    stratum, time, sign, event, weight, cluster : array
        A number for each record; ``event`` is a mask.
    x : array of shape (records, features)
        The features around ``means``, divided by ``scale``.
    group, first : array
        The number of the group of each record, and the first record of each group.
    deaths, died : array
        The number of events of each group, and their weight.
    segments : list of slice
        The records of each stratum.
    means, scale : array
        The means of the features over all ranks, and the mean distances from them; 0 and 1 for
        columns of -1, 0 and 1.
    rows, events : int
        Rows with a weight, and events among them, of all ranks.
    """

    comm: Communicator
    stratum: Array
    time: Array
    sign: Array
    event: NDArray[np.bool_]
    weight: Array
    cluster: Array
    x: Array
    group: NDArray[np.int64]
    first: NDArray[np.int64]
    deaths: NDArray[np.int64]
    died: NDArray[Any]
    segments: list[slice]
    means: Array
    scale: Array
    rows: int
    events: int

    def cumulate(self, x: Array, backward: bool) -> Array:
        """Return cumulative sums of columns within each stratum, from the end if ``backward``.

        Collective: the sums of the other ranks that have parts of a stratum are added.
        """
        x = np.array(x)
        for part in self.segments:
            if backward:
                x[part] = np.cumsum(x[part][::-1], axis=0)[::-1]
            else:
                x[part] = np.cumsum(x[part], axis=0)
        # The strata at the edges of this rank, the near edge first, and the sums there.
        own = np.full(x.shape[1] + 2, -1.0)
        near, far = (0, -1) if backward else (-1, 0)
        if len(x):
            own = np.concatenate([[self.stratum[near], self.stratum[far]], x[near]])
        everything = self.comm.allgather(own)
        if len(x) == 0:
            return x
        me = self.comm.rank
        beyond = everything[me + 1 :] if backward else everything[:me][::-1]
        part = self.segments[-1 if backward else 0]
        x[part] += carried(beyond, float(self.stratum[far]))
        return x


def carried(beyond: Array, stratum: float) -> Array:
    """Return the sums of the ranks beyond that belong to the stratum, the nearest rank first.

    Each rank has the strata at its near and far edge, and the sums at its near edge. Ranks without
    records have -1.
    """
    total = np.zeros(beyond.shape[1] - 2)
    for near, far, *sums in beyond[beyond[:, 0] != -1]:
        if near != stratum:
            break
        total += sums
        if far != stratum:
            break
    return total


def make(rows: Rows, columns: dict[str, Array]) -> Records:
    """Send the rows of all ranks to their places. Collective.

    ``columns`` has the columns of `COLUMNS` without the sign, ``x`` and perhaps ``start``.
    """
    comm = rows.comm
    means, scale = centering(comm, columns)
    counts = comm.allreduce(np.array([len(columns["stop"]), columns["event"].sum()]))
    parts = [columns["stratum"], columns["stop"], np.ones(len(columns["stop"]))]
    parts += [columns["event"], columns["weight"], columns["cluster"]]
    packed = np.column_stack([*parts, (columns["x"] - means) / scale])
    if "start" in columns:
        entry = np.array(packed)
        entry[:, 1], entry[:, 2], entry[:, 3] = columns["start"], -1, 0
        packed = np.concatenate([packed, entry])
    packed = packed[np.lexsort((packed[:, 1], packed[:, 0]))]
    owner = owners(comm, packed[:, :2])
    packed = comm.alltoallv(packed, np.bincount(owner, minlength=comm.size))
    packed = packed[np.lexsort((packed[:, 1], packed[:, 0]))]
    return unpack(comm, packed, means, scale, counts)


def centering(comm: Communicator, columns: dict[str, Array]) -> tuple[Array, Array]:
    """Return the means of the features, as survival has them, and their scale. Collective.

    Means of rows with start times have no weights. The mean of a constant column is its value, so
    nothing of the column is left. The scale is the mean distance from the mean. Columns of -1, 0
    and 1 have the mean 0 and the scale 1.
    """
    x = columns["x"]
    weight = np.ones(len(x)) if "start" in columns else columns["weight"]
    other = ~np.isin(x, (-1, 0, 1)).all(axis=0)
    ends = [x.max(axis=0, initial=-np.inf), -x.min(axis=0, initial=np.inf), other]
    high, low, other = comm.allreduce(np.stack(ends), op="max") * [[1], [-1], [1]]
    sums = comm.allreduce(np.append(weight @ x, weight.sum()))
    means = np.where(other, np.where(high == low, high, sums[:-1] / sums[-1]), 0.0)
    distances = comm.allreduce(weight @ np.abs(x - means)) / sums[-1]
    return means, np.where((other > 0) & (distances > 0), distances, 1.0)


def owners(comm: Communicator, keys: Array) -> NDArray[np.int64]:
    """Return the rank of each record: intervals of nearly equal sizes. Collective.

    Each rank proposes records at equal distances; each proposal stands for as many records as lie
    between two of them.
    """
    count = min(SAMPLES, len(keys))
    at = np.linspace(0, max(0, len(keys) - 1), count).astype(np.int64)
    weights = np.full((count, 1), len(keys) / max(1, count))
    proposals = comm.allgatherv(np.concatenate([keys[at], weights], axis=1))
    proposals = proposals[np.lexsort((proposals[:, 1], proposals[:, 0]))]
    ends = np.cumsum(proposals[:, 2])
    shares = np.arange(1, comm.size) / comm.size * (ends[-1] if len(ends) else 0)
    cuts = proposals[np.minimum(np.searchsorted(ends, shares), len(ends) - 1)][:, :2]
    owner = np.zeros(len(keys), np.int64)
    for stratum, time in cuts:
        owner += (keys[:, 0] > stratum) | ((keys[:, 0] == stratum) & (keys[:, 1] > time))
    return owner


def unpack(comm: Communicator, packed: Array, means: Array, scale: Array, counts: Array) -> Records:
    """Find the groups and segments of sorted records."""
    stratum, time = packed[:, 0], packed[:, 1]
    count = len(packed)
    new_stratum = np.append(True, stratum[1:] != stratum[:-1])[:count]
    new_group = new_stratum | np.append(True, time[1:] != time[:-1])[:count]
    first = np.flatnonzero(new_group)
    group = np.cumsum(new_group) - 1
    edges = [*np.flatnonzero(new_stratum).tolist(), count]
    event, weight = packed[:, 3] > 0, packed[:, 4]
    return Records(
        comm=comm,
        stratum=stratum,
        time=time,
        sign=packed[:, 2],
        event=event,
        weight=weight,
        cluster=packed[:, 5],
        x=packed[:, 6:],
        group=group,
        first=first,
        deaths=np.bincount(group[event], minlength=len(first)),
        died=np.bincount(group[event], weight[event], len(first)).astype(np.float64),
        segments=[slice(a, b) for a, b in zip(edges[:-1], edges[1:])],
        means=means,
        scale=scale,
        rows=int(counts[0]),
        events=int(counts[1]),
    )


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
        }
        if y.shape[1] == 3:
            part["start"] = y[used, 0]
        for role in ("strata", "cluster"):
            if role in block.roles:
                part[role] = block.roles[role][used]
                if role == "cluster":
                    part[role] = one_column(part[role], role)
        parts.append(part)
    if parts:
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    found: dict[str, Any] = {name: np.zeros(0) for name in ("stop", "event", "weight")}
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
