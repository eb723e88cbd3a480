# SPDX-License-Identifier: Apache-2.0
"""Adasum: a sum of gradients that does not count what they have in common twice.

Maleki et al., "Scaling Distributed Training with Adaptive Summation" (2020): two gradients a and b
become (1 - ab / 2aa) a + (1 - ab / 2bb) b, and pairs are combined in a tree. Orthogonal gradients
add up, and equal gradients stay what they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def adasum(rows: Any) -> Any:
    """Combine the rows of an array of floating-point numbers, in float64."""
    parts = [np.asarray(row, "float64") for row in rows]
    while len(parts) > 1:
        pairs = [_pair(a, b) for a, b in zip(parts[::2], parts[1::2])]
        parts = pairs + parts[2 * len(pairs) :]
    return parts[0]


def _pair(a: Any, b: Any) -> Any:
    common = float(np.vdot(a, b))
    squares = [float(np.vdot(each, each)) for each in (a, b)]
    first, second = (1 - common / (2 * square) if square > 0 else 1.0 for square in squares)
    return first * a + second * b
