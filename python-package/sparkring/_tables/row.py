# SPDX-License-Identifier: Apache-2.0
"""Columns of rows, as RDD.mapPartitions passes them.

A row is a Row of PySpark or a named tuple, a dict, a tuple or list, or a single value. The columns
of a tuple or list are called 0, 1 and so on. The column of a single value is called ``"value"``.
The first row decides the kind of all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sparkring._core import InvalidError
from sparkring._tables import number, vector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._tables.number import Fill


class RowTable:
    """Some rows."""

    def __init__(self, rows: list[Any], missing: Fill) -> None:
        self._rows, self._missing = rows, missing
        self.names = names_of(rows[0])
        self.rows = len(rows)

    def column(self, name: Any) -> NDArray[Any]:
        """Return a column as an array, row by row."""
        pick = _picker(self._rows[0], self.names, name)
        try:
            values = [pick(row) for row in self._rows]
        except (KeyError, IndexError, TypeError) as error:
            raise InvalidError(f"not every row has the column: {error!r}") from error
        return number.from_objects(values, number.missing_number(self._missing, name))


def names_of(row: Any) -> list[Any]:
    """List the columns of a row."""
    if isinstance(row, dict):
        return list(row)
    if vector.is_vector(row) or not isinstance(row, (tuple, list)):
        return ["value"]
    fields = getattr(row, "__fields__", None) or getattr(row, "_fields", None)
    return list(range(len(row))) if fields is None else list(fields)


def _picker(row: Any, names: list[Any], name: Any) -> Callable[[Any], Any]:
    if isinstance(row, dict):
        return lambda row: row[name]
    if vector.is_vector(row) or not isinstance(row, (tuple, list)):
        return lambda row: row
    index = names.index(name)
    return lambda row: row[index]
