# SPDX-License-Identifier: Apache-2.0
"""Conversion to doubles that loses nothing in silence: no unit of a time, no digit of a number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import InvalidError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import TypeAlias

    Array: TypeAlias = NDArray[np.float64]

EXACT = 2.0**53  # doubles hold all whole numbers below


def doubles(values: Any, what: str) -> Array:
    """Convert numbers and booleans.

    Raises
    ------
    InvalidError
        For times, strings and complex numbers, and for whole numbers that no double holds.
    """
    found = np.asarray(values)
    check_exact(found, what)
    try:
        return np.asarray(found, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidError(f"{what} must be numbers: {error}") from None


def check_exact(values: NDArray[Any], what: str) -> None:
    """Refuse values whose conversion would lose a unit or digits."""
    kind = values.dtype.kind
    if kind in "mM":
        raise has_unit(what, values.dtype)
    if kind in "SU":
        raise InvalidError(f"{what} must be numbers, and holds strings")
    if kind == "c":
        raise InvalidError(f"{what} has complex numbers: Complex data not supported")
    if kind in "iu" and values.dtype.itemsize == 8 and values.size:
        check_whole_numbers(max(int(values.max()), -int(values.min())), what)
    if kind == "O":
        for value in values.ravel():
            if isinstance(value, (np.datetime64, np.timedelta64)):
                raise has_unit(what, value.dtype)
            if isinstance(value, (int, np.integer)):
                check_whole_numbers(abs(int(value)), what)


def check_whole_numbers(largest: float, what: str) -> None:
    """Refuse whole numbers, of which this is the largest, beyond those that doubles hold."""
    if largest < EXACT:
        return
    raise InvalidError(
        f"{what} has whole numbers of 2**53 or more, which lose digits as float64: subtract an"
        " origin, or accept the loss by astype('float64')"
    )


def has_unit(what: str, dtype: Any) -> InvalidError:
    """Make the error for times."""
    return InvalidError(
        f"{what} has times of type {dtype}, whose unit would be lost: subtract an origin from"
        " dates, and divide durations by a unit, such as numpy.timedelta64(1, 's')"
    )
