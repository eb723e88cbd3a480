# SPDX-License-Identifier: Apache-2.0
"""The QR decomposition of a matrix whose rows are spread over the ranks (TSQR).

A rank decomposes its rows block by block, by numerics/triangle.h. Triangles of two ranks are
stacked and decomposed again, along a binomial tree that ends on rank 0. Only R is computed, on rank
0. `lead` sends what rank 0 makes of it to all ranks, because processors that round differently
would compute different results.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import numpy as np

from sparkring import _numerics as numerics
from sparkring._agree import agree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sparkring._communicator import Communicator
    from sparkring.models._rows import Block, Rows
    from sparkring.models._table import Array


class Triangle:
    """R of the rows of this rank.

    Parameters
    ----------
    width : int
        The numbers of a row.
    centered : bool
        Whether the first column is 1: the other columns then keep their digits far from 0.

    Attributes
    ----------
    rows : int
        The rows of all ranks that count, after `combine` on rank 0.
    """

    def __init__(self, width: int, centered: bool = False) -> None:
        self.width = width
        self.state = np.empty(numerics.triangle_size(width))
        self.rows = 0
        numerics.triangle_open(self.state, width, centered)

    def add(
        self,
        x: Array,
        last: Array | None = None,
        roots: Array | None = None,
        ones: bool = False,
    ) -> None:
        """Add rows: 1 with ``ones``, ``x`` and ``last``, times the ``roots`` of their weights."""
        last = None if last is None else np.ascontiguousarray(last)
        numerics.triangle_add(self.state, np.ascontiguousarray(x), last, roots, ones)

    def combine(self, comm: Communicator) -> Array | None:
        """Return R of the rows of all ranks on rank 0, and None elsewhere. Collective.

        R is square. Its diagonal is not negative, so R does not depend on the number of ranks, up
        to rounding.
        """
        numerics.triangle_close(self.state, self.width)
        message = self.state[: numerics.triangle_message(self.width)]
        step = 1
        while step < comm.size:
            if comm.rank % (2 * step) == step:
                comm.send(message, comm.rank - step)
                return None
            if comm.rank + step < comm.size:
                other = comm.recv(message, comm.rank + step)
                numerics.triangle_merge(self.state, other, self.width)
            step *= 2
        self.rows = int(message[-1])
        numerics.triangle_finish(message, self.width)
        return message[: self.width**2].reshape(self.width, self.width)


def gather(rows: Rows, width: int, matrix: Callable[[Block], Array]) -> Array | None:
    """Return R of ``matrix(block)`` of all blocks on rank 0, and None elsewhere. Collective."""
    triangle = Triangle(width)
    rows.each(lambda block: triangle.add(matrix(block)))
    return triangle.combine(rows.comm)


def lead(comm: Communicator, make: Callable[[], Mapping[str, Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays that ``make`` returns on rank 0, as float64, on every rank. Collective."""
    made = agree(comm, lambda: make() if comm.rank == 0 else {})
    arrays = {name: np.asarray(value, np.float64) for name, value in made.items()}
    header = json.dumps([[name, values.shape] for name, values in arrays.items()]).encode()
    length = int(comm.broadcast(np.array([len(header)]))[0])
    text = np.frombuffer(header, np.uint8) if comm.rank == 0 else np.empty(length, np.uint8)
    shapes = json.loads(comm.broadcast(text).tobytes())
    numbers = np.empty(sum(int(np.prod(shape)) for _, shape in shapes))
    if comm.rank == 0 and arrays:
        numbers = np.concatenate([values.ravel() for values in arrays.values()])
    numbers = comm.broadcast(numbers)
    found, start = {}, 0
    for name, shape in shapes:
        end = start + int(np.prod(shape))
        found[name] = numbers[start:end].reshape(shape)
        start = end
    return found


class Solution(NamedTuple):
    """Least squares from a triangle.

    Attributes
    ----------
    coefficients : array
        0 for columns that depend on columns before them.
    kept : array of bool
        The other columns.
    unscaled : array
        The inverse of the cross products of the kept columns; 0 elsewhere.
    """

    coefficients: Array
    kept: NDArray[np.bool_]
    unscaled: Array


def solve(triangle: Array, tolerance: float = 1e-7) -> Solution:
    """Solve least squares, where the last column of the triangle is the response.

    A column depends on columns before it, if less than ``tolerance`` of its length is left without
    their directions, as in ``lm()`` of R.
    """
    width = triangle.shape[1] - 1
    order = np.empty(width, np.int32)
    coefficients, effects = np.empty((2, width))
    root, inverse = np.empty((2, width, width))
    rank, _ = numerics.least_squares(
        np.ascontiguousarray(triangle), tolerance, order, coefficients, effects, root, inverse
    )
    used = order[:rank]
    kept = np.zeros(width, bool)
    kept[used] = True
    unscaled = np.zeros((width, width))
    unscaled[np.ix_(used, used)] = inverse[:rank, :rank]
    return Solution(np.where(kept, coefficients, 0.0), kept, unscaled)
