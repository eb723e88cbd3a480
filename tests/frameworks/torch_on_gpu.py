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
from sparkring.torch import _on_gpu, _streams


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


class AtOnce:
    """A device each of whose calls is waited for: what PyTorch does next is on the CPU."""

    def __init__(self, handle):
        self.handle = handle

    def __getattr__(self, name):
        call = getattr(self.handle, name)
        if name in ("wait", "test", "check", "explain", "gpu"):
            return call

        def at_once(*arguments):
            call(*arguments)
            self.handle.wait(arguments[-1])

        return at_once


def pretend(rank, at_once=True):
    """Make all tensors tensors of a GPU."""
    gpu = Streams.gpu = gpu_stub.Gpu(rank)
    opened = _on_gpu.opened
    _streams.is_here = lambda tensor: True
    _streams.fetch = lambda tensor: tensor.detach().clone()
    _streams.Streams = Streams

    def open_device(comm, number):
        handle = opened(comm, gpu.number)
        return AtOnce(handle) if at_once else handle

    _on_gpu.opened = open_device
    return gpu
