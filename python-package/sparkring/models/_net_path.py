# SPDX-License-Identifier: Apache-2.0
"""The path of penalties of an elastic net, and its errors on folds.

For squared errors the triangle of the rows has all that a path needs. So one pass has a triangle of
each fold, and rank 0 does the rest. Other families take Newton's steps on all ranks.
"""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import numpy as np

from sparkring._core import InvalidError
from sparkring.models import _descent as descent
from sparkring.models import _irls as irls
from sparkring.models import _moments as moments
from sparkring.models import _tsqr as tsqr
from sparkring.models._tsqr import lead

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring.models._family import Family
    from sparkring.models._rows import Block, Rows
    from sparkring.models._table import Array


class Settings(NamedTuple):
    """The settings of a model."""

    family: Family
    l1_ratio: float
    intercept: bool
    max_iter: int
    tol: float


class Path(NamedTuple):
    """Coefficients at each penalty, in decreasing order.

    ``passes`` has the number of passes of each, and ``converged`` whether it converged.
    """

    alphas: Array
    coefficients: Array
    intercepts: Array
    passes: Array
    converged: Array


def fit(rows: Rows, settings: Settings, alphas: Array | None, count: int, eps: float) -> Path:
    """Fit the path. Without ``alphas`` there are ``count``, down to ``eps`` of the largest."""
    if settings.family.name != "gaussian":
        problem = irls.Problem(rows, settings.family, settings.intercept)
        return newton(problem, settings, alphas, count, eps)
    found = moments.joined(rows, response=True, ones=True)

    def solve() -> dict[str, Any]:
        assert found.triangle is not None
        return squares_path(found.triangle, settings, alphas, count, eps)._asdict()

    return Path(**lead(rows.comm, solve))


def penalties(largest: float, l1_ratio: float, count: int, eps: float) -> Array:
    """Return penalties from the largest on, which makes all coefficients 0."""
    top = max(largest / l1_ratio, float(np.finfo(float).tiny) / eps)
    return np.geomspace(top, top * eps, count)


# ---- Squared errors, on rank 0 -------------------------------------------------------------------


def squares_path(
    triangle: Array, settings: Settings, alphas: Array | None, count: int, eps: float
) -> Path:
    """Fit the path from R of ones, features and response."""
    weight = triangle[0, 0] ** 2
    part = triangle[1:, 1:] if settings.intercept else triangle[:, 1:]
    gram = part[:, :-1].T @ part[:, :-1] / weight
    linear = part[:, :-1].T @ part[:, -1] / weight
    if alphas is None:
        alphas = penalties(float(np.abs(linear).max()), settings.l1_ratio, count, eps)
    b = np.zeros(len(linear))
    found = []
    for alpha in alphas:
        first = np.full(len(b), alpha * settings.l1_ratio)
        second = np.full(len(b), alpha * (1 - settings.l1_ratio))
        b = descent.minimise(gram, linear, b, first, second)
        found.append(b)
    coefficients = np.array(found)
    means = triangle[0, 1:] / triangle[0, 0]
    levels = means[-1] - coefficients @ means[:-1]
    levels = levels if settings.intercept else np.zeros(len(alphas))
    ones = np.ones(len(alphas))
    return Path(alphas, coefficients, levels, ones, ones)


# ---- Newton's steps ------------------------------------------------------------------------------


def newton(
    problem: irls.Problem, settings: Settings, alphas: Array | None, count: int, eps: float
) -> Path:
    """Fit the path by Newton's steps, each from the coefficients of the penalty before."""
    comm = problem.rows.comm
    weight = float(problem.rows.total(1, lambda block: weight_of(problem, block))[0])
    free = problem.width - problem.rows.width
    null = step_to(problem, settings, weight, np.inf, None)
    if alphas is None:

        def largest() -> dict[str, Any]:
            gram, linear = quadratic(null.now.triangle, weight)
            gradient = np.abs((linear - gram @ null.beta)[free:])
            top = float(gradient.max(initial=0))
            return {"alphas": penalties(top, settings.l1_ratio, count, eps)}

        alphas = lead(comm, largest)["alphas"]
    state = (null.beta, null.now)
    betas, passes, converged = [], [], []
    for alpha in alphas:
        found = step_to(problem, settings, weight, float(alpha), state)
        passes.append(found.iterations)
        converged.append(found.converged)
        state = (found.beta, found.now)
        betas.append(found.beta)
    everything = np.array(betas)
    levels = everything[:, 0] if settings.intercept else np.zeros(len(everything))
    counts = np.array([passes, converged], np.float64)
    return Path(alphas, everything[:, free:], levels, *counts)


def weight_of(problem: irls.Problem, block: Block) -> float:
    """Return the weight of the rows of a block that count."""
    used = block.weight if problem.keep is None else block.weight[problem.keep(block)]
    return float(used.sum())


def quadratic(triangle: Any, weight: float) -> tuple[Array, Array]:
    """Return the curvature and the linear part of half of the mean deviance."""
    return triangle[:, :-1].T @ triangle[:, :-1] / weight, triangle[:, :-1].T @ triangle[
        :, -1
    ] / weight


