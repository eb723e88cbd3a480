# SPDX-License-Identifier: Apache-2.0
"""Pretends that tensors of the CPU are on a GPU, which is the stub of CUDA (gpu_stub.py).

The stub works on any memory of the host. Calls of the device run on the stream of the stub. PyTorch
computes at once, so each of its uses waits for that stream, which a GPU would do by itself. The
code for streams and events of torch.cuda is not run here: tests/gpu runs it.
"""

from __future__ import annotations

import contextlib
import ctypes

import gpu_stub
import torch
from sparkring import Communicator
from sparkring._device.operand import Span
from sparkring.torch import _gpu_calls, _streams

CALLS = ("allreduce", "allreduce_group", "reduce", "reduce_scatter", "broadcast", "allgather")


class Streams:
    """As sparkring.torch._streams.Streams, on the stub."""

    gpu = None

    def __init__(self, device):
        self.device, self.address = device, self.gpu.stream()
        self.marks = self.joins = 0

    def enter(self, tensors):
        assert tensors
        return contextlib.nullcontext()

    def mark(self):
        event = ctypes.c_void_p()
        assert self.gpu.cuda.cuEventCreate(ctypes.byref(event), 2) == 0
        assert self.gpu.cuda.cuEventRecord(event, ctypes.c_void_p(self.address)) == 0
        self.marks += 1
        return event

    def is_done(self, event):
        return self.gpu.cuda.cuEventQuery(event) == 0

    def join(self, event):
        while not self.is_done(event):
            pass
        self.joins += 1

    def future(self, result):
        self.join(self.mark())
        made = torch.futures.Future()
        made.set_result(result)
        return made


def waits(method):
    """Wait for each call on a stream: what PyTorch does next is on the CPU."""

    def call(comm, x, *args, **options):
        result = method(comm, x, *args, **options)
        first = x[0] if isinstance(x, list) else x
        if isinstance(first, Span):
            comm._device_get().wait(first.stream)
        return result

    return call


class Spans(_gpu_calls.Spans):
    """As the class of sparkring, with a wait after the call that it makes."""

    def exchange(self, *arguments):
        super().exchange(*arguments)
        self._handle.wait(self._stream)


def pretend(rank, at_once=True):
    """Make all tensors tensors of a GPU."""
    gpu = Streams.gpu = gpu_stub.Gpu(rank)
    opened = _gpu_calls.opened
    _streams.is_here = lambda tensor: True
    _streams.fetch = lambda tensor: tensor.detach().clone()
    stream = gpu.stream()
    _streams.span = lambda tensor: _streams.span_on(tensor, gpu.number, stream)
    _streams.Streams = Streams
    _gpu_calls.opened = lambda comm, number: opened(comm, gpu.number)
    if at_once:
        _gpu_calls.Spans = Spans
        for name in CALLS:
            setattr(Communicator, name, waits(getattr(Communicator, name)))
    return gpu
