# SPDX-License-Identifier: Apache-2.0
"""Logistic regression of three or more classes, by Newton's steps.

The linear predictor of each class has coefficients of its own. A pass sums the loss, its gradient
and its curvature over the rows of all ranks, and rank 0 solves the step. Coefficients that are
moved alike for all classes change no probability. So where they have no penalty, their sum over the
classes stays 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkring.models import _moments as moments
from sparkring.models._alike import array_of
from sparkring.models._tsqr import lead

if TYPE_CHECKING:
    from sparkring.models._rows import Block, Rows
    from sparkring.models._table import Array

HALVINGS = 40
CONSTANT = 1e-10  # of the squares of a column that are left without its mean


class Fit(NamedTuple):
    """The end of the iterations: an intercept and coefficients for each class."""

    intercepts: Array
    coefficients: Array
    iterations: int
    converged: bool


class Pass(NamedTuple):
    """The objective at some coefficients, with its gradient and its curvature."""

    value: float
    gradient: Array
    curvature: Array


class Problem(NamedTuple):
    """Rows whose responses are classes.

    Attributes
    ----------
    rows : Rows
        The rows.
    classes : array
        The classes, sorted.
    shift : array
        Numbers near the means of the features, which are subtracted if there is an intercept.
    intercept : bool
        Whether the first column is one of ones.
    alpha : float
        The penalty of half of the sum of squared coefficients.
    """

    rows: Rows
    classes: Any
    shift: Array
    intercept: bool
    alpha: float

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of classes and of columns."""
        return len(self.classes), self.intercept + self.rows.width

    def of_block(self, block: Block, beta: Array) -> Array:
        """Return the loss, the gradient and the curvature of some rows, in a row."""
        count = len(self.classes)
        x = block.x - self.shift
        if self.intercept:
            x = np.concatenate([np.ones((len(x), 1)), x], axis=1)
        codes = np.searchsorted(self.classes, array_of(block.roles["y"].tolist()))
        eta = x @ beta.T
        shares, total = softmax(eta)
        at = np.arange(len(x)), codes
        loss = block.weight @ (total - eta[at])
        rest = np.array(shares)
        rest[at] -= 1
        gradient = (block.weight[:, None] * rest).T @ x
        parts = [np.array([loss]), gradient.ravel()]
        for first in range(count):
            for second in range(first, count):
                factor = shares[:, first] * ((first == second) - shares[:, second])
                parts.append((x.T @ ((block.weight * factor)[:, None] * x)).ravel())
        return np.concatenate(parts)

    def look(self, beta: Array) -> Pass:
        """Make a pass. Collective."""
        count, width = self.shape
        pairs = count * (count + 1) // 2
        size = count * width
        total = self.rows.total(
            1 + size + pairs * width**2, lambda block: self.of_block(block, beta)
        )
        squares = total[1 + size :].reshape(pairs, width, width)
        curvature = np.zeros((count, width, count, width))
        at = iter(squares)
        for first in range(count):
            for second in range(first, count):
                curvature[first, :, second] = next(at)
                curvature[second, :, first] = curvature[first, :, second].T
        slopes = beta[:, self.intercept :]
        value = float(total[0]) + self.alpha / 2 * math.fsum((slopes**2).ravel())
        gradient = total[1 : 1 + size].reshape(count, width)
        gradient[:, self.intercept :] += self.alpha * slopes
        return Pass(value, gradient, curvature.reshape(size, size))

    def step(self, now: Pass, used: Any) -> Array:
        """Return Newton's step, on rank 0, in which columns that are not used stay."""
        count, width = self.shape
        curvature = now.curvature.reshape(count, width, count, width).copy()
        own = np.arange(count)
        for column in range(width):
            if self.alpha == 0 or column < self.intercept:  # the sum over the classes stays 0
                mean = curvature[own, column, own, column].mean()
                curvature[:, column, :, column] += max(mean, np.finfo(float).tiny)
            else:
                curvature[own, column, own, column] += self.alpha
        kept = np.tile(used, count)
        matrix = curvature.reshape(len(kept), len(kept))[np.ix_(kept, kept)]
        scale = np.sqrt(np.diag(matrix))
        target = -now.gradient.ravel()[kept] / scale
        solved = np.linalg.lstsq(matrix / np.outer(scale, scale), target, rcond=1e-13)[0]
        found = np.zeros(len(kept))
        found[kept] = solved / scale
        return found.reshape(count, width)

    def varying(self, now: Pass) -> Any:
        """Find the columns that are not constant, from a pass: the intercept has those already."""
        width = self.shape[1]
        squares = now.curvature[:width, :width]
        diagonal = np.diag(squares)
        rest = diagonal.copy()
        if self.intercept:
            rest[1:] -= squares[0, 1:] ** 2 / squares[0, 0]
        return (rest > CONSTANT * diagonal) & (diagonal > 0)


def softmax(eta: Array) -> tuple[Array, Array]:
    """Return the probabilities of the classes, and the logarithm of the sum before division."""
    top = eta.max(axis=1, keepdims=True)
    odds = np.exp(eta - top)
    total = odds.sum(axis=1, keepdims=True)
    return odds / total, (np.log(total) + top)[:, 0]


def fit(rows: Rows, classes: Any, intercept: bool, alpha: float, max_iter: int, tol: float) -> Fit:
    """Minimize the weighted loss plus the penalty. Collective."""
    shift = moments.shift_of(rows, False) if intercept else np.zeros(rows.width)
    problem = Problem(rows, classes, shift, bool(intercept), alpha)
    beta = np.zeros(problem.shape)
    now = problem.look(beta)
    used = problem.varying(now)
    converged, iteration = False, 0
    while not converged and iteration < max_iter:
        iteration += 1
        step = lead(rows.comm, lambda: {"step": problem.step(now, used)})["step"]  # noqa: B023
        for _ in range(HALVINGS):
            new = problem.look(beta + step)
            if new.value <= now.value + 1e-12 * (1 + abs(now.value)):
                break
            step = step / 2
        change = abs(new.value - now.value) / (abs(new.value) + 0.1)
        beta, now, converged = beta + step, new, change <= tol
    slopes = beta[:, problem.intercept :]
    levels = beta[:, 0] - slopes @ shift if problem.intercept else np.zeros(len(classes))
    return Fit(levels, slopes, iteration, converged)