def step_to(
    problem: irls.Problem,
    settings: Settings,
    weight: float,
    alpha: float,
    begin: tuple[Array, irls.Pass] | None,
) -> irls.Fit:
    """Fit at one penalty. An infinite one leaves the intercept alone."""
    slopes = np.arange(problem.width) >= settings.intercept
    first = np.where(slopes, np.inf if np.isinf(alpha) else alpha * settings.l1_ratio, 0.0)
    second = np.where(slopes, 0.0 if np.isinf(alpha) else alpha * (1 - settings.l1_ratio), 0.0)
    start = np.zeros(problem.width) if begin is None else begin[0]

    def solve(triangle: Array) -> dict[str, Any]:
        gram, linear = quadratic(triangle, weight)
        return {"beta": descent.minimise(gram, linear, start, first, second)}

    def penalty(beta: Array) -> float:
        used = beta != 0
        absolute = math.fsum(first[used] * np.abs(beta[used]))  # the same bits on all processors
        return 2 * weight * (absolute + math.fsum(second * beta**2) / 2)

    return irls.iterate(problem, solve, penalty, settings.max_iter, settings.tol, begin)


# ---- Cross-validation ----------------------------------------------------------------------------


def validate(rows: Rows, settings: Settings, alphas: Array, cv: int) -> tuple[Array, Array]:
    """Return summed errors, by penalty and fold, of fits without the fold, and the folds' weights.

    Collective.
    """
    fold = folds_of(rows, cv)
    if settings.family.name == "gaussian":
        return validate_squares(rows, settings, alphas, cv, fold)
    errors = np.zeros((len(alphas), cv))
    weights = np.zeros(cv)
    for number in range(cv):
        keep = lambda block: fold(block) != number  # noqa: B023, E731
        problem = irls.Problem(rows, settings.family, settings.intercept, keep=keep)
        path = newton(problem, settings, alphas, 0, 0.0)
        total = rows.total(
            1 + len(alphas),
            lambda block: held_out(rows, settings, path, block, fold(block) == number),  # noqa: B023
        )
        weights[number], errors[:, number] = total[0], total[1:]
    return errors, weights


def folds_of(rows: Rows, cv: int) -> Callable[[Block], NDArray[np.int64]]:
    """Return the function that numbers the folds of a block's rows. Collective.

    The function refuses blocks of another order, whose rows would be in other folds.
    """
    digests: dict[int, int] = {}
    own = np.zeros(1)

    def count(block: Block) -> None:
        digests[block.first] = digest(block)
        own[0] += len(block.x)

    rows.each(count)
    before = int(rows.comm.exscan(own)[0])

    def fold(block: Block) -> NDArray[np.int64]:
        if digests.get(block.first) != digest(block):
            raise InvalidError(
                "the batches differ from those of the first pass, and folds are of row numbers:"
                " pass the same batches in the same order in each pass, as without shuffle"
            )
        return (before + block.first + np.arange(len(block.x))) % cv

    return fold


def digest(block: Block) -> int:
    """Return a checksum of the features."""
    return zlib.crc32(np.ascontiguousarray(block.x).data)


def held_out(
    rows: Rows, settings: Settings, path: Path, block: Block, used: NDArray[np.bool_]
) -> Array:
    """Return the weight and the deviance at each penalty of some rows of a block."""
    problem = irls.Problem(rows, settings.family, True, keep=lambda _: used)
    deviances = [
        problem.deviance(state.y, state.mu, state.weight)
        for beta in np.column_stack([path.intercepts, path.coefficients])
        for state in [problem.state(block, beta)]
    ]
    return np.array([block.weight[used].sum(), *deviances])


def validate_squares(
    rows: Rows, settings: Settings, alphas: Array, cv: int, fold: Callable[[Block], Any]
) -> tuple[Array, Array]:
    """Cross-validate squared errors from a triangle of each fold, in one pass."""
    width = 2 + rows.width
    shift = moments.shift_of(rows, True) if settings.intercept else np.zeros(width - 1)
    parts = [np.zeros((0, width)) for _ in range(cv)]

    def take(block: Block) -> None:
        columns = moments.columns_of(block, True) - shift
        joined = np.concatenate([np.ones((len(columns), 1)), columns], axis=1)
        joined *= np.sqrt(block.weight)[:, None]
        numbers = fold(block)
        for number in range(cv):
            parts[number] = tsqr.append(parts[number], joined[numbers == number])

    rows.each(take)
    triangles = [tsqr.combine(rows.comm, part) for part in parts]

    def errors_of() -> dict[str, Any]:
        errors, weights = np.zeros((len(alphas), cv)), np.zeros(cv)
        known = [triangle for triangle in triangles if triangle is not None]
        for number, out in enumerate(known):
            weights[number] = out[0, 0] ** 2
            others = [part for place, part in enumerate(known) if place != number]
            train = tsqr.append(np.zeros((0, width)), np.concatenate(others))
            if train[0, 0] == 0:
                continue
            path = squares_path(train * np.sign(train[0, 0]), settings, alphas, 0, 0.0)
            model = np.column_stack([path.intercepts, path.coefficients])
            rest = out[:, -1:] - out[:, :-1] @ model.T
            errors[:, number] = np.sum(rest**2, axis=0)
        return {"errors": errors, "weights": weights}

    found = lead(rows.comm, errors_of)
    return found["errors"], found["weights"]
