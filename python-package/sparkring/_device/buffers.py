# SPDX-License-Identifier: Apache-2.0
"""The memory of a call on a device: its inputs, its outputs, and the streams on which they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import InvalidError
from sparkring._device import operand as operands
from sparkring._device.operand import Operand, Result, Shape

if TYPE_CHECKING:
    from sparkring._communicator import Communicator
    from sparkring._core import DeviceHandle

_OF_THREAD = 2  # the driver's number of the default stream of a thread


def on_shared_stream(handle: DeviceHandle, x: Operand) -> Operand:
    """Leave the default stream of this thread, which is another stream in the threads of NCCL."""
    if x.stream != _OF_THREAD:
        return x
    handle.wait(x.stream)
    return x._replace(stream=0)


def check_gpu(handle: DeviceHandle, operand: Operand, name: str) -> None:
    """Refuse an array on another GPU."""
    gpu = handle.gpu
    if operand.gpu not in (None, gpu):
        raise InvalidError(
            f"{name} is on GPU {operand.gpu}, and the device of the communicator is GPU {gpu}:"
            f" move the array, or open the device with comm.device(gpu={operand.gpu}) first"
        )


def output(
    handle: DeviceHandle,
    x: Operand,
    out: Any,
    shape: Shape,
    part: str,
    comm: Communicator | None = None,
    name: str = "out",
) -> Result:
    """Make an output like x, or read the caller's, which may be in place."""
    if out is None:
        return operands.make(handle, x, shape)
    target = operands.read(out, name, x.dtype if x.dtype == "bfloat16" else None)
    check_gpu(handle, target, name)
    if target.readonly:
        raise InvalidError(f"{name} is read-only, or not contiguous: pass a plain array")
    if target.dtype != x.dtype:
        raise InvalidError(f"{name} holds {target.dtype} and x {x.dtype}: pass the same dtype")
    if target.elements != int(np.prod(shape, dtype=np.int64)):
        raise InvalidError(
            f"{name} has {target.elements} elements and the result"
            f" {int(np.prod(shape, dtype=np.int64))}"
        )
    _check_apart(x, target, part, 0 if comm is None else comm.rank, name)
    if target.stream != x.stream:
        handle.wait(target.stream)  # two libraries, each with a stream of its own
    return Result(target.address, lambda: out)


def _check_apart(x: Operand, out: Operand, part: str, rank: int, name: str) -> None:
    """Permit memory that is apart, or in place as the call has it."""
    start, end = x.address, out.address
    if start + x.bytes <= end or end + out.bytes <= start:
        return
    if part == "all":
        end += rank * x.bytes
    if part == "part":
        start += rank * out.bytes
    if part == "mixed" or start != end:
        raise InvalidError(f"{name} overlaps x without being in place: pass a copy of x")


def reduce_group(
    handle: DeviceHandle,
    xs: Iterable[Any],
    op: str,
    out: Iterable[Any] | None,
    dtype: str | None,
    wire: str | None,
    prescale: float,
    postscale: float,
) -> list[Any]:
    """Allreduce many arrays: one call of the core for each dtype, in the order of the arrays."""
    given = [operands.read(x, f"xs[{index}]", dtype) for index, x in enumerate(xs)]
    outs = [None] * len(given) if out is None else list(out)
    if len(outs) != len(given):
        raise InvalidError(f"out has {len(outs)} arrays and xs {len(given)}: pass one for each")
    results = []
    for index, (x, target) in enumerate(zip(given, outs)):
        check_gpu(handle, x, f"xs[{index}]")
        x = given[index] = on_shared_stream(handle, x)
        results.append(output(handle, x, target, x.shape, "same", name=f"out[{index}]"))
    for kind in dict.fromkeys(x.dtype for x in given):
        pairs = [(x, made) for x, made in zip(given, results) if x.dtype == kind]
        buffers = [(x.address, made.address, x.elements) for x, made in pairs]
        stream = pairs[0][0].stream
        for other in {x.stream for x, _ in pairs} - {stream}:
            handle.wait(other)
        handle.allreduce_group(buffers, kind, wire or kind, op, prescale, postscale, stream)
    return [made.finish() for made in results]
