# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments, which data and models share. Each check returns the value to use."""

from __future__ import annotations

import operator
from typing import Any

from sparkring._communicator import Communicator
from sparkring._core import InvalidError


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


def check_choice(name: str, value: Any, values: tuple[Any, ...]) -> Any:
    """Accept one of the values."""
    if value not in values:
        raise InvalidError(f"{name} is {value!r}: it must be one of {', '.join(map(repr, values))}")
    return value
