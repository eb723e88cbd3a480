# SPDX-License-Identifier: Apache-2.0
"""The QR decomposition of a matrix whose rows are spread over the ranks (TSQR).

A rank decomposes its rows block by block. Triangles of two ranks are stacked and decomposed again,
along a binomial tree that ends on rank 0. Nothing is squared, so singular values keep their digits
(J. Demmel, L. Grigori, M. Hoemmen and J. Langou, 2012, SIAM Journal on Scientific Computing 34).
Only R is computed, on rank 0. `lead` sends what rank 0 makes of it to all ranks, because processors
that round differently would compute different results.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import numpy as np

from sparkring._agree import agree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sparkring._core import Communicator
    from sparkring.models._rows import Block, Rows
    from sparkring.models._table import Array


def append(triangle: Array, rows: Array) -> Array:
    """Return R of the rows of a triangle and further rows."""
    found: Any = np.linalg.qr(np.concatenate([triangle, rows]), mode="r")
    return found  # type: ignore[no-any-return] # the stubs of NumPy know no mode


def gather(rows: Rows, width: int, matrix: Callable[[Block], Array]) -> Array | None:
    """Return R of ``matrix(block)`` of all blocks on rank 0, and None elsewhere. Collective.

    R is square. Its diagonal is not negative, so R does not depend on the number of ranks, up to
    rounding.
    """
    triangle = np.zeros((0, width))

    def take(block: Block) -> None:
        nonlocal triangle
        triangle = append(triangle, matrix(block))

    rows.each(take)
    return combine(rows.comm, triangle)


def combine(comm: Communicator, triangle: Array) -> Array | None:
    """Return R of the triangles of all ranks on rank 0, and None elsewhere. Collective."""
    triangle = square(triangle)
    step = 1
    while step < comm.size:
        if comm.rank % (2 * step) == step:
            comm.send(triangle, comm.rank - step)
            return None
        if comm.rank + step < comm.size:
            triangle = append(triangle, comm.recv(triangle, comm.rank + step))
        step *= 2
    signs: Array = np.where(np.diag(triangle) < 0, -1.0, 1.0)
    return triangle * signs[:, None]


def square(triangle: Array) -> Array:
    """Add the rows of zeros that R of few rows lacks."""
    width = triangle.shape[1]
    found = np.zeros((width, width))
    found[: len(triangle)] = triangle
    return found


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
    rest = np.array(triangle)
    width = rest.shape[1] - 1
    lengths = np.linalg.norm(rest, axis=0)
    kept: list[int] = []
    for column in range(width):
        row = len(kept)
        vector = np.array(rest[row:, column])
        size = np.linalg.norm(vector)
        if size <= tolerance * lengths[column]:
            continue
        kept.append(column)
        vector[0] += np.copysign(size, vector[0])
        vector /= np.linalg.norm(vector)
        rest[row:] -= 2 * np.outer(vector, vector @ rest[row:])
    rank = len(kept)
    root, effects = np.triu(rest[:rank][:, kept]), rest[:rank, -1]
    coefficients, unscaled = np.zeros(width), np.zeros((width, width))
    coefficients[kept] = np.linalg.solve(root, effects)
    inverse = np.linalg.solve(root, np.eye(rank))
    unscaled[np.ix_(kept, kept)] = inverse @ inverse.T
    mask = np.zeros(width, bool)
    mask[kept] = True
    return Solution(coefficients, mask, unscaled)
