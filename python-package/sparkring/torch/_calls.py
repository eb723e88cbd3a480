# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""How the collectives of a group call its communicator."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from sparkring._core import RingError
from sparkring.torch._failure import fail
from sparkring.torch._work import Work, Works

if TYPE_CHECKING:
    from sparkring._communicator import Communicator
    from sparkring.torch._completions import Completions

After = Callable[[], None]


class Calls:
    """A group with a communicator. Subclasses add collectives.

    A communicator serves one call at a time. Callbacks of futures call from other threads, so a
    lock is held during a call.
    """

    _comm: Communicator
    _completions: Completions
    _calling: threading.Lock
    _collectives = 0  # started or called
    _coalesced: list[Work] | None = None  # works between the start and the end of coalescing

    def _call(
        self,
        options: Any,
        name: str,
        *arguments: Any,
        result: Any,
        after: After | None = None,
        **keywords: Any,
    ) -> Work:
        """Make a call that PyTorch waits for at once, or start a request.

        Without options the caller is Python, and has not said that it waits.
        """
        request = None
        try:
            with self._calling:
                self._collectives += 1
                if options is None or options.asyncOp:
                    request = getattr(self._comm, name + "_start")(*arguments, **keywords)
                else:
                    getattr(self._comm, name)(*arguments, **keywords)
        except RingError as error:
            fail(self._completions.where, error)
        work = Work(self._completions, result, request, after)
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _now(self, result: Any, function: Callable[[], Any]) -> Work:
        """Call what has no request, and return a work that is done."""
        try:
            with self._calling:
                self._collectives += 1
                function()
        except RingError as error:
            fail(self._completions.where, error)
        return Work(self._completions, result)

    def _all(self, works: Iterable[Work], result: Any) -> Work:
        """Join works, of which some may have failed, into one."""
        pending = [work for work in works if not work.is_success()]
        return Work(self._completions, result, Works(pending) if pending else None)
