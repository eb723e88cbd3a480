# SPDX-License-Identifier: Apache-2.0
"""The columns of a row group as arrays of a batch, of the dtypes and shapes of all batches.

Numbers, arrays and vectors become NumPy arrays, as for `sparkring.data.batches`. Strings and bytes,
such as images, stay arrays of Arrow until their batch is made. For batches of Arrow, all columns
do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import InvalidError
from sparkring.data import _number as number
from sparkring.data import _schema as schema
from sparkring.data import _source as source
from sparkring.data._arrow import from_arrow
from sparkring.data._schema import Field
from sparkring.data._source import Column

if TYPE_CHECKING:
    from sparkring.data._number import Missing
    from sparkring.data._source import Chunk

BYTES = np.dtype(object)  # of fields whose values are strings or bytes


class Columns:
    """The columns of a batch.

    Parameters
    ----------
    selected : list of Column
        The arrays of a batch.
    missing : float or None
        The number that replaces nulls.
    arrow : bool
        Whether all columns stay arrays of Arrow.
    """

    def __init__(self, selected: list[Column], missing: Missing, arrow: bool) -> None:
        self._selected, self._missing, self._arrow = selected, missing, arrow
        self.fields: list[Field] = []

    def arrays(self, table: Any) -> Chunk:
        """Convert a table of Arrow to arrays by name, as they come."""
        if self._arrow:
            return {
                column.name: _combined(_find(table, column.sources[0])) for column in self._selected
            }
        return {
            column.name: source.read(_Group(table, self._missing, not column.stacked), column)
            for column in self._selected
        }

    def fit(self, arrays: Chunk) -> Chunk:
        """Convert arrays to the dtypes of the fields."""
        if self._arrow:
            return arrays
        numbers = [field for field in self.fields if field.dtype != BYTES]
        fitted = schema.fit({field.name: arrays[field.name] for field in numbers}, numbers)
        return {field.name: fitted.get(field.name, arrays[field.name]) for field in self.fields}

    def describe(self, table: Any, dtype: Any) -> list[Field]:
        """List the fields of a table, with dtypes that replace its own."""
        arrays: dict[Any, Any] = self.arrays(table)
        numbers = {name: x for name, x in arrays.items() if isinstance(x, np.ndarray)}
        if isinstance(dtype, Mapping):
            for name in dtype:
                if name in arrays and name not in numbers:
                    raise InvalidError(
                        f"dtype names {name!r}, which holds {arrays[name].type}: leave it out"
                    )
        fields = {field.name: field for field in schema.fields_of(numbers, dtype)}
        return [fields.get(name, Field(name, BYTES, ())) for name in arrays]

    def nothing(self, of_table: Any) -> Chunk:
        """Make arrays without rows, of tables with this schema."""
        import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]

        return {
            field.name: pyarrow.nulls(0, of_table.field(column.sources[0]).type)
            if field.dtype == BYTES
            else field.empty(0)
            for field, column in zip(self.fields, self._selected)
        }


class _Group:
    """A table of Arrow whose columns are read for a batch."""

    def __init__(self, table: Any, missing: Missing, takes_bytes: bool) -> None:
        self._table, self._missing, self._takes_bytes = table, missing, takes_bytes
        self.names: list[Any] = table.schema.names
        self.rows: int = table.num_rows

    def column(self, name: Any) -> Any:
        """Return a column as an array."""
        column = _combined(_find(self._table, name))
        if not (self._takes_bytes and is_bytes(column.type)):
            return from_arrow(column, self._missing)
        if column.null_count:
            raise number.nulls(column.null_count, len(column), arrays=True)
        return column


def is_bytes(kind: Any) -> bool:
    """Return whether a type of Arrow has strings or bytes."""
    from pyarrow import types  # type: ignore[import-untyped, import-not-found, unused-ignore]

    tests = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return types.is_fixed_size_binary(kind) or any(test(kind) for test in tests)


def _find(table: Any, name: Any) -> Any:
    return table.column(table.schema.get_field_index(name))


def _combined(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def names(selected: list[Column] | None) -> list[str] | None:
    """List the columns of the files that are needed; None for all."""
    if selected is None:
        return None
    found = [name for column in selected for name in column.sources]
    wrong = [name for name in found if not isinstance(name, str)]
    if wrong:
        raise InvalidError(f"columns has {wrong[0]!r}: columns of Parquet have names of type str")
    return [str(name) for name in found]
