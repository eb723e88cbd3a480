# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments: each names the argument and what to pass."""

from __future__ import annotations

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
