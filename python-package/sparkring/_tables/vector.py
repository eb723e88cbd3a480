# SPDX-License-Identifier: Apache-2.0
"""Vectors of Spark ML, which come as objects of PySpark, as dicts, as rows or as an Arrow struct.

A dense vector has ``values``. A sparse vector has ``size``, and ``indices`` of its ``values``. The
vectors of a column become the rows of one dense matrix. In a struct, ``type`` is 1 for a dense
vector and 0 for a sparse vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import InvalidError

if TYPE_CHECKING:
    from numpy.typing import NDArray

FIELDS = ("type", "size", "indices", "values")


def is_vector(value: Any) -> bool:
    """Return whether a value is a vector, in one of its forms."""
    if isinstance(value, dict):
        return set(value) == set(FIELDS)
    if isinstance(value, tuple):
        return getattr(value, "__fields__", None) == list(FIELDS)
    return type(value).__name__ in ("DenseVector", "SparseVector") and hasattr(value, "toArray")


def matrix(
    dense: NDArray[Any],
    sizes: NDArray[Any],
    counts: NDArray[Any],
    indices: NDArray[Any],
    values: NDArray[Any],
) -> NDArray[Any]:
    """Copy concatenated vectors into the rows of a matrix.

    Parameters
    ----------
    dense : array of bool
        Which vectors are dense.
    sizes : array of int
        Lengths of the sparse vectors.
    counts : array of int
        The number of values of each vector.
    indices : array of int
        The columns of the values of the sparse vectors.
    values : array
        The values of all vectors.
    """
    widths = np.where(dense, counts, sizes)
    unlike = np.flatnonzero(widths != widths[0])
    if len(unlike):
        row = int(unlike[0])
        raise InvalidError(
            f"its vectors are not of one size: the first has {widths[0]}, that of row {row:,} has"
            f" {widths[row]}. Make them with the same VectorAssembler"
        )
    shape = len(dense), int(widths[0])
    if dense.all():
        return values.reshape(shape)
    columns = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    columns[np.repeat(~dense, counts)] = indices
    result = np.zeros(shape, values.dtype)
    result[np.repeat(np.arange(len(dense)), counts), columns] = values
    return result


def from_objects(values: Sequence[Any]) -> NDArray[Any]:
    """Make a matrix of vectors, in any form except that of Arrow."""
    parts = [_parts(value) for value in values]
    nothing = [np.empty(0, np.int64)]
    return matrix(
        np.array([indices is None for _, indices, _ in parts]),
        np.array([size for size, _, _ in parts]),
        np.array([len(numbers) for _, _, numbers in parts]),
        np.concatenate(nothing + [indices for _, indices, _ in parts if indices is not None]),
        np.concatenate([np.asarray(numbers, np.float64) for _, _, numbers in parts]),
    )


def _parts(value: Any) -> tuple[int, Any, Any]:
    """Return size, indices (None for a dense vector) and values."""
    if isinstance(value, tuple):
        value = dict(zip(FIELDS, value))
    if isinstance(value, dict):
        sparse = value["type"] == 0
        return value["size"] if sparse else 0, value["indices"] if sparse else None, value["values"]
    if type(value).__name__ == "SparseVector":
        return value.size, value.indices, value.values
    return 0, None, value.toArray()
