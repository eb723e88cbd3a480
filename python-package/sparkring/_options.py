# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments and options. Each check returns the value for the core.

An option of the wrong type is an `InvalidError`, an argument of a method a `TypeError`.
"""

from __future__ import annotations

import contextlib
import math
import numbers
import operator
from collections.abc import Iterable

from sparkring._core import InvalidError


def _check_whole(name: str, value: int) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidError(
            f"{name} is of type {type(value).__name__}: it must be a whole number"
        ) from None


def check_text(name: str, text: str) -> str:
    """Accept a string that C can hold."""
    if not isinstance(text, str):
        raise InvalidError(f"{name} is of type {type(text).__name__}, not str")
    if "\0" in text:
        raise InvalidError(f"{name} is {text!r}: it must not have a null character")
    return text


def check_argument(name: str, value: int, otherwise: str = "") -> int:
    """Accept a rank or a tag of a method, which the core counts in 31 bits."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name} must be a whole number{otherwise}, not {type(value).__name__}"
        ) from None
    if number < 0:
        raise InvalidError(f"{name} is {value}: it must be 0 or more{otherwise}")
    if number >= 2**31:
        raise InvalidError(f"{name} is {value}: it must be less than 2**31{otherwise}")
    return number


def check_count(name: str, count: int | None) -> int:
    """Return 0, the default of the core, for None."""
    if count is None:
        return 0
    if _check_whole(name, count) < 1:
        raise InvalidError(f"{name} is {count}: it must be 1 or more")
    return count


def check_encryption(encryption: bool | None) -> bool | None:
    """Return None, the default of the core, for None."""
    return None if encryption is None else check_flag("encryption", encryption)


def check_flag(name: str, flag: bool) -> bool:
    """Refuse a string, which would count as true."""
    if isinstance(flag, (str, bytes)):
        raise InvalidError(f"{name} must be True or False, not {flag!r}")
    return bool(flag)


def check_token(token: str | bytes | None) -> bytes | None:
    """Encode a string in UTF-8. Python's own error would show the whole token."""
    if not isinstance(token, (str, bytes, bytearray, memoryview, type(None))):
        raise InvalidError(f"token is of type {type(token).__name__}, not str or bytes")
    if not isinstance(token, str):
        return token
    with contextlib.suppress(UnicodeEncodeError):
        return token.encode()
    raise InvalidError("the token has a character that UTF-8 lacks: pass it as bytes")


def check_rank(rank: int | None) -> int:
    """Return -1 for None: the core then reads the environment."""
    if rank is None:
        return -1
    if _check_whole("rank", rank) < 0:
        raise InvalidError(f"rank is {rank}: ranks go from 0 to size - 1")
    return rank


def check_addresses(addresses: Iterable[str] | None) -> tuple[str, ...] | None:
    """Refuse a single string, which would be an address for each letter."""
    if addresses is None:
        return None
    if isinstance(addresses, (str, bytes)):
        raise InvalidError("addresses is one string: pass a list with the address of every rank")
    hosts = tuple(addresses)
    if not hosts:
        raise InvalidError("addresses is empty: pass the address of every rank, in rank order")
    for rank, host in enumerate(hosts):
        check_text(f"the address of rank {rank}", host)
    return hosts


def check_ports(ports: tuple[int, int] | None) -> tuple[int, int]:
    """Return 0 for None: any port."""
    if ports is None:
        return 0, 0
    try:
        first, last = map(operator.index, ports)
    except (TypeError, ValueError):
        raise InvalidError(
            f"ports is {ports!r}: give the first and the last port to listen on, as two numbers"
        ) from None
    if not 1 <= first <= last <= 65535:
        raise InvalidError(
            f"the port range {first} to {last} is bad: give its first and its last port, from 1 to"
            " 65535"
        )
    return first, last


def _check_real(name: str, seconds: float) -> float:
    if not isinstance(seconds, numbers.Real):
        raise InvalidError(
            f"{name} is of type {type(seconds).__name__}: it must be a number of seconds"
        )
    return float(seconds)


def check_seconds(name: str, seconds: float | None) -> float:
    """Return 0, the default of the core, for None."""
    if seconds is None:
        return 0.0
    seconds = _check_real(name, seconds)
    if not seconds > 0:
        raise InvalidError(f"{name} is {seconds:g}: it must be a positive number of seconds")
    return seconds


def check_warn_after(seconds: float | None) -> float:
    """Return 0, the default of the core, for None, and a negative number for never."""
    if seconds is None:
        return 0.0
    seconds = _check_real("warn_after", seconds)
    if not 0 <= seconds < math.inf:
        raise InvalidError(
            f"warn_after is {seconds:g}: it must be a number of seconds, or 0 for no warnings"
        )
    return seconds or -1.0
