# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of `batches` and `parquet`. Each check returns the value to use."""

from __future__ import annotations

import numbers
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from sparkring._communicator import Communicator
from sparkring._core import InvalidError
from sparkring.data._number import is_number


def check_communicator(comm: Any) -> Communicator:
    """Refuse anything else."""
    if not isinstance(comm, Communicator):
        raise InvalidError(
            f"comm is of type {type(comm).__name__}: pass the communicator that sparkring.init()"
            " returned"
        )
    return comm


def check_whole(name: str, value: Any, least: int) -> int:
    """Return a whole number, not below the least."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise InvalidError(f"{name} is {value!r}: it must be a whole number from {least} on")
    return number


def check_missing(given: Any, *, texts: bool = False) -> Any:
    """Return the argument ``missing`` as whole numbers, floats and, if they may be, texts."""
    if isinstance(given, Mapping):
        return {name: check_missing(value, texts=texts) for name, value in given.items()}
    if texts and isinstance(given, (str, bytes)):
        return given
    if isinstance(given, (bool, numbers.Integral, np.bool_)):
        return int(given)
    if isinstance(given, numbers.Real):
        return float(given)
    if given is not None:
        raise InvalidError(f"missing is {given!r}: pass the number that replaces nulls")
    return None


def check_dtypes(asked: Any) -> Any:
    """Read the argument ``dtype``: one, one by name, or None."""
    if isinstance(asked, Mapping):
        return {name: check_dtypes(dtype) for name, dtype in asked.items()}
    try:
        dtype = None if asked is None else np.dtype(asked)
    except TypeError:
        raise InvalidError(f"dtype is {asked!r}: NumPy does not know it") from None
    if dtype is not None and not is_number(dtype):
        raise InvalidError(f"dtype is {asked!r}: batches hold numbers and booleans")
    return dtype


def check_choice(name: str, value: Any, values: tuple[Any, ...]) -> Any:
    """Accept one of the values."""
    if value not in values:
        raise InvalidError(f"{name} is {value!r}: it must be one of {', '.join(map(repr, values))}")
    return value
