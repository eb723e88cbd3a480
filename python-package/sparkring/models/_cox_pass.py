# SPDX-License-Identifier: Apache-2.0
"""The partial likelihood of records at some coefficients, with its derivatives and residuals.

Efron's treatment of ``d`` events at one time takes the fraction ``l / d`` of these rows from the
rows at risk, in step ``l``. R's coxph-records.R does the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring.models._cox_records import Records
    from sparkring.models._table import Array


class Groups(NamedTuple):
    """Groups with events.

    Attributes
    ----------
    places : array
        Their numbers.
    s1, d1 : array of shape (groups, features)
        The risk times the features, summed over the rows at risk, and over the events.
    hazard, tied, log : array
        Sums over the steps: of the hazard, of the hazard times the fraction, and of the logarithm
        of the denominator.
    c0, c1, c2 : array
        Sums over the steps of the squared denominators, times powers of the fraction.
    mean, steps : array
        The weight of the events in a step, and the number of steps.
    """

    places: NDArray[np.int64]
    s1: Array
    d1: Array
    hazard: Array
    tied: Array
    log: Array
    c0: Array
    c1: Array
    c2: Array
    mean: Array
    steps: NDArray[Any]


class Pass(NamedTuple):
    """The log likelihood of all ranks, its derivatives, and the groups of this rank."""

    loglik: float
    score: Array
    information: Array
    groups: Groups
    residuals: Array | None


def look(records: Records, beta: Array, efron: bool, residuals: bool = False) -> Pass:
    """Make a pass. Collective."""
    x, event = records.x, records.event
    width = x.shape[1]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        eta = x @ beta
        hazard = np.exp(eta)
        risk = records.weight * hazard
        signed = records.sign * risk
        at_risk = records.cumulate(np.column_stack([signed, signed[:, None] * x]), True)
        groups = groups_of(records, at_risk, risk, efron)
        hazards = np.zeros((len(x), 1))
        hazards[records.first[groups.places], 0] = groups.hazard
        hazards = records.cumulate(hazards, False)[:, 0]
        tied = np.zeros(len(records.first))
        tied[groups.places] = groups.tied
        tied = np.where(event, tied[records.group], 0.0)
        dead = event * records.weight
        s1, d1, c1 = groups.s1, groups.d1, groups.c1[:, None]
        means = s1.T @ (groups.c0[:, None] * s1 - c1 * d1)
        means += d1.T @ (groups.c2[:, None] * d1 - c1 * s1)
        squares = x.T @ ((signed * hazards - risk * tied)[:, None] * x) - means
        score = dead @ x - (groups.hazard @ s1 - groups.tied @ d1)
        own = np.concatenate([[dead @ eta - groups.log.sum()], score, squares.ravel()])
        total = records.comm.allreduce(own)
        found = residuals_of(records, groups, hazard, hazards, tied) if residuals else None
    information = total[1 + width :].reshape(width, width)
    return Pass(float(total[0]), total[1 : 1 + width], information, groups, found)


def groups_of(records: Records, at_risk: Array, risk: Array, efron: bool) -> Groups:
    """Sum over the steps of each group."""
    places = np.flatnonzero(records.deaths > 0)
    event = np.flatnonzero(records.event)
    sums = np.zeros((len(records.first), at_risk.shape[1]))
    joined = np.column_stack([risk, risk[:, None] * records.x])
    np.add.at(sums, records.group[event], joined[event])
    sums = sums[places]
    at_risk = at_risk[records.first[places]]
    deaths, died = records.deaths[places], records.died[places]
    steps = deaths if efron else np.minimum(deaths, 1)
    mean = died / deaths if efron else died
    found = np.zeros((6, len(places)))
    for step in range(int(steps.max(initial=0))):
        at = np.flatnonzero(steps > step)
        share = step / deaths[at] if efron else np.zeros(len(at))
        denominator = at_risk[at, 0] - share * sums[at, 0]
        hazard = mean[at] / denominator
        squared = hazard / denominator
        found[:, at] += [
            hazard,
            share * hazard,
            mean[at] * np.log(denominator),
            squared,
            share * squared,
            share**2 * squared,
        ]
    names = ("hazard", "tied", "log", "c0", "c1", "c2")
    return Groups(
        places, at_risk[:, 1:], sums[:, 1:], mean=mean, steps=steps, **dict(zip(names, found))
    )


def residuals_of(
    records: Records, groups: Groups, hazard: Array, hazards: Array, tied: Array
) -> Array:
    """Return the score residuals of the records, without weights. Collective."""
    x = records.x
    c0, c1, c2 = groups.c0[:, None], groups.c1[:, None], groups.c2[:, None]
    moved = np.zeros_like(x)
    moved[records.first[groups.places]] = c0 * groups.s1 - c1 * groups.d1
    moved = records.cumulate(moved, False)
    found = -(records.sign * hazard)[:, None] * (x * hazards[:, None] - moved)
    event = np.flatnonzero(records.event)
    of = np.searchsorted(groups.places, records.group[event])
    whole = (groups.mean * groups.steps)[:, None]
    means = (groups.hazard[:, None] * groups.s1 - groups.tied[:, None] * groups.d1) / whole
    shared = c1 * groups.s1 - c2 * groups.d1
    found[event] += x[event] - means[of]
    found[event] += hazard[event, None] * (x[event] * tied[event, None] - shared[of])
    return found
