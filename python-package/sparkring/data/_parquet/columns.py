# SPDX-License-Identifier: Apache-2.0
"""The columns of a row group as arrays of a batch, of the dtypes and shapes of all batches.

Numbers, arrays and vectors become NumPy arrays, as for `sparkring.data.batches`; so do times, as
datetime64 in UTC, and decimals, as float64. Strings and bytes, such as images, stay arrays of Arrow
until their batch is made. For batches of Arrow, all columns do. Such arrays get the types of the
first row group, because files may differ in the sizes of offsets.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import InvalidError
from sparkring._tables import number, source
from sparkring._tables.arrow import from_arrow
from sparkring._tables.source import Column
from sparkring.data import _schema as schema
from sparkring.data._schema import Field

if TYPE_CHECKING:
    from sparkring._tables.number import Fill
    from sparkring._tables.source import Chunk

BYTES = np.dtype(object)  # of fields whose values are strings or bytes


class Columns:
    """The columns of a batch.

    Parameters
    ----------
    selected : list of Column
        The arrays of a batch.
    missing : float, str, bytes, dict or None
        The numbers and texts that replace nulls.
    arrow : bool
        Whether all columns stay arrays of Arrow.
    """

    def __init__(self, selected: list[Column], missing: Fill, arrow: bool) -> None:
        self.selected, self._missing, self._arrow = selected, missing, arrow
        self.fields: list[Field] = []
        self.types: dict[Any, Any] = {}  # of arrays that stay arrays of Arrow

    def arrays(self, table: Any) -> Chunk:
        """Convert a table of Arrow to arrays by name, as they come."""
        if self._arrow:
            return {
                column.name: _combined(table.column(column.sources[0])) for column in self.selected
            }
        groups = [_Group(table, self._missing, takes_bytes) for takes_bytes in (True, False)]
        return {
            column.name: source.read(groups[column.stacked], column) for column in self.selected
        }

    def fit(self, arrays: Chunk) -> Chunk:
        """Convert arrays to the dtypes of the fields."""
        numbers = [field for field in self.fields if field.dtype != BYTES]
        fitted = schema.fit({field.name: arrays[field.name] for field in numbers}, numbers)
        for name, kind in self.types.items():
            values: Any = arrays[name]
            fitted[name] = values if values.type == kind else values.cast(kind)
        return {field.name: fitted[field.name] for field in self.fields}

    def describe(self, table: Any, dtype: Any) -> list[Field]:
        """List the fields of a table, with dtypes that replace its own."""
        arrays: dict[Any, Any] = self._all(table)
        numbers = {
            name: x
            for name, x in arrays.items()
            if isinstance(x, np.ndarray) and number.is_number(x.dtype)
        }
        if isinstance(dtype, Mapping):
            for name in dtype:
                if name in arrays and name not in numbers:
                    kind = getattr(arrays[name], "type", None) or arrays[name].dtype
                    raise InvalidError(f"dtype names {name!r}, which holds {kind}: leave it out")
        fields = {field.name: field for field in schema.fields_of(numbers, dtype)}
        for name, x in arrays.items():
            others = (x.dtype, x.shape[1:]) if isinstance(x, np.ndarray) else (BYTES, ())
            fields.setdefault(name, Field(name, *others))
        return [fields[name] for name in arrays]

    def _all(self, table: Any) -> Chunk:
        """Convert a table; the error names all columns that are of other types."""
        try:
            return self.arrays(table)
        except InvalidError as error:
            others = [column.name for column in self.selected if not self._takes(table, column)]
            if len(others) < 2:
                raise
            raise InvalidError(f"{error}. The columns {others} are all refused") from error

    def _takes(self, table: Any, column: Column) -> bool:
        try:
            source.read(_Group(table, self._missing, not column.stacked), column)
        except InvalidError:
            return False
        return True

    def nothing(self) -> Chunk:
        """Make arrays without rows."""
        import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]

        return {
            field.name: pyarrow.nulls(0, self.types[field.name])
            if field.name in self.types
            else field.empty(0)
            for field in self.fields
        }


class _Group:
    """A table of Arrow whose columns are read for a batch."""

    def __init__(self, table: Any, missing: Fill, takes_bytes: bool) -> None:
        self._table, self._missing, self._takes_bytes = table, missing, takes_bytes
        self.names: list[Any] = table.schema.names
        self.rows: int = table.num_rows

    def column(self, name: Any) -> Any:
        """Return a column as an array."""
        column = _combined(self._table.column(name))
        sort = _sort(column.type)
        if sort == "time" or (sort == "bytes" and self._takes_bytes):
            if column.null_count:
                column = _filled(column, number.missing_in(self._missing, name))
            return _times(column) if sort == "time" else column
        if sort == "decimal":
            column = column.cast("float64")
        return from_arrow(column, number.missing_number(self._missing, name))


def _filled(column: Any, missing: Any) -> Any:
    """Replace nulls of strings and bytes by a text; nulls of times, too, are an error."""
    import pyarrow

    is_text = pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type)
    if not isinstance(missing, (str, bytes)) or not is_bytes(column.type):
        advice = f', or pass the {"text" if is_text else "bytes"} that replaces them as missing=""'
        error = number.nulls(column.null_count, len(column), arrays=True)
        raise InvalidError(f"{error}{advice if is_bytes(column.type) else ''}")
    try:
        value = missing if isinstance(missing, bytes) else missing.encode()
        return column.fill_null(pyarrow.scalar(value.decode() if is_text else value, column.type))
    except (pyarrow.ArrowInvalid, UnicodeDecodeError) as error:
        raise InvalidError(f"{column.type} cannot hold missing={missing!r}: {error}") from error


@functools.lru_cache(maxsize=1024)
def _sort(kind: Any) -> str:
    """Sort a type of Arrow. Questions to pyarrow take microseconds, and a file has many columns."""
    from pyarrow import types  # type: ignore[import-untyped, import-not-found, unused-ignore]

    if types.is_temporal(kind):
        return "time"
    if is_bytes(kind):
        return "bytes"
    return "decimal" if types.is_decimal(kind) else "other"


def is_bytes(kind: Any) -> bool:
    """Return whether a type of Arrow has strings or bytes."""
    from pyarrow import types  # type: ignore[import-untyped, import-not-found, unused-ignore]

    tests = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return types.is_fixed_size_binary(kind) or any(test(kind) for test in tests)


def _times(column: Any) -> Any:
    """View timestamps, or copy dates; other times are an error."""
    from pyarrow import types

    kind = column.type
    if types.is_timestamp(kind) or types.is_date64(kind):
        unit = kind.unit if types.is_timestamp(kind) else "ms"
        return from_arrow(column.view("int64"), None).view(f"M8[{unit}]")
    if types.is_date32(kind):
        return from_arrow(column.view("int32"), None).astype("M8[D]")
    raise number.unsupported(str(kind))


def _combined(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else concatenated(column.chunks, column.type)


def concatenated(parts: list[Any], kind: Any) -> Any:
    """Concatenate arrays of Arrow."""
    import pyarrow

    try:
        return pyarrow.concat_arrays(parts) if parts else pyarrow.nulls(0, kind)
    except pyarrow.ArrowInvalid as error:
        size = sum(part.nbytes for part in parts)
        raise InvalidError(
            f"a column of {kind} has {size:,} bytes in row groups that are in memory together, and"
            f" Arrow takes 2 GB: {error}. Pass a smaller shuffle=, or write smaller row groups"
        ) from error


def names(selected: list[Column] | None) -> list[str] | None:
    """List the columns of the files that are needed; None for all."""
    if selected is None:
        return None
    found = [name for column in selected for name in column.sources]
    wrong = [name for name in found if not isinstance(name, str)]
    if wrong:
        raise InvalidError(f"columns has {wrong[0]!r}: columns of Parquet have names of type str")
    return [str(name) for name in found]
