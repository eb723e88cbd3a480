# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of `batches` and `parquet`. Each check returns the value to use."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from sparkring._core import InvalidError
from sparkring._tables.number import is_number


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
