# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries as arguments of a collective, whose result is of the same library.

The extension calls `find` once for each type and keeps the adapter. No library is imported here. An
array of a library is the proof that its module is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Adapter(NamedTuple):
    """How arrays of one library are read, and how results are made.

    An argument is ``lend(x)``, or ``x`` itself. Its memory is read by DLPack or as a buffer. A
    function may also lend a capsule of DLPack. Arrays that are always on a GPU are read by
    ``sparkring._device`` instead. A result is ``wrap(memory, x, same)``, or a NumPy
    array. ``memory`` is a capsule of DLPack or a NumPy array. ``same`` says that the result has the
    shape and the order of ``x``.
    """

    to_host: str = "%s"
    to_dtype: str = '%s.astype("float64")'
    lend: Callable[[Any], Any] | None = None
    wrap: Callable[[Any, Any, bool], Any] | None = None
    dlpack: bool = False
    writable: bool = False
    on_gpu: bool = False


class Tensor:
    """A capsule of DLPack with the methods that ``from_dlpack`` calls."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        """Return the capsule."""
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the CPU."""
        return 1, 0


def refuse_traced(remedy: str) -> Adapter:
    """Make the adapter of arrays that stand for values of a later run."""

    def lend(_: Any) -> Any:
        raise BufferError(f"a function that is being traced has no values: {remedy}")

    return Adapter(lend=lend)


# ---- PyTorch


def lend_torch(x: Any) -> Any:
    """Return the tensor, whose memory must hold its values."""
    if x.is_conj() or x.is_neg():
        raise BufferError(
            "its values are conjugated or negated at each access: pass"
            " x.resolve_conj().resolve_neg()"
        )
    return x


def lend_old_torch(x: Any) -> Any:
    """Return the tensor without its gradient, which ``__dlpack__`` refuses."""
    return lend_torch(x).detach()


def wrap_torch(capsule: Any, _x: Any, _same: bool) -> Any:
    """Make a tensor."""
    return sys.modules["torch"].from_dlpack(capsule)


TORCH = Adapter(
    to_host="%s.cpu()",
    to_dtype="%s.to(torch.float64)",
    lend=lend_torch,
    wrap=wrap_torch,
    dlpack=True,
    writable=True,
)
OLD_TORCH = TORCH._replace(lend=lend_old_torch)  # without __dlpack_c_exchange_api__


# ---- JAX


def wrap_jax(capsule: Any, _x: Any, _same: bool) -> Any:
    """Make an array of JAX."""
    return sys.modules["jax"].dlpack.from_dlpack(Tensor(capsule))


JAX = Adapter(to_host='jax.device_put(%s, jax.devices("cpu")[0])', wrap=wrap_jax, dlpack=True)
JAX_TRACER = refuse_traced("call the collective outside, or by jax.pure_callback")


# ---- TensorFlow


def lend_tensorflow(x: Any) -> Any:
    """Return the capsule of an eager tensor. ``to_dlpack`` would end the process on strings."""
    if x.dtype.as_numpy_dtype in (object, np.object_):
        raise BufferError(f"its elements are of type {x.dtype.name}, which are no numbers")
    return sys.modules["tensorflow"].experimental.dlpack.to_dlpack(x)


def lend_variable(x: Any) -> Any:
    """Return the capsule of the value of a variable."""
    return lend_tensorflow(x.value())


def wrap_tensorflow(capsule: Any, _x: Any, _same: bool) -> Any:
    """Make an eager tensor."""
    return sys.modules["tensorflow"].experimental.dlpack.from_dlpack(capsule)


TENSORFLOW = Adapter(
    to_host='tf.identity(%s) in a block of tf.device("CPU")',
    to_dtype="tf.cast(%s, tf.float64)",
    lend=lend_tensorflow,
    wrap=wrap_tensorflow,
    dlpack=True,
)
TENSORFLOW_VARIABLE = TENSORFLOW._replace(lend=lend_variable)
TENSORFLOW_GRAPH = refuse_traced("call the collective outside, or by tf.py_function")


# ---- Columns of tables, which have one dimension and cannot be written


