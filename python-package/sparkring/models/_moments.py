# SPDX-License-Identifier: Apache-2.0
"""Means and squares of the columns of all ranks, and the triangle of columns around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, NamedTuple

import numpy as np

from sparkring import _numerics as numerics
from sparkring.models import _tsqr as tsqr
from sparkring.models._rows import check_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkring._communicator import Communicator
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
    """Compute the moments of the features in one pass. Collective.

    Raises
    ------
    InvalidError
        If no rank has a row with a weight.
    """
    return moments_of(rows, [rows.width], lambda block: [(block.x, block.weight)])[0]


def moments_of(
    rows: Rows, widths: Sequence[int], of_block: Callable[[Block], list[tuple[Array, Array]]]
) -> list[Moments]:
    """Compute the moments of some matrices in one pass. Collective.

    ``of_block`` returns the rows of a block in each matrix, and their weights.

    Raises
    ------
    InvalidError
        If no rank has a row with a weight.
    """
    states = [opened(width) for width in widths]

    def add(block: Block) -> None:
        for state, (x, weight) in zip(states, of_block(block)):
            numerics.moments_add(state, np.ascontiguousarray(x), weight)

    rows.each(add)
    found = [merged(rows.comm, state, width) for state, width in zip(states, widths)]
    check_count(found[0].rows)
    return found


def summed(comm: Communicator, x: Array, weights: Array | None) -> Moments:
    """Compute the moments of the rows of ranks. Collective."""
    state = opened(x.shape[1])
    numerics.moments_add(state, x, weights)
    return merged(comm, state, x.shape[1])


def opened(width: int) -> Array:
    """Return the state of no rows, of numerics/moments.h."""
    state = np.empty(numerics.moments_size(width))
    numerics.moments_open(state, width)
    return state


def merged(comm: Communicator, state: Array, width: int) -> Moments:
    """Return the moments of the states of all ranks. Collective."""
    states = comm.allgather(state)
    state = states[0]
    for other in states[1:]:
        numerics.moments_merge(state, other, width)
    counts, weights, means, squares = np.empty((4, width))
    numerics.moments_close(state, counts, weights, means, squares)
    return Moments(int(counts[0]), float(weights[0]), means, squares)


class Joined(NamedTuple):
    """The triangle of the features and the response.

    Attributes
    ----------
    triangle : array or None
        R on rank 0. All rows are multiplied by the root of their weight. With a column of ones, the
        first row of R has the means, and the rows below are R of the columns around their means.
    rows : int
        The number of rows with a weight.
    """

    triangle: Array | None
    rows: int

    def means(self) -> Array:
        """Return the means of the columns behind the column of ones, on rank 0."""
        assert self.triangle is not None
        means: Array = self.triangle[0, 1:] / self.triangle[0, 0]
        return means


def joined(rows: Rows, response: bool, ones: bool) -> Joined:
    """Compute the triangle, with a column of ones in front or without it. Collective.

    Raises
    ------
    InvalidError
        If no rank has a row with a weight.
    """
    triangle = tsqr.Triangle(ones + rows.width + response, centered=ones)

    def take(block: Block) -> None:
        last = block.numbers("y") if response else None
        triangle.add(block.x, last, np.sqrt(block.weight), ones)

    rows.each(take)
    return counted(rows.comm, triangle)


def counted(comm: Communicator, triangle: tsqr.Triangle) -> Joined:
    """Return the triangle and the count of the rows of all ranks. Collective."""
    found = triangle.combine(comm)
    total = int(comm.broadcast(np.array([triangle.rows]))[0])
    check_count(total)
    return Joined(found, total)


def before_ones(rows: Rows) -> Joined:
    """Compute the triangle of the features and a last column of ones. Collective.

    Raises
    ------
    InvalidError
        If no rank has a row.
    """
    triangle = tsqr.Triangle(rows.width + 1)
    rows.each(lambda block: triangle.add(block.x, np.ones(len(block.x))))
    return counted(rows.comm, triangle)
