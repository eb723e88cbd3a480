# SPDX-License-Identifier: Apache-2.0
"""Passes over the records of all ranks, by numerics/cox.h.

Ranks have intervals of the times, so the rows at risk at a time, and the hazard up to it, are those
of this rank and of the ranks beyond. R's coxph-pass.R does the same.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sparkring import _numerics as numerics

if TYPE_CHECKING:
    from sparkring.models._cox_records import Records
    from sparkring.models._table import Array

HAZARD = 5  # the column of rows of groups that has the hazard; the first two: record and stratum


class Pass(NamedTuple):
    """The likelihood of all ranks and its derivatives, and the groups of this rank.

    Attributes
    ----------
    sums : array
        The log likelihood, the weight of the events, the score, and the information.
    rows : array
        A row for each group with events, as in numerics/cox.h.
    risks, state, carried : array
        What numerics/cox.h keeps of the pass, and the sums of ranks with earlier times.
    """

    sums: Array
    rows: Array
    risks: Array
    state: Array
    carried: Array

    @property
    def loglik(self) -> float:
        """The log likelihood."""
        return float(self.sums[0])

    @property
    def score(self) -> Array:
        """The derivatives by the coefficients."""
        width = math.isqrt(len(self.sums) - 2)  # 2 + width + width**2
        return self.sums[2 : 2 + width]


def look(records: Records, beta: Array, efron: bool, details: bool = False) -> Pass:
    """Make a pass, with details for residuals. Collective."""
    width = records.width
    risks, state = np.empty(len(records.all)), np.zeros(numerics.cox_state(width))
    rows = np.empty((records.groups, numerics.cox_row(width, details)))
    of_pass = (records.all, width, efron, details, risks, rows, state)

    def beyond(size: int, back: bool) -> Array:
        edge = np.empty(2 + size)
        if records.comm.size > 1:
            numerics.cox_edge(*of_pass, back, edge)
        return records.carried(edge, back)

    numerics.cox_risks(*of_pass, beta)
    numerics.cox_back(*of_pass, beyond(1 + width, True))
    carried = beyond(1 + width if details else 1, False)
    sums = np.empty(2 + width + width**2)
    numerics.cox_forward(*of_pass, carried, sums)
    return Pass(records.comm.allreduce(sums), rows, risks, state, carried)


def influence(records: Records, beta: Array, efron: bool, variance: Array) -> Array:
    """Return the sum of the squared influences of the rows or clusters. Collective.

    A cluster may have rows on many ranks, so its sum goes to one rank.
    """
    comm, width = records.comm, records.width
    found = look(records, beta, efron, details=True)
    residuals = np.empty((len(records.all), 1 + width))
    of_pass = (records.all, width, efron, True, found.risks, found.rows, found.state)
    numerics.cox_residuals(*of_pass, found.carried, residuals)
    own = by_cluster(residuals)
    owner = own[:, 0].astype(np.int64) % comm.size
    counts = np.bincount(owner, minlength=comm.size)
    received = comm.alltoallv(own[np.argsort(owner, kind="stable")], counts)
    sums = np.empty(width + width**2)
    numerics.cox_influence(by_cluster(received), variance, sums)
    squares: Array = comm.allreduce(sums)[width:]
    return squares.reshape(width, width)


def by_cluster(rows: Array) -> Array:
    """Sum the rows of each cluster, the number of which is in the first column."""
    ordered, found = np.empty_like(rows), np.empty_like(rows)
    numerics.cox_sort(rows, 1, ordered)
    return found[: numerics.cox_clusters(ordered, found)]
