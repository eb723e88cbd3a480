# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""The stream of a group on a GPU, beside the streams of the caller, as ProcessGroupNCCL has one.

A call waits on the GPU for what the caller's current stream has so far. Its event is what the
caller's stream waits for later. Nothing of this waits on the CPU.
"""

from __future__ import annotations

from typing import Any

import torch

from sparkring._device.operand import Span


class Streams:
    """A stream of a group on one GPU."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._own = torch.cuda.Stream(device)

    @property
    def address(self) -> int:
        """int: the stream, for the core."""
        return int(self._own.cuda_stream)

    def enter(self, tensors: list[torch.Tensor]) -> Any:
        """Return a context for work after that of the caller; the tensors stay until it is done."""
        self._own.wait_stream(torch.cuda.current_stream(self.device))
        for tensor in tensors:
            tensor.record_stream(self._own)
        return torch.cuda.stream(self._own)

    def mark(self) -> Any:
        """Return an event after all work so far."""
        return self._own.record_event()

    def join(self, event: Any) -> None:
        """Make the caller's current stream wait for an event."""
        torch.cuda.current_stream(self.device).wait_event(event)

    def is_done(self, event: Any) -> bool:
        """Return whether the GPU has come to an event."""
        return bool(event.query())

    def future(self, result: Any) -> Any:
        """Return a future that is complete, for whose events the streams of its callbacks wait."""
        made: Any = torch.futures.Future(devices=[self.device])
        with torch.cuda.stream(self._own):
            made.set_result(result)
        return made


def is_here(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is in the memory of a GPU that a device serves."""
    return bool(tensor.is_cuda)


def span(tensor: torch.Tensor) -> Span:
    """Return a plain tensor as an argument of a call, for work after that of the current stream."""
    stream = torch.cuda.current_stream(tensor.device).cuda_stream
    return span_on(tensor, tensor.device.index, int(stream))


def span_on(tensor: torch.Tensor, gpu: int, stream: int) -> Span:
    """Return the memory of a plain tensor, which stays while the span is in use."""
    name = str(tensor.dtype).removeprefix("torch.")
    return Span(tensor.data_ptr(), tuple(tensor.shape), name, gpu, stream, tensor)


def fetch(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor to the host, after the work of the current stream."""
    return tensor.detach().cpu()


def store(tensor: torch.Tensor, host: torch.Tensor) -> None:
    """Copy a tensor of the host into one on a GPU, in the order of the current stream."""
    with torch.no_grad():  # a sparse tensor that is detached has entries of its own
        tensor.copy_(host)
