# SPDX-License-Identifier: Apache-2.0
"""Columns of Arrow's record batches, as mapInArrow passes them.

Numbers, and arrays and dense vectors of numbers, become read-only views without a copy. Booleans
are bits in Arrow, so they are copied. Sparse vectors are copied, too.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._tables import number, vector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._tables.number import Fill, Missing

FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}


class ArrowTable:
    """A record batch of Arrow, or a table."""

    def __init__(self, batch: Any, missing: Fill) -> None:
        self._batch, self._missing = batch, missing
        self.names: list[Any] = batch.schema.names
        self.rows: int = batch.num_rows

    def column(self, name: Any) -> NDArray[Any]:
        """Return a column as an array, row by row."""
        column = self._batch.column(self._batch.schema.get_field_index(name))
        if hasattr(column, "combine_chunks"):
            column = column.combine_chunks()
        return from_arrow(column, number.missing_number(self._missing, name))


def from_arrow(array: Any, missing: Missing) -> NDArray[Any]:
    """View or copy an array of Arrow."""
    found: NDArray[Any] = _reader(array.type)(array, missing)
    return found


@functools.lru_cache(maxsize=1024)
def _reader(kind: Any) -> Any:
    """Return the function that reads arrays of a type. Questions to pyarrow take microseconds."""
    from pyarrow import types  # type: ignore[import-untyped, import-not-found, unused-ignore]

    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return _numbers
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _arrays
    if types.is_struct(kind) and [field.name for field in kind] == list(vector.FIELDS):
        return _vectors
    return _others


def _others(array: Any, missing: Missing) -> NDArray[Any]:
    import pyarrow

    if pyarrow.types.is_null(array.type):
        raise number.nulls(len(array), len(array))
    raise number.unsupported(str(array.type))


def _numbers(array: Any, missing: Missing) -> NDArray[Any]:
    if array.null_count and missing is None:
        raise number.nulls(array.null_count, len(array))
    if isinstance(missing, float) and _dtype(array.type).kind in "biu":
        array = array.cast("float64", safe=False)
    if array.null_count:
        import pyarrow

        filler = number.filler(_dtype(array.type), missing)
        array = array.fill_null(pyarrow.scalar(filler, array.type))
    return _view(array)


def _view(array: Any) -> NDArray[Any]:
    """View numbers without nulls. pyarrow's own way imports pandas, which takes half a second."""
    dtype = _dtype(array.type)
    if dtype.kind == "b":
        return _view(array.cast("uint8")).view(bool)
    if not len(array):
        return np.empty(0, dtype)
    values = np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)
    values.flags.writeable = False
    return values


@functools.lru_cache(maxsize=32)
def _dtype(kind: Any) -> np.dtype[Any]:
    """Return the dtype of a type of numbers."""
    return np.dtype(FLOATS.get(str(kind), str(kind)))


def _arrays(array: Any, missing: Missing) -> NDArray[Any]:
    rows = len(array)
    if array.null_count:
        raise number.nulls(array.null_count, rows, arrays=True)
    if hasattr(array, "offsets"):
        widths = np.diff(_view(array.offsets))
        width = int(widths[0])
        unlike = np.flatnonzero(widths != width)
        if len(unlike):
            raise number.unlike(width, widths[unlike[0]], int(unlike[0]))
    else:
        width = array.type.list_size
    values = from_arrow(array.flatten(), missing) if width else np.empty(0)
    return values.reshape((rows, width, *values.shape[1:]))


def _vectors(array: Any, missing: Missing) -> NDArray[Any]:
    from pyarrow import compute

    if array.null_count:
        raise number.nulls(array.null_count, len(array), arrays=True)
    kinds, sizes, indices, values = array.flatten()
    return vector.matrix(
        _view(kinds) == 1,
        _view(sizes.fill_null(0)),
        _view(compute.list_value_length(values)),
        _view(indices.flatten()),
        _view(values.flatten()),
    )
