# SPDX-License-Identifier: Apache-2.0
"""Means and squares of the columns of all ranks, and the triangle of columns around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

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
    """Compute the moments in one pass. Collective.

    Means and squares of blocks are merged without a difference of large sums (T. Chan, G. Golub and
    R. LeVeque, 1983, The American Statistician 37).

    Raises
    ------
    InvalidError
        If no rank has a row with a weight.
    """
    count, weight = 0, 0.0
    mean, squares = np.zeros(rows.width), np.zeros(rows.width)

    def take(block: Block) -> None:
        nonlocal count, weight, mean, squares
        count += int((block.weight > 0).sum())
        added = float(block.weight.sum())
        if added == 0:
            return
        near = block.x[0]  # so constant columns have no rounding
        middle = near + block.weight @ (block.x - near) / added
        total = weight + added
        gap = middle - mean
        squares = squares + block.weight @ (block.x - middle) ** 2 + gap**2 * weight * added / total
        mean = mean + gap * (added / total)
        weight = total

    rows.each(take)
    sums = rows.comm.allreduce(np.concatenate([[count, weight], weight * mean]))
    check_count(int(sums[0]))
    middle = sums[2:] / sums[1]
    parts = np.stack([squares + weight * (mean - middle) ** 2, weight * (mean - middle)])
    parts = rows.comm.allreduce(parts)
    return Moments(int(sums[0]), float(sums[1]), middle + parts[1] / sums[1], parts[0])


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
