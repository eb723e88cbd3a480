# SPDX-License-Identifier: Apache-2.0
"""Operations in flight, and the integers that stand for them in Horovod's API."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable
from typing import Any, Protocol

from sparkring._core import RingError
from sparkring._horovod.errors import HorovodInternalError, internal_errors

Finish = Callable[[Any], Any]


class Waitable(Protocol):
    """A submission, or an operation of submissions."""

    def wait(self) -> Any:
        """Wait until it is done, and return its result."""

    def test(self) -> bool:
        """Tell whether it is done, without waiting."""


class Pending:
    """An operation of one submission, or of a list of submissions or operations.

    ``finish`` makes the result from that of the submission, or from the list of results. It runs
    once, in the first `wait`.
    """

    __slots__ = ("_ended", "_finish", "_result", "_works")

    def __init__(self, works: Waitable | list[Any], finish: Finish | None = None) -> None:
        self._works: Any = works
        self._finish, self._result, self._ended = finish, None, False

    def test(self) -> bool:
        """Tell whether the operation is complete or has failed, without waiting."""
        try:
            return self._ended or all(each.test() for each in self._list())
        except RingError:
            return True

    def wait(self) -> Any:
        """Wait for the operation and return the result. Raise HorovodInternalError."""
        if not self._ended:
            works = self._works
            with internal_errors():
                one = not isinstance(works, list)
                result: Any = works.wait() if one else [each.wait() for each in works]
            self._result = result if self._finish is None else self._finish(result)
            self._ended = True
        return self._result

    def settle(self) -> None:
        """Wait until no array is in use any more, also after errors."""
        for each in self._list():
            if isinstance(each, Pending):
                each.settle()
            else:
                with contextlib.suppress(RingError):
                    each.wait()

    def _list(self) -> list[Any]:
        return self._works if isinstance(self._works, list) else [self._works]

    @property
    def rows(self) -> list[int] | None:
        """Rows from each rank, of a complete allgather or alltoall."""
        rows: list[int] | None = self._list()[0].rows
        return rows

    def then(self, finish: Finish) -> Pending:
        """Make the result of ``finish`` the result of the operation."""
        before = self._finish
        self._finish = finish if before is None else lambda result: finish(before(result))
        return self


_table: dict[int, Pending] = {}
_numbers = itertools.count(1)
_lock = threading.Lock()


def register(pending: Pending) -> int:
    """Return the handle of an operation."""
    with _lock:
        handle = next(_numbers)
        _table[handle] = pending
    return handle


def poll(handle: int) -> bool:
    """Tell whether the operation of a handle is complete or has failed, without waiting.

    Parameters
    ----------
    handle : int
        The handle that an operation with ``_async`` in its name has returned.

    Returns
    -------
    bool
        True also for an operation that has failed, whose error `synchronize` raises.

    Raises
    ------
    HorovodInternalError
        For a handle that is unknown, because `synchronize` or `shutdown` has ended it.
    """
    return _find(handle).test()


def synchronize(handle: int) -> Any:
    """Wait for the operation of a handle and return its result. The handle ends with the call.

    Parameters
    ----------
    handle : int
        The handle that an operation with ``_async`` in its name has returned. It is unknown
        afterwards.

    Returns
    -------
    Tensor, list of Tensor, or tuple of Tensor
        The result of the operation.

    Raises
    ------
    HorovodInternalError
        When the operation has failed, and for an unknown handle.
    """
    pending = _find(handle)
    try:
        return pending.wait()
    finally:
        with _lock:
            _table.pop(handle, None)


def in_flight() -> int:
    """Count the handles whose operations are not complete."""
    with _lock:
        return sum(not pending.test() for pending in _table.values())


def forget() -> None:
    """Drop the handles of a context that has ended."""
    with _lock:
        _table.clear()


def _find(handle: int) -> Pending:
    pending = _table.get(handle)
    if pending is None:
        raise HorovodInternalError(
            f"the handle {handle!r} is unknown: synchronize() was called on it, or shutdown()"
        )
    return pending
