# SPDX-License-Identifier: Apache-2.0
"""Checks of parameters, which are the same on all ranks already, so all ranks raise alike."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from sparkring._arguments import check_choice, check_whole
from sparkring._core import InvalidError

__all__ = [
    "check_choice",
    "check_flag",
    "check_iterations",
    "check_number",
    "check_seed",
    "check_whole",
]


def check_number(name: str, value: Any, least: float, most: float = math.inf) -> float:
    """Return a finite number from the least to the most."""
    plain = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if plain and math.isfinite(value) and least <= value <= most:
        return float(value)
    limit = f"from {least} on" if most == math.inf else f"from {least} to {most}"
    raise InvalidError(f"{name} is {value!r}: it must be a number {limit}")


def check_seed(value: Any) -> None:
    """Refuse seeds that are no whole numbers."""
    if value is not None:
        check_whole("random_state", value, 0)


def check_iterations(model: Any) -> None:
    """Refuse an intercept, a number of iterations or a tolerance that no fit has."""
    check_flag("fit_intercept", model.fit_intercept)
    check_whole("max_iter", model.max_iter, 1)
    check_number("tol", model.tol, 0)


def check_flag(name: str, value: Any) -> bool:
    """Refuse all but True and False."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise InvalidError(f"{name} is {value!r}: it must be True or False")