def lend_pandas(x: Any) -> Any:
    """Return the values of a series. Only a dtype that may hold nulls names the dtype of NumPy."""
    dtype = getattr(x.dtype, "numpy_dtype", None)
    if dtype is not None and x.hasnans:
        raise BufferError("it holds nulls: fill the nulls, as with x.fillna(0)")
    return np.asarray(x, dtype)


def wrap_pandas(array: Any, x: Any, same: bool) -> Any:
    """Make a series, with the index of ``x`` where the rows are those of ``x``."""
    if array.ndim != 1:
        return array
    dtype = x.dtype if hasattr(x.dtype, "numpy_dtype") else None
    index = x.index if same else None
    return type(x)(array, index=index, dtype=dtype, name=x.name, copy=False)


def lend_pyarrow(x: Any) -> Any:
    """Return the values of an array, in one piece. Booleans are bits, which are copied."""
    if x.null_count > 0:
        raise BufferError(
            f"it holds nulls ({x.null_count}): fill the nulls, as with x.fill_null(0)"
        )
    return x.to_numpy() if hasattr(x, "chunks") else x.to_numpy(zero_copy_only=False)


def wrap_pyarrow(array: Any, x: Any, _same: bool) -> Any:
    """Make an array of Arrow, chunked if ``x`` is."""
    if array.ndim != 1:
        return array
    pyarrow = sys.modules["pyarrow"]
    made = pyarrow.array(array)
    return pyarrow.chunked_array([made]) if hasattr(x, "chunks") else made


PANDAS = Adapter(lend=lend_pandas, wrap=wrap_pandas)
PYARROW = Adapter(to_dtype='%s.cast("float64")', lend=lend_pyarrow, wrap=wrap_pyarrow)


# ---- Any other library


def wrap_dlpack(capsule: Any, x: Any, _same: bool) -> Any:
    """Make an array with ``from_dlpack`` of the array API, of the library, or else of NumPy."""
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__().from_dlpack(Tensor(capsule))
    library = sys.modules.get(type(x).__module__.partition(".")[0])
    return getattr(library, "from_dlpack", np.from_dlpack)(Tensor(capsule))


DLPACK = Adapter(
    to_host="a copy of %s in the memory of the CPU", wrap=wrap_dlpack, dlpack=True, writable=True
)
INTERFACE = Adapter(lend=np.asarray, writable=True)


# ---- Arrays on GPUs that have no DLPack

ON_GPU = Adapter(to_host="a copy of %s in the memory of the CPU", on_gpu=True)

LIBRARIES = {
    ("sparkring", "Span"): ON_GPU,
    ("torch", "Tensor"): TORCH,
    ("jaxlib", "ArrayImpl"): JAX,
    ("jax", "ArrayImpl"): JAX,
    ("jax", "Tracer"): JAX_TRACER,
    ("tensorflow", "EagerTensor"): TENSORFLOW,
    ("tensorflow", "Variable"): TENSORFLOW_VARIABLE,
    ("tensorflow", "Tensor"): TENSORFLOW_GRAPH,
    ("pandas", "Series"): PANDAS,
    ("pyarrow", "Array"): PYARROW,
    ("pyarrow", "ChunkedArray"): PYARROW,
}


def find(x: Any) -> Adapter | None:
    """Find the adapter of an array's type. A plain buffer, and what is no array, have none."""
    for base in type(x).__mro__:
        adapter = LIBRARIES.get((base.__module__.partition(".")[0], base.__name__))
        if adapter is TORCH and not hasattr(base, "__dlpack_c_exchange_api__"):
            return OLD_TORCH
        if adapter is not None:
            return adapter
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return DLPACK
    if hasattr(x, "__cuda_array_interface__"):
        return ON_GPU
    try:
        memoryview(x)
    except (TypeError, ValueError, BufferError):
        return INTERFACE if hasattr(x, "__array_interface__") else None
    return None


def example(dtype: Any) -> Any:
    """Return a tensor of a dtype of PyTorch; None for any other dtype."""
    kind = type(dtype)
    if (kind.__module__, kind.__name__) != ("torch", "dtype"):
        return None
    return sys.modules["torch"].empty(0, dtype=dtype)
