# SPDX-License-Identifier: Apache-2.0
"""Newton's iterations to the largest partial likelihood, by numerics/cox_newton.h.

Every rank computes the same steps from what all ranks have added up.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkring import _numerics as numerics
from sparkring.models._cox_pass import look
from sparkring.models._sklearn import warn_of_convergence

if TYPE_CHECKING:
    from sparkring.models._cox_pass import Pass
    from sparkring.models._cox_records import Records
    from sparkring.models._rows import Rows
    from sparkring.models._table import Array

DEPENDENT = float(np.finfo(float).eps ** 0.75)  # of the largest information


class Step(NamedTuple):
    """Newton's step and the variance, which are 0 for columns that are not kept.

    ``test`` is the score statistic.
    """

    test: float
    kept: Any
    step: Array
    variance: Array


class Fit(NamedTuple):
    """The end of the iterations, with coefficients of the scaled features."""

    beta: Array
    now: Pass
    step: Step
    iterations: int
    converged: bool
    test: float


def iterate(records: Records, now: Pass, efron: bool, max_iter: int, tol: float) -> Fit:
    """Iterate from 0, as ``coxph()`` in R. Collective."""
    beta = np.zeros(records.width)
    first = step = step_of(now, None)
    direction = step.step
    converged = max_iter == 0
    iteration = 0
    while not converged and iteration < max_iter:
        iteration += 1
        new = look(records, beta + direction, efron)
        change = numerics.cox_change(now.loglik, new.loglik)
        if not np.isfinite(new.loglik) or (new.loglik < now.loglik and change > tol):
            direction = direction / 2
            continue
        beta, now = beta + direction, new
        step = step_of(now, first.kept)
        direction = step.step
        converged = change <= tol
    return Fit(beta, now, step, iteration, converged, first.test)


def step_of(now: Pass, known: Any) -> Step:
    """Return the step. ``known`` are the columns of the first step, or None for that step."""
    width = len(now.score)
    kept = np.ones(width, np.int32) if known is None else known.astype(np.int32)
    step, variance = np.empty(width), np.empty((width, width))
    test = numerics.cox_step(now.sums, known is None, DEPENDENT, kept, step, variance)
    return Step(test, kept > 0, step, variance)


def warn_of_infinite(fit: Fit, rows: Rows, tol: float) -> None:
    """Warn of coefficients that still grow while the likelihood has converged, as R does."""
    step, size = np.abs(fit.step.step), np.abs(fit.beta)
    lost = ~fit.step.kept & (size > 0)
    grows = lost | ~np.isfinite(fit.now.score) | ((step > tol) & (step > math.sqrt(tol) * size))
    if grows.any():
        names = rows.names or [f"x{place}" for place in range(rows.width)]
        listed = ", ".join(str(names[at]) for at in np.flatnonzero(grows))
        warn_of_convergence(
            f"CoxPH: the likelihood converged before the coefficients of {listed}, which may be"
            " infinite"
        )
