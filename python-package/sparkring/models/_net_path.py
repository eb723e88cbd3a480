# SPDX-License-Identifier: Apache-2.0
"""The path of penalties of an elastic net, and its errors on folds.

The path is that of numerics/net_path.h. For squared errors one pass has all that a path needs: so
one pass has the sums of each fold, and rank 0 does the rest. Other families take Newton's steps on
all ranks.
"""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import numpy as np

from sparkring import _numerics as numerics
from sparkring._core import InvalidError
from sparkring.models import _family as families
from sparkring.models import _net_pass as net_pass
from sparkring.models._tsqr import lead

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring.models._family import Family
    from sparkring.models._net_pass import Places, Problem
    from sparkring.models._rows import Block, Rows
    from sparkring.models._table import Array

SQUARES_STEPS = 100  # of the squared loss, which need no pass


class Settings(NamedTuple):
    """The settings of a path.

    Attributes
    ----------
    family : Family
        The family.
    l1_ratio : float
        The part of the absolute coefficients in the penalty.
    intercept : bool
        Whether there is an intercept.
    max_iter : int
        The largest number of Newton's steps for a penalty.
    tol : float
        The largest violation of an optimality condition, as a part of the largest gradient.
    standardize : bool
        Whether the penalty is of the features divided by their standard deviations.
    factors : array, optional
        Factors of the penalty, one for each feature; an infinite one leaves the feature out.
    classes : array, optional
        The classes of the response, each of which has coefficients of its own.
    """

    family: Family
    l1_ratio: float
    intercept: bool
    max_iter: int
    tol: float
    standardize: bool = False
    factors: Array | None = None
    classes: NDArray[Any] | None = None


class Path(NamedTuple):
    """Coefficients at each penalty, in decreasing order.

    ``passes`` has the number of Newton's steps of each, and ``converged`` whether it converged. The
    coefficients and intercepts have a place for each class, if there are more than one.
    """

    alphas: Array
    coefficients: Array
    intercepts: Array
    passes: Array
    converged: Array


class Found(NamedTuple):
    """The path of num_net_follow(), with coefficients around the means."""

    alphas: Array
    coefficients: Array
    steps: Array
    violation: Array


def fit(rows: Rows, settings: Settings, alphas: Array | None, count: int, eps: float) -> Path:
    """Fit the path. Without ``alphas`` there are ``count``, down to ``eps`` of the largest."""
    given = (count, eps) if alphas is None else alphas
    return path_of(prepare(rows, settings), settings, given)


def fit_one(rows: Rows, settings: Settings, alpha: float) -> Path:
    """Fit one penalty."""
    return fit(rows, settings, np.array([float(alpha)]), 0, 0.0)


def prepare(rows: Rows, settings: Settings, keep: Callable[[Block], Any] | None = None) -> Problem:
    """Find the problem of some rows. Collective."""
    more = settings.intercept, settings.standardize, keep
    if settings.classes is not None:
        return net_pass.prepare_classes(rows, settings.classes, *more)
    return net_pass.prepare(rows, settings.family, *more)


def path_of(problem: Problem, settings: Settings, alphas: Array | tuple[int, float]) -> Path:
    """Fit the path of a problem. Collective."""
    if problem.model[0] != "g":
        return newton(problem, settings, alphas)
    sums = problem.look(*everything(problem), True)

    def solve() -> dict[str, Any]:
        path = unscaled(problem, settings, squares(problem, settings, alphas, sums))
        return path._replace(passes=np.ones(len(path.passes)))._asdict()

    return Path(**lead(problem.rows.comm, solve))


def everything(problem: Problem) -> tuple[Places, Array]:
    """Return all coefficients at 0."""
    count = problem.width * problem.model[2]
    return np.arange(count, dtype=np.int32), np.zeros(count)


def squares(
    problem: Problem, settings: Settings, alphas: Array | tuple[int, float], sums: Array
) -> Found:
    """Fit the path of the squared loss, from the sums of all coefficients at 0."""
    settings = settings._replace(max_iter=SQUARES_STEPS)
    look = lambda *point: squares_at(problem, sums, *point)  # noqa: E731
    return follow(problem, settings, alphas, 0.0, look, lambda numbers: None)


def squares_at(problem: Problem, sums: Array, active: Places, b: Array, whole: bool) -> Array:
    """Return the pass of the squared loss."""
    found = net_pass.sums_at(problem.model, active, whole)
    numerics.net_squares(problem.model, active, b, whole, sums, found)
    return found


def newton(problem: Problem, settings: Settings, alphas: Array | tuple[int, float]) -> Path:
    """Fit the path of another loss, by passes over the rows. Collective."""

    def share(view: memoryview) -> None:
        numbers = np.frombuffer(view)
        numbers[:] = problem.rows.comm.broadcast(numbers)

    found = follow(problem, settings, alphas, problem.least(), problem.look, share)
    return unscaled(problem, settings, found)


