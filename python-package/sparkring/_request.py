# SPDX-License-Identifier: Apache-2.0
"""Awaiting a request in asyncio.

The event loop polls the request. A waiting thread would react sooner, but cannot be cancelled, and
asyncio has few threads.

A request is a `collections.abc.Coroutine`, too, because `asyncio.create_task` and `asyncio.run`
take nothing else. The request keeps no state for tasks: each `send` of a task gives the task a
waiter of its own, so any number of tasks may wait for one request.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from types import TracebackType
from typing import Any, NoReturn

from sparkring._core import Request

_BRISK = 50e-6  # seconds of polling in every turn of the loop; then about every millisecond
_LONGEST = 5e-3  # seconds between two polls


async def _done(request: Request[Any]) -> Any:
    """Poll at once, and then in steps that grow with the elapsed time."""
    import asyncio  # not at the top: a sixth of the time of `import sparkring`

    start = time.monotonic()
    while not request.test():
        passed = time.monotonic() - start
        await asyncio.sleep(0 if passed < _BRISK else min(passed / 4, _LONGEST))
    return request.wait()


def _await(self: Request[Any]) -> Generator[Any, None, Any]:
    """Wait without blocking the event loop; return the result of `wait`."""
    return _done(self).__await__()


def _send(self: Request[Any], _: None, /) -> Any:
    """Advance as a coroutine of an asyncio task: return a waiter, or stop with the result.

    Parameters
    ----------
    _ : None
        What asyncio passes.

    Returns
    -------
    asyncio.Future
        A waiter for the task.

    Raises
    ------
    StopIteration
        When the request is complete; its value is the result of `wait`.
    """
    import asyncio

    if self.test():
        raise StopIteration(self.wait())
    return next(iter(asyncio.ensure_future(_done(self)).__await__()))


def _throw(
    self: Request[Any],
    kind: type[BaseException] | BaseException,
    value: BaseException | None = None,
    traceback: TracebackType | None = None,
    /,
) -> NoReturn:
    """Raise an exception in the waiting task, as a coroutine does; the request continues.

    Parameters
    ----------
    kind : type or exception
        The exception, or its class.
    value : exception, optional
        The exception, if ``kind`` is a class.
    traceback : traceback, optional
        Its traceback.
    """
    error = value if isinstance(value, BaseException) else kind
    if isinstance(error, type):
        error = error() if value is None else error(value)
    raise error if traceback is None else error.with_traceback(traceback)


def _close(self: Request[Any]) -> None:
    """End the wait, as a coroutine does; the request continues."""


for _name, _function in {
    "__await__": _await,
    "send": _send,
    "throw": _throw,
    "close": _close,
}.items():
    _function.__name__ = _name
    _function.__qualname__ = f"Request.{_name}"
    setattr(Request, _name, _function)
