# SPDX-License-Identifier: Apache-2.0
"""Tails of distributions. Those of the normal distribution need no SciPy."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import UnsupportedError

if TYPE_CHECKING:
    from sparkring.models._table import Array

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


def student_tails(t: Any, freedom: float) -> Array:
    """Return the probabilities of more than abs(t) on both sides of Student's distribution."""
    square = np.asarray(t, np.float64) ** 2
    part = freedom / (freedom + square) if freedom > 0 else np.full(square.shape, math.nan)
    found: Array = _special("t tests").betainc(freedom / 2, 0.5, part)
    return found


def chi_squared_tail(x: float, freedom: float) -> float:
    """Return the probability of more than x in the chi squared distribution."""
    if x <= 0:  # also with 0 degrees of freedom
        return 1.0
    return float(_special("chi squared tests").gammaincc(freedom / 2, x / 2))


def _special(tests: str) -> Any:
    try:
        from scipy import special  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as error:
        raise UnsupportedError(f"the p-values of {tests} need SciPy: pip install scipy") from error
    return special
