# SPDX-License-Identifier: Apache-2.0
"""Columns of pandas data frames, as mapInPandas passes them.

Numbers become views without a copy. pandas converts the nulls of numbers to NaN, so NaN counts as
null. In a frame with a null, pandas also converts whole numbers to floats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._tables import number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._tables.number import Fill, Missing


class FrameTable:
    """A data frame of pandas."""

    def __init__(self, frame: Any, missing: Fill) -> None:
        self._frame, self._missing = frame, missing
        self.names: list[Any] = list(frame.columns)
        self.rows: int = len(frame)

    def column(self, name: Any) -> NDArray[Any]:
        """Return a column as an array, row by row."""
        series = self._frame[name]
        missing = number.missing_number(self._missing, name)
        dtype = series.dtype
        if isinstance(dtype, np.dtype) and number.is_number(dtype):
            return number.without_nan(series.to_numpy(), missing)
        if dtype.kind == "O" and isinstance(dtype, np.dtype):
            return number.without_nan(number.from_objects(series.to_numpy(), missing), missing)
        inner = getattr(dtype, "numpy_dtype", None)  # pandas' own nullable types
        if isinstance(inner, np.dtype) and number.is_number(inner):
            return _nullable(series, inner, missing)
        raise number.unsupported(str(dtype))


def _nullable(series: Any, dtype: np.dtype[Any], missing: Missing) -> NDArray[Any]:
    found = series.isna().to_numpy()
    count = int(found.sum())
    if count and missing is None:
        raise number.nulls(count, len(series))
    values = number.widen(series.to_numpy(dtype=dtype, na_value=dtype.type(0)), missing)
    return np.where(found, number.filler(values.dtype, missing), values) if count else values
