# SPDX-License-Identifier: Apache-2.0
"""An array in the memory of a GPU as an operand of a call: its numbers, and results like it.

No library is imported here. An array of a library is the proof that its module is loaded.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkring import _core
from sparkring._core import InvalidError
from sparkring._device.array import DeviceArray

if TYPE_CHECKING:
    from sparkring._core import DeviceHandle

Shape = tuple[int, ...]
_LEGACY = 1  # the default stream, for which the driver takes 0 as well
_ON_GPU = (2, 13)  # DLPack's numbers of CUDA and of its managed memory


class Operand(NamedTuple):
    """What the core needs of an array, and what keeps the array alive."""

    array: Any  # of the caller
    held: Any  # has the memory; another array where the caller's is not contiguous
    address: int
    shape: Shape
    dtype: str  # the core's name
    gpu: int | None  # None: unknown
    stream: int
    readonly: bool
    library: Library

    @property
    def elements(self) -> int:
        """int: the number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """int: the number of bytes."""
        return self.elements * width(self.dtype)


def width(dtype: str) -> int:
    """Return the bytes of an element; of a dtype that NumPy lacks, those of a half or a byte."""
    if dtype == "bfloat16":
        return 2
    try:
        return np.dtype(dtype).itemsize
    except TypeError:
        return 1  # the core refuses it


class Library(NamedTuple):
    """How arrays of a library are read, and how results are made: new memory, or `wrap` of ours."""

    read: Callable[[Any, str], Operand]
    make: Callable[[Any, Shape], Any] | None = None
    wrap: Callable[[Any, DeviceArray], Any] | None = None
    waits: bool = False  # its arrays know no stream, so a result must be there when it is wrapped


# ---- PyTorch


def read_torch(x: Any, name: str) -> Operand:
    """Read a tensor. One that is not contiguous is copied on its GPU."""
    torch = sys.modules["torch"]
    if not x.is_cuda:
        raise _elsewhere(name)
    if x.is_sparse or x.is_conj() or x.is_neg():
        raise InvalidError(f"{name} is sparse, conjugated or negated: pass a plain tensor")
    held = x.detach().contiguous()
    return Operand(
        x,
        held,
        held.data_ptr(),
        tuple(x.shape),
        str(x.dtype).partition(".")[2],
        x.device.index,
        torch.cuda.current_stream(x.device).cuda_stream,
        held.data_ptr() != x.data_ptr(),
        TORCH,
    )


def make_torch(x: Any, shape: Shape) -> Any:
    """Make a tensor on the GPU of another."""
    return sys.modules["torch"].empty(shape, dtype=x.dtype, device=x.device)


TORCH = Library(read_torch, make_torch)


# ---- CuPy


def read_cupy(x: Any, name: str) -> Operand:
    """Read an array. One that is not contiguous is copied on its GPU."""
    cupy = sys.modules["cupy"]
    held = cupy.ascontiguousarray(x).reshape(x.shape)
    return Operand(
        x,
        held,
        held.data.ptr,
        tuple(x.shape),
        np.dtype(x.dtype).name,
        x.device.id,
        cupy.cuda.get_current_stream().ptr,
        held.data.ptr != x.data.ptr,
        CUPY,
    )


def make_cupy(x: Any, shape: Shape) -> Any:
    """Make an array on the current GPU."""
    return sys.modules["cupy"].empty(shape, dtype=x.dtype)


CUPY = Library(read_cupy, make_cupy)


# ---- __cuda_array_interface__


def _is_contiguous(shape: Shape, strides: Shape | None, width: int) -> bool:
    step = width
    for length, stride in zip(reversed(shape), reversed(strides or ())):
        if length != 1 and stride != step:
            return strides is None or 0 in shape
        step *= length
    return True


def read_interface(x: Any, name: str) -> Operand:
    """Read an array of any library that has the attribute, such as Numba and cuDF."""
    facts = x.__cuda_array_interface__
    shape, dtype = tuple(facts["shape"]), np.dtype(facts["typestr"])
    address, readonly = facts["data"]
    if not dtype.isnative or facts.get("mask") is not None:
        raise InvalidError(f"{name} is masked, or in foreign byte order: pass a plain array")
    if not _is_contiguous(shape, facts.get("strides"), dtype.itemsize):
        raise _scattered(name)
    stream = facts.get("stream") or 0
    return Operand(
        x,
        x,
        address or 0,
        shape,
        dtype.name,
        None,
        0 if stream == _LEGACY else stream,
        readonly,
        INTERFACE,
    )


def wrap_interface(x: Any, array: DeviceArray) -> Any:
    """Make an array of the library of x, where it is known how; else leave ours."""
    library = type(x).__module__.partition(".")[0]
    if library == "numba":
        return sys.modules["numba.cuda"].as_cuda_array(array)
    if library == "cudf":
        return type(x)(array)
    if hasattr(sys.modules.get(library), "from_dlpack"):
        return sys.modules[library].from_dlpack(array)
    return array


