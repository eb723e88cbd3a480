# SPDX-License-Identifier: Apache-2.0
"""Iteratively reweighted least squares on the rows of all ranks.

A pass at some coefficients has the deviance and the triangle of the weighted rows of the next step,
so each iteration is one pass. Rank 0 solves the step. Starting values and the rule of convergence
are those of ``glm()`` in R, so the results have its digits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkring import _numerics as numerics
from sparkring._core import InvalidError
from sparkring.models import _tsqr as tsqr
from sparkring.models._tsqr import lead

if TYPE_CHECKING:
    from sparkring.models._family import Family
    from sparkring.models._rows import Block, Rows
    from sparkring.models._table import Array


class Pass(NamedTuple):
    """A pass at some coefficients.

    Attributes
    ----------
    deviance : float
        Of all ranks; infinite where a mean is impossible.
    triangle : array or None
        R of the weighted columns and the working response, on rank 0.
    """

    deviance: float
    triangle: Array | None


class ExactSum:
    """A sum that keeps what is rounded off, so it does not depend on the sizes of blocks."""

    def __init__(self) -> None:
        self.state = np.zeros(2)

    def add(self, numbers: Array) -> None:
        """Add numbers."""
        numerics.glm_add(self.state, np.ascontiguousarray(numbers))

    @property
    def value(self) -> float:
        """The sum."""
        return numerics.glm_total(self.state)


class State(NamedTuple):
    """Rows with a weight, at some coefficients."""

    x: Array
    y: Array
    weight: Array
    offset: Array
    eta: Array
    mu: Array


class Problem:
    """Rows, with a family and the columns of a model.

    Attributes
    ----------
    rows : Rows
        The rows.
    family : Family
        The family with its link.
    intercept : bool
        Whether the first column is one of ones.
    features : int
        The number of features that are columns, the first ones.
    """

    def __init__(
        self, rows: Rows, family: Family, intercept: bool, features: int | None = None
    ) -> None:
        self.rows, self.family, self.intercept = rows, family, bool(intercept)
        self.features = rows.width if features is None else features
        self.width = self.intercept + self.features

    def state(self, block: Block, beta: Array | None) -> State:
        """Return the rows of a block at some coefficients; None for the start.

        Raises
        ------
        InvalidError
            For a response that the family does not have.
        """
        y, offset, weight = block.numbers("y"), block.numbers("offset"), block.weight
        used = weight > 0
        bad = np.flatnonzero(~np.asarray(self.family.valid(y), bool) & used)
        if len(bad):
            raise InvalidError(
                f"y is {y[bad[0]]} in row {block.first + bad[0]} of this rank: for family"
                f" {self.family.name!r} it must be {self.family.response}"
            )
        x = block.x[:, : self.features]
        if not used.all():
            x, y, offset, weight = x[used], y[used], offset[used], weight[used]
        link = self.family.link
        with np.errstate(all="ignore"):
            if beta is None:
                eta = link.of_mean(self.family.start(y, weight))
            else:
                eta = self.predict(x, beta, offset)
            return State(x, y, weight, offset, eta, link.mean(eta))

    def predict(self, x: Array, beta: Array, offset: Array) -> Array:
        """Return the linear predictors of rows."""
        level = float(beta[0]) if self.intercept else 0.0
        eta = np.empty(len(x))
        slopes = np.ascontiguousarray(beta[int(self.intercept) :])
        arrays = np.ascontiguousarray(x), slopes, np.ascontiguousarray(offset)
        numerics.glm_predict(arrays[0], level, *arrays[1:], eta)
        return eta

    def look(self, beta: Array | None) -> Pass:
        """Make a pass. Collective."""
        deviance = ExactSum()
        triangle = tsqr.Triangle(self.width + 1, centered=self.intercept)

        def take(block: Block) -> None:
            state = self.state(block, beta)
            deviance.add(self.deviances(state))
            if math.isfinite(deviance.value):
                triangle.add(state.x, *self.working(state), ones=self.intercept)

        self.rows.each(take)
        total = float(self.rows.comm.allreduce(np.array([deviance.value]))[0])
        if not math.isfinite(total):
            return Pass(math.inf, None)
        return Pass(total, triangle.combine(self.rows.comm))

    def deviances(self, state: State) -> Array:
        """Return the deviances of rows; infinity where a mean is impossible."""
        with np.errstate(all="ignore"):
            if not np.all(self.family.valid_mean(state.mu) & np.isfinite(state.mu)):
                return np.array([math.inf])
            found = self.family.deviances(state.y, state.mu, state.weight)
        return np.where(np.isfinite(found), found, math.inf)

    def working_weight(self, state: State) -> Array:
        """Return the weight of each row in a step."""
        with np.errstate(all="ignore"):
            slope = self.family.link.slope(state.eta)
            found: Array = state.weight * slope**2 / self.family.variance(state.mu)
        return found

    def working(self, state: State) -> tuple[Array, Array]:
        """Return the working response and the roots of the weights of a step."""
        weight = self.working_weight(state)
        weight[~(weight > 0)] = 0  # a slope of 0 has no response
        with np.errstate(all="ignore"):
            slope = self.family.link.slope(state.eta)
            response: Array = state.eta - state.offset + (state.y - state.mu) / slope
        return response, np.sqrt(weight)


class Fit(NamedTuple):
    """The end of the iterations.

    Attributes
    ----------
    beta, previous : array, and array or None
        The coefficients after and before the last step; None for the start.
    solved : dict of arrays
        The result of the last step.
    deviance : float
        The deviance at ``beta``.
    iterations : int
        The number of steps.
    converged : bool
        Whether they converged.
    """

    beta: Array
    previous: Array | None
    solved: dict[str, Any]
    deviance: float
    iterations: int
    converged: bool


def iterate(problem: Problem, tolerance: float, max_iter: int, tol: float) -> Fit:
    """Iterate to the minimum of the deviance. Collective.

    ``tolerance`` is that of columns that depend on columns before them.
    """
    beta: Array | None = None
    now = problem.look(None)
    if not math.isfinite(now.deviance):
        raise InvalidError(f"no start of family {problem.family.name!r} is possible for these y")
    converged = False
    iteration = 0
    while not converged and iteration < max_iter:
        iteration += 1
        triangle, before = now.triangle, now.deviance
        solved = lead(problem.rows.comm, lambda: solve(triangle, tolerance))  # noqa: B023
        previous = beta
        beta, now = halve(problem, previous, solved["beta"])
        converged = abs(now.deviance - before) / (abs(now.deviance) + 0.1) <= tol
    assert beta is not None
    return Fit(beta, previous, solved, now.deviance, iteration, converged)


def solve(triangle: Array | None, tolerance: float) -> dict[str, Any]:
    """Solve a step, on rank 0."""
    assert triangle is not None
    found = tsqr.solve(triangle, tolerance)
    return {"beta": found.coefficients, "kept": found.kept, "unscaled": found.unscaled}


def halve(problem: Problem, beta: Array | None, new: Array) -> tuple[Array, Pass]:
    """Make the pass at ``new``, or nearer to ``beta`` while means there are impossible."""
    for _ in range(40):
        after = problem.look(new)
        if math.isfinite(after.deviance):
            return new, after
        if beta is None:
            raise InvalidError(
                "no valid coefficients have been found: choose a link whose means are possible"
                " for all rows, or scale the columns"
            )
        new = (new + beta) / 2
    raise InvalidError("no step is small enough to have possible means: choose another link")
