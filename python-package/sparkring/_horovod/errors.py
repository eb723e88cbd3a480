# SPDX-License-Identifier: Apache-2.0
"""The error of Horovod's API, which scripts and `elastic.run` catch."""

from __future__ import annotations

from typing import Any

from sparkring._core import InvalidError, RingError


class HorovodInternalError(RuntimeError):
    """A collective has failed; ``__cause__`` is the `RingError` with status and rank."""


class ArgumentError(ValueError, RuntimeError):
    """An argument is wrong on this rank. Horovod raises either of the two."""


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
