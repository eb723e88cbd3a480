# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments: each names the argument and what to pass. Texts of arguments to compare."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from sparkring._horovod.errors import ArgumentError


def check_type(argument: str, value: object, accepted: type, remedy: str) -> None:
    """Raise `ArgumentError` for an argument of another type than ``accepted``."""
    if not isinstance(value, accepted):
        raise ArgumentError(f"{argument} is of type {type(value).__name__}: pass {remedy}")


def check_compression(compression: object) -> None:
    """Raise `ArgumentError` for what compresses nothing, such as the name of a type."""
    if not hasattr(compression, "compress"):
        raise ArgumentError(
            f"compression is {compression!r}: pass Compression.none, Compression.fp16 or"
            " Compression.bf16"
        )


def describe(**settings: object) -> str:
    """Return the settings that are not None, False or the number 1, such as "groups=2"."""
    given = {
        name: value
        for name, value in settings.items()
        if not (value is None or value is False or (value is not True and value == 1))
    }
    return ", ".join(f"{name}={value}" for name, value in given.items())


def describe_names(names: Iterable[str]) -> str:
    """Return the number of names and a checksum of them, in any order."""
    ordered = sorted(names)
    return f"{len(ordered)} names with checksum {zlib.crc32(repr(ordered).encode()):08x}"


def join_texts(*texts: str | None) -> str:
    """Return the texts that are not empty, with commas."""
    return ", ".join(each for each in texts if each)


def part_of(name: str | None, part: object) -> str | None:
    """Name a part of an operation, if the operation has a name."""
    return None if name is None else f"{name}.{part}"
