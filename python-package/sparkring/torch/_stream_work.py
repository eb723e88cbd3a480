# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""What a collective on a GPU returns: an event on the stream of the group."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from sparkring._core import RingError
from sparkring.torch._failure import failure

if TYPE_CHECKING:
    from sparkring._core import DeviceHandle
    from sparkring.torch._completions import Completions
    from sparkring.torch._streams import Streams

_FOREVER = timedelta(0)  # PyTorch's kNoTimeout


class StreamWork(dist.Work):
    """A collective that the GPU may be running.

    `wait` makes the caller's current stream wait, not the CPU, unless there is a timeout. When a
    call has failed the GPU goes on with undefined outputs; the next `wait`, and the next call,
    raise the error.
    """

    def __init__(
        self, owner: Completions, handle: DeviceHandle, streams: Streams, result: Any
    ) -> None:
        super().__init__()
        self._owner, self._handle, self._streams, self._result = owner, handle, streams, result
        self._event = streams.mark()
        self._future: Any = None

    def wait(self, timeout: timedelta = _FOREVER) -> bool:
        """Make the current stream wait for the result; raise an error of the device."""
        if timeout > _FOREVER:
            self._wait_within(timeout.total_seconds())
        problem = self.exception()
        if problem is not None:
            raise problem
        self._streams.join(self._event)
        return True

    def synchronize(self) -> None:
        """Make the current stream wait for the result."""
        self.wait()

    def _wait_within(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.is_completed():
            if time.monotonic() > end:
                raise RuntimeError(f"{self._owner.where}: not done within {seconds:g} s")
            time.sleep(1e-4)

    def is_completed(self) -> bool:
        """Return whether the GPU is done, or the device has failed."""
        return self.exception() is not None or self._streams.is_done(self._event)

    def is_success(self) -> bool:
        """Return whether the GPU is done and the device has not failed."""
        return self.exception() is None and self._streams.is_done(self._event)

    def exception(self) -> Exception | None:
        """Return the error of the device, if it has failed."""
        try:
            self._handle.check()
        except RingError as error:
            made: Exception = failure(self._owner.where, error)
            return made
        return None

    def result(self) -> Any:
        """Return the tensors of the result."""
        return self._result

    def get_future(self) -> Any:
        """Return a future of PyTorch, complete at once: who uses its value waits on the GPU."""
        if self._future is None:
            self._future = self._streams.future(self._result)
        return self._future
