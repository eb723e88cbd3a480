# SPDX-License-Identifier: Apache-2.0
"""Newton's iterations to the largest partial likelihood, on rank 0 with what all ranks add up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkring.models._cox_pass import look
from sparkring.models._sklearn import warn_of_convergence
from sparkring.models._tsqr import lead

if TYPE_CHECKING:
    from sparkring.models._cox_pass import Pass
    from sparkring.models._cox_records import Records
    from sparkring.models._rows import Rows
    from sparkring.models._table import Array

DEPENDENT = float(np.finfo(float).eps ** 0.75)  # of the largest information
NOISE = 1e-13  # of the weight of the events


class Fit(NamedTuple):
    """The end of the iterations, with coefficients of the scaled features."""

    beta: Array
    now: Pass
    step: dict[str, Any]
    iterations: int
    converged: bool


def iterate(records: Records, now: Pass, efron: bool, max_iter: int, tol: float) -> Fit:
    """Iterate from 0, as ``coxph()`` in R. Collective."""
    beta = np.zeros(records.x.shape[1])
    events = float(records.comm.allreduce(records.died.sum()))
    step = step_of(records, now, events, None)
    direction = step["step"]
    converged = max_iter == 0
    iteration = 0
    while not converged and iteration < max_iter:
        iteration += 1
        new = look(records, beta + direction, efron)
        # A likelihood of 0, of strata of one row each or separated rows, has no ratio.
        gap = abs(new.loglik - now.loglik)
        change = 0.0 if gap == 0 else gap / abs(new.loglik) if new.loglik != 0 else np.inf
        if not np.isfinite(new.loglik) or (new.loglik < now.loglik and change > tol):
            direction = direction / 2
            continue
        beta, now = beta + direction, new
        step = step_of(records, now, events, step["kept"])
        direction = step["step"]
        converged = change <= tol
    return Fit(beta, now, step, iteration, converged)


def step_of(records: Records, now: Pass, events: float, kept: Array | None) -> dict[str, Any]:
    """Return Newton's step and the variance, in which dependent columns are 0. Collective.

    ``events`` is the weight of all events: scaled features have information of that size at first.
    ``kept`` are the columns of the step before.
    """

    def solve() -> dict[str, Any]:
        used = independent(now.information, NOISE * events if kept is None else 0.0)
        if kept is not None:
            used &= kept > 0
        variance = np.zeros_like(now.information)
        variance[np.ix_(used, used)] = inverse(now.information[np.ix_(used, used)])
        return {"kept": used, "variance": variance, "step": variance @ now.score}

    return lead(records.comm, solve)


def independent(information: Array, noise: float = 0.0) -> Any:
    """Find columns that do not depend on columns before them, as coxph() of R.

    The tolerance is a part of the largest information, so a column without information is
    dependent, too. Less than ``noise`` is no information.
    """
    rest = np.array(information)
    least = max(noise, DEPENDENT * np.diag(rest).max(initial=0))
    used = np.zeros(len(rest), bool)
    for column in range(len(rest)):
        pivot = rest[column, column]
        if not pivot > least:
            continue
        used[column] = True
        rest = rest - np.outer(rest[:, column], rest[column]) / pivot
    return used


def inverse(matrix: Array) -> Array:
    """Invert a positive matrix, scaled to a diagonal of ones."""
    scale = np.sqrt(np.diag(matrix))
    found: Array = np.linalg.inv(matrix / np.outer(scale, scale)) / np.outer(scale, scale)
    return found


def warn_of_infinite(fit: Fit, rows: Rows, tol: float) -> None:
    """Warn of coefficients that still grow while the likelihood has converged, as R does."""
    step, size = np.abs(fit.step["step"]), np.abs(fit.beta)
    lost = (fit.step["kept"] == 0) & (size > 0)
    grows = lost | ~np.isfinite(fit.now.score) | ((step > tol) & (step > math.sqrt(tol) * size))
    if grows.any():
        names = rows.names or [f"x{place}" for place in range(rows.width)]
        listed = ", ".join(str(names[at]) for at in np.flatnonzero(grows))
        warn_of_convergence(
            f"CoxPH: the likelihood converged before the coefficients of {listed}, which may be"
            " infinite"
        )
