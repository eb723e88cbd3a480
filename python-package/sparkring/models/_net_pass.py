# SPDX-License-Identifier: Apache-2.0
"""The rows of a penalized regression around their means, and passes over them.

By numerics/net_pass.h: the weights of all ranks have the sum 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import numpy as np

from sparkring import _numerics as numerics
from sparkring._core import InvalidError
from sparkring.models import _moments as moments
from sparkring.models._alike import array_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring.models._family import Family
    from sparkring.models._rows import Block, Rows
    from sparkring.models._table import Array

    Model = tuple[str, bool, int, Array, Array]
    Places = NDArray[np.int32]


class Problem(NamedTuple):
    """Rows with the columns and the response of a model.

    Attributes
    ----------
    rows : Rows
        The rows.
    model : tuple
        The letter of the family, whether there is an intercept, the number of classes, and the
        centers and scales of the features.
    response : function of a block
        The responses, a column for each class.
    keep : function of a block, or None
        The rows of a block that count; None for all.
    weight : float
        The sum of the weights.
    mean : float
        A number that the response has less: the mean of numbers.
    constant : array of bool
        The features that are constant.
    """

    rows: Rows
    model: Model
    response: Callable[[Block], Array]
    keep: Callable[[Block], Any] | None
    weight: float
    mean: float
    constant: NDArray[np.bool_]

    @property
    def width(self) -> int:
        """The number of coefficients of a class."""
        return self.rows.width + self.model[1]

    def of(self, block: Block) -> tuple[Array, Array, Array]:
        """Return the features, responses and weights of a block."""
        weight = weight_of(block, self.keep) / self.weight
        return np.ascontiguousarray(block.x), self.response(block) - self.mean, weight

    def least(self) -> float:
        """Return the part of the mean deviance that depends on the response alone. Collective."""
        total = np.zeros(1)

        def add(block: Block) -> None:
            _, y, weight = self.of(block)
            total[0] = numerics.net_least(self.model, y, weight, total[0])

        self.rows.each(add)
        return float(self.rows.comm.allreduce(total)[0])

    def look(self, active: Places, b: Array, whole: bool) -> Array:
        """Make a pass, and return its sums over all ranks. Collective."""
        own = Sums(self.model, active, b, whole)
        self.rows.each(lambda block: own.add(*self.of(block)))
        return self.rows.comm.allreduce(own.end())


class Sums:
    """The sums of a pass over some rows, at the values ``b`` of the ``active`` coefficients."""

    def __init__(self, model: Model, active: Places, b: Array, whole: bool) -> None:
        self._point = model, active, b, whole
        self._state = np.empty(numerics.net_state(*self._point))
        self._sums = sums_at(model, active, whole)
        numerics.net_open(*self._point, self._state, self._sums)

    def add(self, x: Array, y: Array, weight: Array) -> None:
        """Add rows."""
        numerics.net_add(*self._point, x, y, weight, None, self._state, self._sums)

    def end(self) -> Array:
        """Return the sums."""
        numerics.net_close(*self._point, self._state, self._sums)
        return self._sums


def sums_at(model: Model, active: Places, whole: bool) -> Array:
    """Return an array for the sums of a pass."""
    known = (len(model[3]) + model[1]) * model[2] if whole else len(active)
    return np.empty(1 + known + len(active) ** 2)


def prepare(
    rows: Rows,
    family: Family,
    intercept: bool,
    standardize: bool = False,
    keep: Callable[[Block], Any] | None = None,
) -> Problem:
    """Find the means of the features, and check the response, in one pass. Collective.

    Raises
    ------
    InvalidError
        For a response that the family does not have, and if no rank has a row with a weight.
    """
    center, scale, constant, weight, mean = measure(
        rows, intercept, standardize, lambda block: numbers(block, family), keep
    )
    if family.name != "gaussian" or not intercept:
        mean = 0.0
    model = (family.name[0], bool(intercept), 1, center, scale)
    return Problem(
        rows, model, lambda block: block.numbers("y")[:, None], keep, weight, mean, constant
    )


def prepare_classes(
    rows: Rows,
    classes: Any,
    intercept: bool,
    standardize: bool = False,
    keep: Callable[[Block], Any] | None = None,
) -> Problem:
    """Do the same for a response of classes, which are sorted. Collective."""
    center, scale, constant, weight, _ = measure(
        rows, intercept, standardize, lambda block: np.zeros(len(block.x)), keep
    )

    def response(block: Block) -> Array:
        codes = np.searchsorted(classes, array_of(block.roles["y"].tolist()))
        return np.asarray(codes[:, None] == np.arange(len(classes)), np.float64)

    model = ("m", bool(intercept), len(classes), center, scale)
    return Problem(rows, model, response, keep, weight, 0.0, constant)


def classes_of(rows: Rows, estimator: str) -> NDArray[Any]:
    """Return the classes of the response, sorted. Collective.

    Raises
    ------
    InvalidError
        For numbers that are not whole, and for fewer than two classes.
    """
    classes = rows.distinct("y")
    fractions = [value for value in classes if isinstance(value, float) and value % 1 != 0]
    if fractions:
        raise InvalidError(
            f"Unknown label type: y has {fractions[0]}, and classes are whole numbers, booleans"
            " or strings: a regression is for continuous responses"
        )
    if len(classes) < 2:
        raise InvalidError(
            f"y has 1 class on all ranks, {classes[0]!r}: {estimator} is for two or more"
        )
    return np.array(classes)


def measure(
    rows: Rows,
    intercept: bool,
    standardize: bool,
    response: Callable[[Block], Array],
    keep: Callable[[Block], Any] | None,
) -> tuple[Array, Array, NDArray[np.bool_], float, float]:
    """Return centers, scales, constant features, the weight, and the mean of the response.

    Collective.
    """

    def parts(block: Block) -> list[tuple[Array, Array]]:
        weight = weight_of(block, keep)
        return [(block.x, weight), (response(block)[:, None], weight)]

    found, of_y = moments.moments_of(rows, [rows.width, 1], parts)
    center = found.mean if intercept else np.zeros(rows.width)
    constant = found.squares == 0 if intercept else np.zeros(rows.width, bool)
    scale = np.ones(rows.width)
    if standardize:
        scale = np.where(found.squares > 0, np.sqrt(found.squares / found.weight), 1.0)
    return center, scale, constant, found.weight, float(of_y.mean[0])


def weight_of(block: Block, keep: Callable[[Block], Any] | None) -> Array:
    """Return the weights of the rows; 0 for those that do not count."""
    return block.weight if keep is None else block.weight * keep(block)


def numbers(block: Block, family: Family) -> Array:
    """Return the responses, which the family has.

    Raises
    ------
    InvalidError
        For others.
    """
    y = block.numbers("y")
    bad = np.flatnonzero(~np.asarray(family.valid(y), bool) & (block.weight > 0))
    if len(bad):
        raise InvalidError(
            f"y is {y[bad[0]]} in row {block.first + bad[0]} of this rank: for family"
            f" {family.name!r} it must be {family.response}"
        )
    return y
