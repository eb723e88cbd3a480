# SPDX-License-Identifier: Apache-2.0
"""Singular vectors of wide rows, by projections to random directions.

No matrix is made with a row and a column for each feature. R's svd_random() in svd.R does the same.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring.models import _tsqr as tsqr
from sparkring.models._tsqr import lead

if TYPE_CHECKING:
    from sparkring.models._rows import Rows
    from sparkring.models._table import Array

WIDE = 2000  # columns from which on "auto" is randomized
EXTRA = 10  # directions beside those that are wanted


def is_wanted(way: str, rows: Rows) -> bool:
    """Return whether the rows are decomposed here."""
    return way == "randomized" or (way == "auto" and rows.width > WIDE)


def decompose(
    rows: Rows, mean: Array, count: int, power: int, seed: int | None
) -> tuple[Array, Array]:
    """Return the largest singular values of the rows less their mean, and right vectors as rows.

    The same on all ranks. The error falls with the gap between the singular values ``count`` and
    ``count + 10``, to the power of ``1 + 2 * power``. Collective.

    References
    ----------
    N. Halko, P. Martinsson and J. Tropp (2011). Finding structure with randomness. SIAM Review
    53(2).
    """
    shape = rows.width, min(count + EXTRA, rows.width)
    found = lead(rows.comm, lambda: {"left": np.random.default_rng(seed).normal(size=shape)})
    for _ in range(1 + power):
        basis = orthonormal(rows, mean, orthonormal(rows, mean, found["left"]))
        found = lead(rows.comm, functools.partial(vectors_of, project(rows, mean, basis)))
    singular, right = np.zeros(count), np.zeros((count, rows.width))
    known = min(count, len(found["singular"]))  # the rest is 0
    singular[:known] = found["singular"][:known]
    right[:known] = signed(found["left"].T[:known])
    return singular, right


def vectors_of(projected: Array) -> dict[str, Array]:
    """Return the left singular vectors and the singular values."""
    left, singular, _ = np.linalg.svd(projected, full_matrices=False)
    return {"left": left, "singular": singular}


def signed(vectors: Array) -> Array:
    """Return vectors, the rows, with a positive largest element."""
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, None], axis=1)
    found: Array = vectors * np.where(largest < 0, -1.0, 1.0)
    return found


def orthonormal(rows: Rows, mean: Array, test: Array) -> Array:
    """Return a matrix by which the rows are orthonormal, and span the rows times ``test``.

    Directions that depend on others, up to rounding, are left out. Collective.
    """
    triangle = tsqr.gather(rows, test.shape[1], lambda block: (block.x - mean) @ test)

    def invert() -> dict[str, Array]:
        assert triangle is not None
        _, singular, right = np.linalg.svd(triangle)
        kept = singular > len(singular) * np.finfo(float).eps * singular[0]
        return {"basis": test @ (right[kept].T / singular[kept])}

    return lead(rows.comm, invert)["basis"]


def project(rows: Rows, mean: Array, basis: Array) -> Array:
    """Return the transposed rows times the rows times a matrix. Collective."""

    def of_block(block: Any) -> Array:
        x = block.x - mean
        found: Array = (x.T @ (x @ basis)).ravel()
        return found

    return rows.total(basis.size, of_block).reshape(basis.shape)
