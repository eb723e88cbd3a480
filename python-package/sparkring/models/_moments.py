# SPDX-License-Identifier: Apache-2.0
"""Means and squares of the columns of all ranks, and the triangle of columns around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sparkring import _numerics as numerics
from sparkring._agree import agree
from sparkring.models import _tsqr as tsqr
from sparkring.models._rows import check_count

if TYPE_CHECKING:
    from sparkring.models._rows import Block, Rows
    from sparkring.models._table import Array


class Moments(NamedTuple):
    """Of all ranks.

    Attributes
    ----------
    rows : int
        The number of rows with a weight.
    weight : float
        The sum of the weights.
    mean : array
        The mean of each column.
    squares : array
        The weighted sum of squares of each column around its mean.
    """

    rows: int
    weight: float
    mean: Array
    squares: Array

    @property
    def variance(self) -> Array:
        """The squares divided by the sum of the weights."""
        return self.squares / self.weight


def moments(rows: Rows) -> Moments:
    """Compute the moments in one pass, by numerics/moments.h. Collective.

    Raises
    ------
    InvalidError
        If no rank has a row with a weight.
    """
    width = rows.width
    state = np.empty(numerics.moments_size(width))
    numerics.moments_open(state, width)
    rows.each(lambda b: numerics.moments_add(state, np.ascontiguousarray(b.x), b.weight))
    states = rows.comm.allgather(state)
    state = states[0]
    for other in states[1:]:
        numerics.moments_merge(state, other, width)
    counts, weights, means, squares = np.empty((4, width))
    numerics.moments_close(state, counts, weights, means, squares)
    check_count(int(counts[0]))
    return Moments(int(counts[0]), float(weights[0]), means, squares)


def shift_of(rows: Rows, response: bool) -> Array:
    """Return the means of the first rows of each rank. Collective.

    They are near the means of all rows, and cost no pass.
    """

    def sums() -> Array:
        sample = rows.sample()
        found = np.zeros(1 + rows.width + response)
        if sample is not None:
            found[0] = len(sample.x)
            found[1:] = columns_of(sample, response).sum(axis=0)
        return found

    found = rows.comm.allreduce(agree(rows.comm, sums))
    shift: Array = found[1:] / max(1, found[0])
    return shift


def columns_of(block: Block, response: bool) -> Array:
    """Return the features, and the response beside them."""
    if not response:
        return block.x
    return np.concatenate([block.x, block.numbers("y")[:, None]], axis=1)


class Centered(NamedTuple):
    """A triangle of the rows around their means.

    Attributes
    ----------
    triangle : array or None
        R of a column of ones, the features around ``shift``, and the response around its own, on
        rank 0. All rows are multiplied with the root of their weight. The rows of R below the first
        are R of the columns around their means.
    shift : array
        The numbers that were subtracted from the columns.
    rows : int
        The number of rows with a weight.
    """

    triangle: Array | None
    shift: Array
    rows: int

    def means(self) -> Array:
        """Return the means of the columns, on rank 0."""
        assert self.triangle is not None
        means: Array = self.shift + self.triangle[0, 1:] / self.triangle[0, 0]
        return means


def centered(rows: Rows, response: bool, shifted: bool = True) -> Centered:
    """Compute the triangle. Collective.

    Raises
    ------
    InvalidError
        If no rank has a row with a weight.
    """
    width = rows.width + response
    shift = shift_of(rows, response) if shifted else np.zeros(width)
    count = 0

    def matrix(block: Block) -> Array:
        nonlocal count
        count += int((block.weight > 0).sum())
        columns = columns_of(block, response) - shift
        joined = np.concatenate([np.ones((len(columns), 1)), columns], axis=1)
        found: Array = joined * np.sqrt(block.weight)[:, None]
        return found

    triangle = tsqr.gather(rows, 1 + width, matrix)
    total = int(rows.comm.allreduce(np.array([count]))[0])
    check_count(total)
    return Centered(triangle, shift, total)
