# SPDX-License-Identifier: Apache-2.0
"""Tables of polars, decimals, and sparse columns of pandas, as `sparkring.data` reads tables."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from sparkring._core import InvalidError


def readable(x: Any) -> Any:
    """Return a table whose columns can be read, or the rows as they are.

    Raises
    ------
    InvalidError
        For a lazy table.
    """
    if is_lazy(x):
        raise InvalidError("X is a lazy table: pass X.collect()")
    if hasattr(x, "collect_schema"):  # polars
        x = x.to_arrow()
    if hasattr(x, "schema") and hasattr(x, "num_rows"):
        return without_decimals(x)
    if hasattr(x, "columns") and hasattr(x, "dtypes"):
        return plain_columns(x)
    return x


def is_lazy(x: Any) -> bool:
    """Return whether this is a lazy table of polars."""
    return hasattr(x, "collect_schema") and not hasattr(x, "to_arrow")


def without_decimals(table: Any) -> Any:
    """Convert the decimals of a table of Arrow to doubles."""
    kinds = [str(field.type) for field in table.schema]
    places = [place for place, kind in enumerate(kinds) if kind.startswith("decimal")]
    if not places:
        return table
    import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]

    columns = [
        column.cast("float64") if place in places else column
        for place, column in enumerate(table.columns)
    ]
    return pyarrow.table(columns, names=table.schema.names)


def plain_columns(frame: Any) -> Any:
    """Fill the sparse columns of a frame of pandas, and convert its decimals to doubles."""
    if not frame.columns.is_unique:
        return frame
    changed = {}
    for name, dtype in zip(frame.columns, frame.dtypes):
        if type(dtype).__name__ == "SparseDtype":
            changed[name] = frame[name].sparse.to_dense()
        elif dtype.kind == "O" and any(isinstance(value, Decimal) for value in frame[name][:100]):
            changed[name] = frame[name].astype("float64")
    if not changed:
        return frame
    frame = frame.copy(deep=False)
    for name, column in changed.items():
        frame[name] = column
    return frame
