# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Calls of a group on tensors of GPUs, by their addresses, on a stream of the group.

The device of the communicator carries the calls out: the first one opens it. A call that the device
lacks is staged: its tensors are copied to the host, where it is carried out, and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from sparkring._communicator import Communicator
from sparkring._core import DeviceHandle, RingError
from sparkring._device.device import opened
from sparkring._device.operand import Span
from sparkring.torch import _streams as streams
from sparkring.torch._calls import Calls
from sparkring.torch._failure import fail
from sparkring.torch._stream_work import StreamWork

Tensors = list[torch.Tensor]


class Spans:
    """Makes arguments of calls of a communicator from tensors, for work on a stream."""

    def __init__(self, comm: Communicator, handle: DeviceHandle, stream: int) -> None:
        self._comm, self._handle, self._stream = comm, handle, stream

    def __call__(self, tensor: torch.Tensor) -> Any:
        """Return the elements of a tensor."""
        name = str(tensor.dtype).partition(".")[2]
        return Span(tensor.data_ptr(), (tensor.numel(),), name, self._handle.gpu, self._stream)

    def octets(self, tensor: torch.Tensor) -> Any:
        """Return the bytes of a tensor."""
        length = (octets(tensor),)
        return Span(tensor.data_ptr(), length, "uint8", self._handle.gpu, self._stream)

    def exchange(
        self,
        source: torch.Tensor,
        sends: tuple[int, ...],
        target: torch.Tensor,
        receives: tuple[int, ...],
    ) -> None:
        """Send bytes to each rank, and receive bytes, of which both numbers are known."""
        self._comm._device_exchange(
            source.data_ptr(), sends, target.data_ptr(), receives, self._stream
        )


def flat(tensors: Any) -> Iterable[torch.Tensor]:
    """Return the tensors of nested lists."""
    if isinstance(tensors, torch.Tensor):
        return [tensors]
    return [tensor for part in tensors for tensor in flat(part)]


def octets(tensor: torch.Tensor) -> int:
    """Return the number of bytes of a tensor."""
    return int(tensor.numel() * tensor.element_size())


def write(tensor: torch.Tensor, plain: torch.Tensor) -> None:
    """Copy a result into the caller's tensor, unless it is the same memory."""
    if plain.data_ptr() != tensor.data_ptr():
        tensor.detach().copy_(plain)


class GpuCalls(Calls):
    """What the collectives on tensors of GPUs have in common."""

    _streams: dict[Any, streams.Streams]

    def _here(self, *tensors: Any) -> bool:
        return any(streams.is_here(tensor) for tensor in flat(tensors))

    def _own_stream(self, tensor: torch.Tensor) -> streams.Streams:
        if tensor.device not in self._streams:
            self._streams[tensor.device] = streams.Streams(tensor.device)
        return self._streams[tensor.device]

    def _run(self, tensors: Tensors, result: Any, body: Callable[[Spans], Any]) -> StreamWork:
        """Run a call of the device on the stream of the group, after the caller's work."""
        own = self._own_stream(tensors[0])
        try:
            with self._calling:
                self._collectives += 1
                handle = opened(self._comm, tensors[0].device.index)
                with own.enter(tensors):
                    body(Spans(self._comm, handle, own.address))
        except RingError as error:
            fail(self._completions.where, error)
        return StreamWork(self._completions, handle, own, result)

    def _staged(self, method: Callable[..., Any], outputs: Any, *rest: Any) -> StreamWork:
        """Carry a call out on the host; its first argument is what it writes."""
        hosts: dict[int, torch.Tensor] = {}

        def host(tensors: Any) -> Any:
            if not isinstance(tensors, torch.Tensor):
                return [host(part) for part in tensors] if isinstance(tensors, list) else tensors
            if streams.is_here(tensors):
                return hosts.setdefault(id(tensors), streams.fetch(tensors))
            return tensors

        method(host(outputs), *[host(argument) for argument in rest]).wait()
        first = next(tensor for tensor in flat([outputs, *_lists(rest)]) if streams.is_here(tensor))
        for tensor in flat(outputs):
            if id(tensor) in hosts:
                streams.store(tensor, hosts[id(tensor)])
        return self._run([first], outputs, lambda on: None)

    # -- coalescing ---------------------------------------------------------------------------

    def _last(
        self, outputs: Tensors, pairs: Iterable[Any], call: Callable[..., Any], opts: Any
    ) -> Any:
        """Make calls one after the other on the stream, whose event then stands for all."""
        for output, inp in pairs:
            call(output, inp, opts)
        return self._run(outputs, outputs, lambda on: None)

    def _start_coalescing(self, device: Any) -> None:
        """Collect the works of calls, which run in the order of their starts."""
        self._coalesced = []

    def _end_coalescing(self, device: Any) -> Any:
        works, self._coalesced = self._coalesced or [], None
        own = self._streams.get(torch.device(device)) if device is not None else None
        handle = self._comm._device_get()
        if own is None or handle is None:
            return self._all(works, [])
        return StreamWork(self._completions, handle, own, [])


def _lists(arguments: Iterable[Any]) -> list[Any]:
    return [argument for argument in arguments if isinstance(argument, (list, torch.Tensor))]
