# SPDX-License-Identifier: Apache-2.0
"""Arrays of a batch as tensors. A framework is imported by the first loader that asks for it.

Strings and bytes have no tensors in PyTorch and JAX. They become a list in PyTorch, and an array of
objects in NumPy and JAX.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import InvalidError, UnsupportedError
from sparkring.data import _batch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sparkring._tables.source import Chunk
    from sparkring.data._schema import Field


def check(as_: str) -> None:
    """Import the framework."""
    module = "pyarrow" if as_ == "arrow" else as_
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise UnsupportedError(
            f'as_="{as_}" needs the package {module}, which cannot be imported: {error}'
        ) from error


def check_fields(as_: str, fields: Iterable[Field]) -> None:
    """Refuse times, of which only NumPy and Arrow have arrays."""
    times = [field.name for field in fields if field.dtype.kind == "M"]
    if times and as_ not in ("numpy", "arrow"):
        raise InvalidError(
            f"the columns {times} hold times, and {as_} has no tensors of times: leave them out"
            " with columns=, or make numbers of them in Spark (unix_timestamp)"
        )


def convert(arrays: Chunk, as_: str) -> dict[Any, Any]:
    """Convert arrays of NumPy, and arrays of Arrow with strings or bytes."""
    return {name: _CONVERTERS[as_](values) for name, values in arrays.items()}


def _numpy(values: Any) -> Any:
    if isinstance(values, np.ndarray):
        return values
    return values.to_numpy(zero_copy_only=False)


def _torch(values: Any) -> Any:
    return _batch.tensor(values) if isinstance(values, np.ndarray) else values.to_pylist()


def _tensorflow(values: Any) -> Any:
    import tensorflow  # type: ignore[import-untyped, import-not-found, unused-ignore]

    if isinstance(values, np.ndarray):
        return tensorflow.convert_to_tensor(values)
    return tensorflow.constant(values.to_pylist(), tensorflow.string, (len(values),))


def _jax(values: Any) -> Any:
    import jax  # type: ignore[import-untyped, import-not-found, unused-ignore]

    if not isinstance(values, np.ndarray):
        return _numpy(values)
    return jax.numpy.asarray(values, jax.dtypes.canonicalize_dtype(values.dtype))


_CONVERTERS = {"numpy": _numpy, "torch": _torch, "tensorflow": _tensorflow, "jax": _jax}
