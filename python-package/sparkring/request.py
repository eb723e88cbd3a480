# SPDX-License-Identifier: Apache-2.0
"""Awaiting a request in asyncio.

The event loop asks from time to time whether the request is done. A thread that waits for it would
know sooner, but could not be cancelled, and asyncio has few of them.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

from sparkring._core import Request

_BRISK = 50e-6  # seconds in which the loop looks whenever it comes by; then about every millisecond
_LONGEST = 5e-3  # seconds between two looks


async def _done(request: Request[Any]) -> Any:
    """Look at once, and then in steps that grow with the time it has taken."""
    import asyncio  # here, as it would take a sixth of the time of `import sparkring`

    start = time.monotonic()
    while not request.test():
        passed = time.monotonic() - start
        await asyncio.sleep(0 if passed < _BRISK else min(passed / 4, _LONGEST))
    return request.wait()


def _await(self: Request[Any]) -> Generator[Any, None, Any]:
    """Wait without blocking the event loop; gives what `wait` returns."""
    return _done(self).__await__()


_await.__name__ = "__await__"
_await.__qualname__ = "Request.__await__"
Request.__await__ = _await  # type: ignore[method-assign]
