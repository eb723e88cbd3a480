# SPDX-License-Identifier: Apache-2.0
"""The minimum of a quadratic function with the penalty of the elastic net, on rank 0.

The function is ``b @ gram @ b / 2 - linear @ b + first @ abs(b) + second @ b**2 / 2``. Coordinate
descent (J. Friedman, T. Hastie and R. Tibshirani, 2010, Journal of Statistical Software 33) runs
until the signs stay. Then linear equations have the exact minimum of these signs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sparkring.models._table import Array

SWEEPS = 2000


def minimise(gram: Array, linear: Array, start: Array, first: Array, second: Array) -> Array:
    """Return the minimum. ``first`` may be infinite, for coefficients that stay 0.

    Only coefficients that are not 0 at the start are moved at first. Those that violate the
    conditions of Karush, Kuhn and Tucker join them.
    """
    b = np.where(np.isfinite(first), start, 0.0)
    slack = 1e-13 * max(float(np.abs(linear).max(initial=0)), 1e-300)
    active = (b != 0) | (first == 0)
    while True:
        at = np.flatnonzero(active)
        b[at] = descend(gram[np.ix_(at, at)], linear[at], b[at], first[at], second[at])
        gradient = linear - gram[:, at] @ b[at]
        outside = ~active & (np.abs(gradient) > first + slack)
        if not outside.any():
            return b
        active |= outside


def descend(gram: Array, linear: Array, b: Array, first: Array, second: Array) -> Array:
    """Return the minimum, all coefficients being moved."""
    b = np.array(b)
    curvature = np.diag(gram) + second
    residual = linear - gram @ b
    signs = None
    for _ in range(SWEEPS):
        moved = 0.0
        for j in np.flatnonzero(curvature > 0):
            z = residual[j] + gram[j, j] * b[j]
            new = np.copysign(max(abs(z) - first[j], 0.0), z) / curvature[j]
            if new != b[j]:
                residual -= gram[:, j] * (new - b[j])
                moved = max(moved, abs(new - b[j]) * np.sqrt(curvature[j]))
                b[j] = new
        if signs is not None and np.array_equal(np.sign(b), signs):
            found = exact(gram, linear, b, first, second)
            if found is not None:
                return found
        signs = np.sign(b)
        if moved < 1e-15:
            break
    return b


def exact(gram: Array, linear: Array, b: Array, first: Array, second: Array) -> Array | None:
    """Return the minimum, if its signs are those of ``b``."""
    used = np.flatnonzero(b)
    found = np.zeros(len(b))
    if len(used):
        matrix = gram[np.ix_(used, used)] + np.diag(second[used])
        try:
            solved = np.linalg.solve(matrix, linear[used] - first[used] * np.sign(b[used]))
        except np.linalg.LinAlgError:  # columns that depend on each other
            return None
        if not np.array_equal(np.sign(solved), np.sign(b[used])):
            return None
        found[used] = solved
    rest = np.abs(linear - gram @ found)
    slack = 1e-13 * max(float(np.abs(linear).max(initial=0)), 1e-300)
    return found if (rest[b == 0] <= first[b == 0] + slack).all() else None
