# SPDX-License-Identifier: Apache-2.0
"""The collectives of a communicator on arrays in the memory of GPUs.

The methods of the communicator call the core with arrays of the host. A method that finds an array
on a GPU calls `call` here, before any rank has sent anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import InvalidError, UnsupportedError
from sparkring._device import operand as operands
from sparkring._device.buffers import check_gpu, on_shared_stream, output, reduce_group
from sparkring._device.device import opened
from sparkring._device.operand import Result, Shape

if TYPE_CHECKING:
    from sparkring._communicator import Communicator
    from sparkring._core import DeviceHandle


class DeviceRequest:
    """A call of a device that has started, with the methods of a `Request`."""

    def __init__(self, handle: DeviceHandle, stream: int, result: Any) -> None:
        self._handle, self._stream, self._result = handle, stream, result

    def wait(self) -> Any:
        """Wait until the work is done and return the result; raise its error."""
        self._handle.wait(self._stream)
        return self._result

    def test(self) -> bool:
        """Return whether the work is done; raise its error."""
        return self._handle.test(self._stream)


class _Call:
    """A device and the operands of a call on it."""

    def __init__(self, comm: Communicator, x: Any, dtype: str | None, opens: bool = True) -> None:
        self.comm, self.x = comm, operands.read(x, "x", dtype)
        if not opens and comm._device_get() is None:
            raise InvalidError(
                "only two ranks take part in a message, and all ranks open a device: call"
                " comm.device() on all ranks first"
            )
        self.handle = opened(comm, self.x.gpu)
        check_gpu(self.handle, self.x, "x")
        self.x = on_shared_stream(self.handle, self.x)

    def output(self, out: Any, shape: Shape, part: str = "same") -> Result:
        """Make the output, or read the caller's."""
        return output(self.handle, self.x, out, shape, part, self.comm)

    def rows(self) -> int:
        """Return the first dimension of x."""
        if not self.x.shape:
            raise InvalidError("x is a single number: pass an array with rows")
        return self.x.shape[0]

    def share(self) -> Shape:
        """Return the shape of one of as many equal parts as there are ranks."""
        rows, size = self.rows(), self.comm.size
        if rows % size:
            raise InvalidError(
                f"the first dimension of x is {rows}, which {size} ranks cannot share equally:"
                f" pass a multiple of {size}"
            )
        return (rows // size, *self.x.shape[1:])


def _refuse_factors(name: str, prescale: float, postscale: float) -> None:
    if prescale != 1 or postscale != 1:
        raise UnsupportedError(
            f"{name} of arrays on GPUs takes no prescale and no postscale: multiply the array"
        )


# ---- Collectives


def _allreduce(
    comm: Communicator,
    x: Any,
    op: str,
    out: Any,
    dtype: str | None,
    prescale: float,
    postscale: float,
) -> Any:
    c = _Call(comm, x, dtype)
    made, a = c.output(out, c.x.shape), c.x
    if prescale == 1 and postscale == 1:
        c.handle.allreduce(a.address, made.address, a.elements, a.dtype, op, a.stream)
    else:
        buffers = [(a.address, made.address, a.elements)]
        c.handle.allreduce_group(buffers, a.dtype, a.dtype, op, prescale, postscale, a.stream)
    return c, made.finish()


def _reduce(
    comm: Communicator,
    x: Any,
    op: str,
    root: int,
    out: Any,
    dtype: str | None,
    prescale: float,
    postscale: float,
) -> Any:
    _refuse_factors("reduce", prescale, postscale)
    c = _Call(comm, x, dtype)
    a = c.x
    if comm.rank != root:
        c.handle.reduce(a.address, 0, a.elements, a.dtype, op, root, a.stream)
        return c, None
    made = c.output(out, a.shape)
    c.handle.reduce(a.address, made.address, a.elements, a.dtype, op, root, a.stream)
    return c, made.finish()


def _reduce_scatter(
    comm: Communicator,
    x: Any,
    op: str,
    out: Any,
    dtype: str | None,
    prescale: float,
    postscale: float,
) -> Any:
    _refuse_factors("reduce_scatter", prescale, postscale)
    c = _Call(comm, x, dtype)
    made, a = c.output(out, c.share(), "part"), c.x
    count = a.elements // comm.size
    c.handle.reduce_scatter(a.address, made.address, count, a.dtype, op, a.stream)
    return c, made.finish()


def _broadcast(comm: Communicator, x: Any, root: int, out: Any, dtype: str | None) -> Any:
    c = _Call(comm, x, dtype)
    made, a = c.output(out, c.x.shape), c.x
    c.handle.broadcast(a.address, made.address, a.elements, a.dtype, root, a.stream)
    return c, made.finish()


def _allgather(comm: Communicator, x: Any, out: Any, dtype: str | None) -> Any:
    c = _Call(comm, x, dtype)
    made, a = c.output(out, (comm.size, *c.x.shape), "all"), c.x
    c.handle.allgather(a.address, made.address, a.elements, a.dtype, a.stream)
    return c, made.finish()


def _alltoall(comm: Communicator, x: Any, out: Any, dtype: str | None) -> Any:
    c = _Call(comm, x, dtype)
    c.share()
    made, a = c.output(out, c.x.shape, "mixed"), c.x
    c.handle.alltoall(a.address, made.address, a.elements // comm.size, a.dtype, a.stream)
    return c, made.finish()


def _read_counts(c: _Call, counts: Any) -> Any:
    """Return the rows for each rank, which are all rows of x."""
    rows = np.asarray(counts)
    if rows.shape != (c.comm.size,) or rows.dtype.kind not in "iu" or (rows < 0).any():
        raise InvalidError(f"counts must be {c.comm.size} whole numbers, one for each rank")
    if int(rows.sum()) != c.rows():
        raise InvalidError(f"counts add up to {rows.sum()}, and x has {c.rows()} rows")
    return rows.astype("int64")


def _alltoallv(
    comm: Communicator,
    x: Any,
    counts: Any,
    dtype: str | None,
    return_counts: bool,
) -> Any:
    c = _Call(comm, x, dtype)
    sent, a = _read_counts(c, counts), c.x
    received = comm.alltoall(sent)
    row = int(np.prod(a.shape[1:], dtype=np.int64))
    made = c.output(None, (int(received.sum()), *a.shape[1:]))
    sends, receives = ([int(n) * row for n in rows] for rows in (sent, received))
    c.handle.alltoallv(a.address, tuple(sends), made.address, tuple(receives), a.dtype, a.stream)
    result = made.finish()
    return c, (result, received) if return_counts else result


# ---- Messages


def _send(comm: Communicator, x: Any, peer: int, dtype: str | None) -> Any:
    c = _Call(comm, x, dtype, opens=False)
    c.handle.send(c.x.address, c.x.elements, c.x.dtype, peer, c.x.stream)
    return c, None


def _recv(comm: Communicator, x: Any, peer: int, out: Any, dtype: str | None) -> Any:
    c = _Call(comm, x, dtype, opens=False)
    made = c.output(out, c.x.shape)
    c.handle.recv(made.address, c.x.elements, c.x.dtype, peer, c.x.stream)
    return c, made.finish()


# ---- Groups


def _allreduce_group(
    comm: Communicator,
    xs: Iterable[Any],
    op: str,
    out: Iterable[Any] | None,
    dtype: str | None,
    prescale: float,
    postscale: float,
) -> Any:
    xs = list(xs)
    c = _Call(comm, xs[0], dtype)
    return c, reduce_group(c.handle, xs, op, out, dtype, None, prescale, postscale)


def _each(function: Callable[..., Any], before: int) -> Callable[..., Any]:
    """Make the call of a group of the call of one array, with `before` arguments before `out`."""

    def calls(comm: Communicator, xs: Iterable[Any], *args: Any) -> Any:
        xs, outs = list(xs), args[before]
        targets = [None] * len(xs) if outs is None else list(outs)
        if len(targets) != len(xs):
            raise InvalidError(f"out has {len(targets)} arrays and xs {len(xs)}: pass one for each")
        first, last = args[:before], args[before + 1 :]
        made = [function(comm, x, *first, to, *last) for x, to in zip(xs, targets)]
        return made[0][0], [result for _, result in made]

    return calls


# ---- All


_CALLS: dict[str, Callable[..., Any]] = {
    "allreduce": _allreduce,
    "reduce": _reduce,
    "reduce_scatter": _reduce_scatter,
    "broadcast": _broadcast,
    "allgather": _allgather,
    "alltoall": _alltoall,
    "alltoallv": _alltoallv,
    "send": _send,
    "recv": _recv,
    "allreduce_group": _allreduce_group,
    "reduce_scatter_group": _each(_reduce_scatter, 1),
    "broadcast_group": _each(_broadcast, 1),
    "allgather_group": _each(_allgather, 0),
}


def call(comm: Communicator, name: str, start: bool, /, *args: Any) -> Any:
    """Make a call, whose arguments the method has checked, on the device of a communicator."""
    if name not in _CALLS:
        raise UnsupportedError(
            f"{name} takes no arrays on GPUs: copy the array to the host, as with x.cpu() or"
            f" x.get(), or use one of {', '.join(_CALLS)}"
        )
    made, result = _CALLS[name](comm, *args)
    return DeviceRequest(made.handle, made.x.stream, result) if start else result
