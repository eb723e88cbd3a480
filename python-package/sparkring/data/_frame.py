# SPDX-License-Identifier: Apache-2.0
"""Columns of pandas data frames, as mapInPandas passes them.

Numbers become views without a copy. pandas converts the nulls of numbers to NaN, so NaN counts as
null. In a frame with a null, pandas also converts whole numbers to floats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import InvalidError
from sparkring.data import _number as number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring.data._number import Missing


class FrameTable:
    """A data frame of pandas."""

    def __init__(self, frame: Any, missing: Missing) -> None:
        self._frame, self._missing = frame, missing
        self.names: list[Any] = list(frame.columns)
        self.rows: int = len(frame)

    def column(self, name: Any) -> NDArray[Any]:
        """Return a column as an array, row by row."""
        series = self._frame[name]
        if series.ndim != 1:
            raise InvalidError("there are several columns of this name: rename them in Spark")
        dtype = series.dtype
        if isinstance(dtype, np.dtype) and number.is_number(dtype):
            return number.without_nan(series.to_numpy(), self._missing)
        if dtype.kind == "O" and isinstance(dtype, np.dtype):
            return self._objects(series)
        inner = getattr(dtype, "numpy_dtype", None)  # pandas' own nullable types
        if isinstance(inner, np.dtype) and number.is_number(inner):
            return self._nullable(series, inner)
        raise number.unsupported(str(dtype))

    def _objects(self, series: Any) -> NDArray[Any]:
        values = number.from_objects(series.to_numpy(), self._missing)
        return number.without_nan(values, self._missing)

    def _nullable(self, series: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
        found = series.isna().to_numpy()
        count = int(found.sum())
        if count and self._missing is None:
            raise number.nulls(count, len(series))
        values = series.to_numpy(dtype=dtype, na_value=dtype.type(0))
        values = number.widen(values, self._missing)
        return (
            np.where(found, number.filler(values.dtype, self._missing), values) if count else values
        )
