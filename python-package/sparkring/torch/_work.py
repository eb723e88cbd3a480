# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""What a collective returns: PyTorch's handle of a request.

A request of the core is done when its buffers are. The work is done when `after` has also run:
the copy from a buffer of ours into the caller's tensor.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

import torch.distributed as dist
from torch.futures import Future

from sparkring._core import RingError
from sparkring.torch._failure import failure

if TYPE_CHECKING:
    from sparkring.torch._completions import Completions
    from sparkring.torch._messages import Receive

_FOREVER = timedelta(0)  # PyTorch's kNoTimeout
_LONGEST = 1e-3  # seconds between two polls


class Waitable(Protocol):
    """A request, or what waits and tests as a request does."""

    def wait(self) -> Any:
        """Wait until it is done; raise its error."""

    def test(self) -> bool:
        """Return whether it is done; raise its error."""


class Works:
    """Several works as one request."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._works = works

    def wait(self) -> None:
        """Wait until all are done; raise the first error."""
        for work in self._works:
            work.wait()

    def test(self) -> bool:
        """Return whether all are done, with success or not."""
        return all(work.is_completed() for work in self._works)


class Work(dist.Work):
    """A collective that may be running.

    Parameters
    ----------
    owner
        The owner of the work: it completes futures, and its text opens the messages of errors.
    result : list of tensors
        What `result` and the future give.
    request : Waitable, optional
        None when the collective is done.
    after : callable, optional
        Runs once, when the request is done, on the thread that notices.
    """

    def __init__(
        self,
        owner: Completions,
        result: Any,
        request: Waitable | None = None,
        after: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self._owner, self._result, self._request, self._after = owner, result, request, after
        self._future: Any = None
        self._problem: Exception | None = None
        self._lock = threading.Lock()
        if request is None and after is not None:
            self._after = None
            after()

    def wait(self, timeout: timedelta = _FOREVER) -> bool:
        """Wait until the work is done; raise its error."""
        if self._request is not None:
            if timeout > _FOREVER:
                self._wait_within(timeout.total_seconds())
            self.settle()
        if self._problem is not None:
            raise self._problem
        return True

    def settle(self) -> None:
        """Wait until the work is done, and keep its error."""
        with self._lock:
            self._settle()

    def _settle(self) -> None:
        request = self._request
        if request is None:
            return
        try:
            request.wait()
            if self._after is not None:
                self._after()
        except Exception as error:
            self._problem = error if _is_ours(error) else failure(self._owner.where, error)
        finally:
            self._request = self._after = None

    def _wait_within(self, seconds: float) -> None:
        """Poll, for a request of the core has no deadline of its own."""
        end, pause = time.monotonic() + seconds, 0.0
        while not self.is_completed():
            if time.monotonic() > end:
                cause = TimeoutError(f"the work is not done after {seconds:g} s")
                raise failure(self._owner.where, cause)
            time.sleep(pause)
            pause = min(pause + 20e-6, _LONGEST)

    def is_completed(self) -> bool:
        """Return whether the work is done, with success or not."""
        if self._request is None:
            return True
        if not self._lock.acquire(blocking=False):
            return False  # another thread waits for the request
        try:
            if self._request is not None and _is_done(self._request):
                self._settle()
            return self._request is None
        finally:
            self._lock.release()

    def is_success(self) -> bool:
        """Return whether the work is done without an error."""
        return self.is_completed() and self._problem is None

    def exception(self) -> Exception | None:
        """Return the error of the work, if it is done and has one."""
        return self._problem

    def result(self) -> Any:
        """Return the tensors of the collective."""
        return self._result

    def synchronize(self) -> None:
        """Wait, as there is no stream to wait on."""
        self.wait()

    def get_future(self) -> Any:
        """Return a future of the result.

        ``Future.set_exception`` makes a future whose *value* is an exception in disguise: C++ that
        takes the value (DistributedDataParallel does) crashes. A callback of ``then`` that raises
        gives a future that fails in C++, too.
        """
        if self._future is None:
            self._signal: Any = Future()
            self._future = self._signal.then(self._outcome)
            if self.is_completed():
                self._signal.set_result(None)
            else:
                self._owner.complete(self)
        return self._future

    def announce(self) -> None:
        """Complete the future, whose callbacks run now."""
        self._signal.set_result(None)

    def _outcome(self, _: Any) -> Any:
        if self._problem is not None:
            raise self._problem
        return self._result


class ReceiveWork(Work):
    """A receive, which knows its sender."""

    def __init__(
        self,
        owner: Completions,
        result: Any,
        receive: Receive,
        after: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(owner, result, receive, after)
        self._receive = receive

    def source_rank(self) -> int:
        """Return the rank that has sent the message."""
        return self._receive.source

    _source_rank = source_rank


def _is_ours(error: Exception) -> bool:
    return isinstance(error, dist.DistBackendError)


def _is_done(request: Waitable) -> bool:
    try:
        return request.test()
    except (RingError, RuntimeError):
        return True  # wait() raises it again
