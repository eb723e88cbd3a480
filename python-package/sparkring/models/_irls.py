# SPDX-License-Identifier: Apache-2.0
"""Iteratively reweighted least squares on the rows of all ranks.

A pass at some coefficients has the deviance and the triangle of the weighted rows of the next step,
so each iteration is one pass. Rank 0 solves the step. Starting values and the rule of convergence
are those of ``glm()`` in R, so the results have its digits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

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


class State(NamedTuple):
    """Rows with a weight, at some coefficients."""

    design: Array
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
    slopes : bool
        Whether the features are columns.
    keep : function of a block, or None
        The rows of a block that count; None for all. For cross-validation.
    """

    def __init__(
        self,
        rows: Rows,
        family: Family,
        intercept: bool,
        slopes: bool = True,
        keep: Callable[[Block], Any] | None = None,
    ) -> None:
        self.rows, self.family = rows, family
        self.intercept, self.slopes, self.keep = bool(intercept), slopes, keep
        self.width = self.intercept + slopes * rows.width

    def design(self, x: Array) -> Array:
        """Return the columns of the model."""
        parts = [np.ones((len(x), 1))] * self.intercept + [x] * self.slopes
        return np.concatenate([np.zeros((len(x), 0)), *parts], axis=1)

    def state(self, block: Block, beta: Array | None) -> State:
        """Return the rows of a block at some coefficients; None for the start.

        Raises
        ------
        InvalidError
            For a response that the family does not have.
        """
        y, offset, weight = block.numbers("y"), block.numbers("offset"), block.weight
        bad = np.flatnonzero(~np.asarray(self.family.valid(y), bool) & (weight > 0))
        if len(bad):
            raise InvalidError(
                f"y is {y[bad[0]]} in row {block.first + bad[0]} of this rank: for family"
                f" {self.family.name!r} it must be {self.family.response}"
            )
        used = weight > 0 if self.keep is None else (weight > 0) & self.keep(block)
        design = self.design(block.x[used])
        y, offset, weight = y[used], offset[used], weight[used]
        link = self.family.link
        with np.errstate(all="ignore"):
            if beta is None:
                eta = link.of_mean(self.family.start(y, weight))
            else:
                eta = np.empty(len(design))
                numerics.glm_predict(design, np.ascontiguousarray(beta), offset, eta)
            return State(design, y, weight, offset, eta, link.mean(eta))

    def look(self, beta: Array | None) -> Pass:
        """Make a pass. Collective."""
        deviance = 0.0
        triangle = tsqr.Triangle(self.width + 1, centered=self.intercept)

        def take(block: Block) -> None:
            nonlocal deviance
            state = self.state(block, beta)
            deviance += self.deviance(state.y, state.mu, state.weight)
            if math.isfinite(deviance):
                triangle.add(*self.working(state))

        self.rows.each(take)
        total = float(self.rows.comm.allreduce(np.array([deviance]))[0])
        if not math.isfinite(total):
            return Pass(math.inf, None)
        return Pass(total, triangle.combine(self.rows.comm))

    def deviance(self, y: Array, mu: Array, weight: Array) -> float:
        """Return the deviance of rows; infinite where a mean is impossible."""
        with np.errstate(all="ignore"):
            if not np.all(self.family.valid_mean(mu) & np.isfinite(mu)):
                return math.inf
            found = self.family.deviance(y, mu, weight)
        return found if math.isfinite(found) else math.inf

    def working_weight(self, state: State) -> Array:
        """Return the weight of each row in a step."""
        with np.errstate(all="ignore"):
            slope = self.family.link.slope(state.eta)
            found: Array = state.weight * slope**2 / self.family.variance(state.mu)
        return found

    def working(self, state: State) -> tuple[Array, Array, Array]:
        """Return the columns, the working response and the roots of the weights of a step."""
        weight = self.working_weight(state)
        weight[~(weight > 0)] = 0  # a slope of 0 has no response
        with np.errstate(all="ignore"):
            slope = self.family.link.slope(state.eta)
            response: Array = state.eta - state.offset + (state.y - state.mu) / slope
        return state.design, response, np.sqrt(weight)


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
    now : Pass
        The pass at ``beta``.
    iterations : int
        The number of steps.
    converged : bool
        Whether they converged.
    """

    beta: Array
    previous: Array | None
    solved: dict[str, Any]
    now: Pass
    iterations: int
    converged: bool


def iterate(
    problem: Problem,
    solve: Callable[[Array], dict[str, Any]],
    penalty: Callable[[Array], float] | None,
    max_iter: int,
    tol: float,
    begin: tuple[Array, Pass] | None = None,
) -> Fit:
    """Iterate to the minimum of the deviance plus the penalty. Collective.

    ``solve`` returns the coefficients ``beta`` of the next step, on rank 0, from a triangle. A step
    is halved while it leads to impossible means or, with a penalty, while it does not descend. The
    ``penalty`` must have the same bits on all ranks, which decide by it alike.
    ``begin`` has coefficients and the pass there.
    """
    beta: Array | None = None
    if begin is None:
        now = problem.look(None)
        if not math.isfinite(now.deviance):
            raise InvalidError(
                f"no start of family {problem.family.name!r} is possible for these y"
            )
    else:
        beta, now = begin
    converged = False
    solved: dict[str, Any] = {}
    previous = beta
    iteration = 0
    extra = 0.0 if penalty is None or beta is None else penalty(beta)
    while not converged and iteration < max_iter:
        iteration += 1
        triangle = now.triangle
        solved = lead(problem.rows.comm, lambda: solve(triangle))  # type: ignore[arg-type] # noqa: B023
        new, before = solved["beta"], now.deviance + extra
        after, new = halve(problem, beta, new, before, penalty)
        previous, beta, now = beta, new, after
        extra = 0.0 if penalty is None else penalty(beta)
        value = now.deviance + extra
        converged = abs(value - before) / (abs(value) + 0.1) <= tol
    assert beta is not None
    return Fit(beta, previous, solved, now, iteration, converged)


def halve(
    problem: Problem,
    beta: Array | None,
    new: Array,
    before: float,
    penalty: Callable[[Array], float] | None,
) -> tuple[Pass, Array]:
    """Make the pass at ``new``, or nearer to ``beta``."""
    for _ in range(40):
        after = problem.look(new)
        possible = math.isfinite(after.deviance)
        if beta is None:
            if not possible:
                raise InvalidError(
                    "no valid coefficients have been found: choose a link whose means are possible"
                    " for all rows, or scale the columns"
                )
            return after, new
        extra = 0.0 if penalty is None else penalty(new)
        rises = after.deviance + extra > before + 1e-12 * (1 + abs(before))
        if possible and (penalty is None or not rises):
            return after, new
        new = (new + beta) / 2
    if not possible:
        raise InvalidError("no step is small enough to have possible means: choose another link")
    return after, new


def least_squares(triangle: Array, tolerance: float) -> dict[str, Any]:
    """Solve a step without a penalty."""
    found = tsqr.solve(triangle, tolerance)
    return {"beta": found.coefficients, "kept": found.kept, "unscaled": found.unscaled}


def ridge_step(triangle: Array, penalty: Array) -> dict[str, Any]:
    """Solve a step with the penalty of each squared coefficient, as further rows."""
    rows = np.zeros((len(penalty), len(penalty) + 1))
    rows[:, :-1] = np.diag(np.sqrt(penalty))
    return least_squares(tsqr.append(triangle, rows), 1e-12)