INTERFACE = Library(read_interface, wrap=wrap_interface)


# ---- DLPack


def read_dlpack(x: Any, name: str) -> Operand:
    """Read an array of any library with DLPack, such as JAX, for work on the default stream."""
    if type(x).__module__.partition(".")[0] == "tensorflow":
        x = sys.modules["tensorflow"].experimental.dlpack.to_dlpack(x)
    elif x.__dlpack_device__()[0] not in _ON_GPU:
        raise _elsewhere(name)
    held = _core.device_read(x, _LEGACY)
    kind, gpu, address, dtype, shape, contiguous, readonly = held.numbers()
    if kind not in _ON_GPU:
        raise _elsewhere(name)
    if not contiguous:
        raise _scattered(name)
    return Operand(x, held, address, shape, dtype, gpu, 0, bool(readonly), DLPACK)


def wrap_other(x: Any, array: DeviceArray) -> Any:
    """Make an array with the ``from_dlpack`` of the library of x."""
    library = type(x).__module__.partition(".")[0]
    if library in ("jax", "jaxlib"):
        return sys.modules["jax"].dlpack.from_dlpack(array)
    if library == "tensorflow":
        return sys.modules["tensorflow"].experimental.dlpack.from_dlpack(array.__dlpack__())
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__().from_dlpack(array)
    return getattr(sys.modules.get(library), "from_dlpack", lambda made: made)(array)


DLPACK = Library(read_dlpack, wrap=wrap_other, waits=True)


# ---- Memory by its address


class Span(NamedTuple):
    """Memory of a GPU for work on a stream. No result is made like it."""

    address: int
    shape: Shape
    dtype: str
    gpu: int
    stream: int
    held: Any = None  # has the memory, if it shall stay


def read_span(x: Any, _: str) -> Operand:
    """Read a span."""
    return Operand(x, x, x.address, x.shape, x.dtype, x.gpu, x.stream, False, SPAN)


SPAN = Library(read_span)


# ---- All


def _elsewhere(name: str) -> InvalidError:
    return InvalidError(
        f"{name} is in the memory of the host, and another array of the call on a GPU: move one"
    )


def _scattered(name: str) -> InvalidError:
    return InvalidError(f"{name} is not contiguous: pass a copy in C order")


# JAX has __cuda_array_interface__ as well, which has no stream.
_LIBRARIES = {
    ("sparkring", "Span"): SPAN,
    ("torch", "Tensor"): TORCH,
    ("cupy", "ndarray"): CUPY,
    ("jaxlib", "ArrayImpl"): DLPACK,
    ("jax", "ArrayImpl"): DLPACK,
    ("tensorflow", "EagerTensor"): DLPACK,
}


def _library(x: Any) -> Library | None:
    for base in type(x).__mro__:
        found = _LIBRARIES.get((base.__module__.partition(".")[0], base.__name__))
        if found is not None:
            return found
    if hasattr(x, "__cuda_array_interface__"):
        return INTERFACE
    return DLPACK if hasattr(x, "__dlpack_device__") else None


def read(x: Any, name: str, dtype: str | None = None) -> Operand:
    """Read an array on a GPU. Words of uint16 hold bfloat16 if ``dtype`` is that."""
    library = _library(x)
    if library is None:
        raise _elsewhere(name)
    operand = library.read(x, name)
    if operand.elements and operand.address % (operand.bytes // operand.elements):
        raise InvalidError(f"{name} is not aligned to its elements: pass a copy")
    if dtype is None or dtype == operand.dtype:
        return operand
    if dtype == "bfloat16" and operand.dtype == "uint16":
        return operand._replace(dtype=dtype)
    raise InvalidError(f"{name} holds {operand.dtype}, not {dtype}: convert it first")


class Result(NamedTuple):
    """An output of a call, and how it becomes what the caller gets."""

    address: int
    finish: Callable[[], Any]


def make(handle: DeviceHandle | None, like: Operand, shape: Shape) -> Result:
    """Make an array of the library of an operand, with its dtype, perhaps of a device's memory."""
    library = like.library
    if library.make is not None:
        made = library.make(like.array, shape)
        address = made.data_ptr() if library is TORCH else made.data.ptr
        return Result(address, lambda: made)
    if handle is None:
        raise InvalidError(
            "the library of x has no memory for the result: pass out, or call comm.device() on all"
            " ranks first"
        )
    ours = DeviceArray(handle, shape, like.dtype, handle.gpu)
    ours.stream = like.stream

    def finish() -> Any:
        assert library.wrap is not None
        if library.waits:
            handle.wait(like.stream)
        return library.wrap(like.array, ours)

    return Result(ours.address, finish)