def follow(
    problem: Problem,
    settings: Settings,
    alphas: Array | tuple[int, float],
    least: float,
    look: Callable[[Places, Array, bool], Array],
    share: Callable[[memoryview], None],
) -> Found:
    """Fit the path at some penalties, or at a number of them down to a part of the largest."""
    model, penalty = problem.model, penalties(problem, settings)
    count, eps = alphas if isinstance(alphas, tuple) else (len(alphas), 0.0)
    found = Found(
        np.zeros(count) if isinstance(alphas, tuple) else np.array(alphas, np.float64),
        np.empty((count, len(penalty))),
        *np.empty((2, count)),
    )

    def look_at(active: memoryview, b: memoryview, whole: bool) -> Array:
        return look(np.frombuffer(active, np.int32), np.frombuffer(b), whole)

    numerics.net_follow(
        model,
        (penalty, settings.l1_ratio, 1.0, least, settings.tol, eps, settings.max_iter, False),
        look_at,
        share,
        found.alphas,
        found.coefficients,
        np.empty(count),  # the deviance
        found.violation,
        found.steps,
    )
    return found


def penalties(problem: Problem, settings: Settings) -> Array:
    """Return the factor of the penalty of each coefficient; infinite for those that stay 0.

    The factors of all features have the mean 1, as in glmnet.
    """
    width, (_, intercept, classes, *_) = len(problem.constant), problem.model
    factors = np.ones(width) if settings.factors is None else settings.factors
    left_out = np.isinf(factors)
    factors = np.where(left_out, 1.0, factors)
    factors = np.where(problem.constant | left_out, np.inf, factors * width / math.fsum(factors))
    return np.tile(np.concatenate([np.zeros(int(intercept)), factors]), classes)


def unscaled(problem: Problem, settings: Settings, found: Found) -> Path:
    """Return the coefficients of the features as they are."""
    count, classes = len(found.alphas), problem.model[2]
    slopes, levels = np.empty((count, classes, problem.rows.width)), np.empty((count, classes))
    for step, coefficients in enumerate(found.coefficients):
        numerics.net_unscale(problem.model, coefficients, problem.mean, slopes[step], levels[step])
    if classes == 1:
        slopes, levels = slopes[:, 0], levels[:, 0]
    converged = np.asarray(found.violation <= settings.tol, np.float64)
    return Path(found.alphas, slopes, levels, found.steps, converged)


# ---- Cross-validation ----------------------------------------------------------------------------


def validate(rows: Rows, settings: Settings, alphas: Array, cv: int) -> tuple[Array, Array]:
    """Return summed errors, by penalty and fold, of fits without the fold, and the folds' weights.

    Collective.
    """
    fold = folds_of(rows, cv)
    if settings.family.name == "gaussian" and not settings.standardize:
        return validate_squares(rows, settings, alphas, cv, fold)
    errors = np.zeros((len(alphas), cv))
    weights = np.zeros(cv)
    for number in range(cv):
        keep = lambda block: fold(block) != number  # noqa: B023, E731
        problem = prepare(rows, settings, keep)
        path = path_of(problem, settings, alphas)
        total = rows.total(
            1 + len(alphas),
            lambda block: held_out(problem, settings, path, block, fold(block) == number),  # noqa: B023
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
        own[0] += len(block.x)
        if rows.streamed:
            digests[block.first] = digest(block)

    rows.each(count)
    before = int(rows.comm.exscan(own)[0])

    def fold(block: Block) -> NDArray[np.int64]:
        if rows.streamed and digests.get(block.first) != digest(block):
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
    problem: Problem, settings: Settings, path: Path, block: Block, used: NDArray[np.bool_]
) -> Array:
    """Return the weight and the deviance at each penalty of some rows of a block."""
    x, y, weight = block.x[used], problem.response(block)[used], block.weight[used]
    with np.errstate(all="ignore"):
        if settings.classes is None:
            mean = settings.family.link.mean(x @ path.coefficients.T + path.intercepts)
            deviances = settings.family.deviances(y, mean, weight[:, None])
        else:
            eta = np.tensordot(x, path.coefficients, (1, 2)) + path.intercepts
            chosen = (families.softmax(eta) * y[:, None]).sum(axis=2)
            deviances = -2 * weight[:, None] * np.log(chosen)
    return np.array([weight.sum(), *deviances.sum(axis=0)])


def validate_squares(
    rows: Rows, settings: Settings, alphas: Array, cv: int, fold: Callable[[Block], Any]
) -> tuple[Array, Array]:
    """Cross-validate squared errors from the sums of each fold, in one pass."""
    problem = prepare(rows, settings)
    point = everything(problem)
    parts = [net_pass.Sums(problem.model, *point, True) for _ in range(cv)]
    own = np.zeros(cv)

    def take(block: Block) -> None:
        numbers, (x, y, weight) = fold(block), problem.of(block)
        for number, part in enumerate(parts):
            used = numbers == number
            part.add(x[used], y[used], weight[used])
            own[number] += weight[used].sum()

    rows.each(take)
    sums = rows.comm.allreduce(np.array([part.end() for part in parts]))
    weights = rows.comm.allreduce(own)

    def errors_of() -> dict[str, Any]:
        errors = np.zeros((len(alphas), cv))
        for number in range(cv):
            others = np.arange(cv) != number
            if weights[others].sum() == 0:
                continue
            train = sums[others].sum(axis=0) / weights[others].sum()
            path = squares(problem, settings, alphas, train)
            for step, b in enumerate(path.coefficients):
                rest = squares_at(problem, sums[number], point[0], b, False)[0]
                errors[step, number] = max(rest, 0)
        return {"errors": errors}

    errors = lead(rows.comm, errors_of)["errors"]
    return errors * problem.weight, weights * problem.weight
