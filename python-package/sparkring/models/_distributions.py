# SPDX-License-Identifier: Apache-2.0
"""Tails of distributions, without SciPy.

Continued fractions are evaluated by Lentz's method (W. Lentz, 1976, Applied Optics 15).
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

if TYPE_CHECKING:
    from sparkring.models._table import Array

TINY = 1e-300
_erfc = np.frompyfunc(math.erfc, 1, 1)
_lgamma = np.frompyfunc(math.lgamma, 1, 1)
_quantile = np.frompyfunc(NormalDist().inv_cdf, 1, 1)


def normal_tail(x: Any) -> Array:
    """Return the probability of more than x in a normal distribution."""
    found: Array = np.asarray(_erfc(np.asarray(x, np.float64) / math.sqrt(2)), np.float64) / 2
    return found


def normal_quantile(p: Any) -> Array:
    """Return the number below which a normal distribution has the probability p."""
    return np.asarray(_quantile(np.asarray(p, np.float64)), np.float64)


def log_gamma(x: Any) -> Array:
    """Return the logarithm of the gamma function."""
    return np.asarray(_lgamma(np.asarray(x, np.float64)), np.float64)


def student_tails(t: float, freedom: float) -> float:
    """Return the probability of more than abs(t) on both sides of Student's distribution."""
    if not math.isfinite(t) or freedom <= 0:
        return 0.0 if math.isinf(t) and freedom > 0 else math.nan
    return beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def chi_squared_tail(x: float, freedom: float) -> float:
    """Return the probability of more than x in the chi squared distribution."""
    if x <= 0:
        return 1.0
    a, z = freedom / 2, x / 2
    scale = math.exp(a * math.log(z) - z - math.lgamma(a))
    if z >= a + 1:
        return scale / fraction(z + 1 - a, lambda i: -i * (i - a), lambda i: z + 2 * i + 1 - a)
    term = total = 1 / a
    place = a
    while term > total * 1e-17:
        place += 1
        term *= z / place
        total += term
    return 1 - scale * total


def beta(a: float, b: float, x: float) -> float:
    """Return the regularized incomplete beta function."""
    if x <= 0 or x >= 1:
        return min(1.0, max(0.0, x))
    if x > (a + 1) / (a + b + 2):
        return 1 - beta(b, a, 1 - x)
    front = math.exp(
        a * math.log(x)
        + b * math.log1p(-x)
        - math.log(a)
        + math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
    )

    def term(i: int) -> float:
        m = i // 2
        if i % 2 == 0:
            return m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        return -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))

    return front / fraction(1.0, term, lambda i: 1.0)


def fraction(
    first: float, numerator: Callable[[int], float], denominator: Callable[[int], float]
) -> float:
    """Return first + n(1) / (d(1) + n(2) / (d(2) + ...))."""
    value = ratio = first or TINY
    inverse = 0.0
    for i in range(1, 10_000):
        inverse = 1 / (denominator(i) + numerator(i) * inverse or TINY)
        ratio = denominator(i) + numerator(i) / ratio or TINY
        value *= inverse * ratio
        if abs(inverse * ratio - 1) < 1e-16:
            break
    return value
