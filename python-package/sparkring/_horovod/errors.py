# SPDX-License-Identifier: Apache-2.0
"""The error of Horovod's API, which scripts and `elastic.run` catch."""

from __future__ import annotations

from typing import Any

from sparkring._core import InvalidError, RingError


class HorovodInternalError(RuntimeError):
    """A collective has failed; ``__cause__`` is the `RingError` with status and rank."""


class ArgumentError(ValueError, RuntimeError):
    """An argument is wrong on this rank. Horovod raises either of the two."""


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


class _InternalErrors:
    """A context that raises errors of the core as `HorovodInternalError` or `ArgumentError`.

    A class, as a generator would cost a third of a short operation.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, InvalidError):
            raise ArgumentError(str(error)) from error
        if isinstance(error, RingError):
            raise HorovodInternalError(f"{type(error).__name__}: {error}") from error


_INTERNAL_ERRORS = _InternalErrors()


def internal_errors() -> _InternalErrors:
    """Return the context that raises errors of the core as `HorovodInternalError`.

    A bad argument, a name in flight among them, is an `ArgumentError` on its rank alone.
    """
    return _INTERNAL_ERRORS
