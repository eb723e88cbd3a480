# SPDX-License-Identifier: Apache-2.0
"""The rows of a Spark task, as chunks: arrays by name, of the same rows.

A chunk is one item of Spark: a data frame of pandas, a record batch of Arrow, or up to `CHUNK_ROWS`
rows. The first item decides the kind, so neither pandas nor Arrow need be installed. Only the
requested columns are converted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Union

import numpy as np

from sparkring._core import InvalidError
from sparkring._tables import number
from sparkring._tables.arrow import ArrowTable
from sparkring._tables.frame import FrameTable
from sparkring._tables.row import RowTable

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import TypeAlias

    from sparkring._tables.number import Fill

    Name: TypeAlias = Union[str, int]
    Chunk: TypeAlias = dict[Name, NDArray[Any]]

CHUNK_ROWS = 1024  # rows of an RDD in a chunk


class Table(Protocol):
    """The rows of one chunk."""

    names: list[Any]
    rows: int

    def column(self, name: Any) -> NDArray[Any]:
        """Return a column as an array, row by row."""


class Column(NamedTuple):
    """The source of one array of a batch: a column of Spark's, or several columns."""

    name: Name
    sources: tuple[Name, ...]
    stacked: bool


def rows_of(chunk: Chunk) -> int:
    """Return the number of rows of a chunk."""
    return len(next(iter(chunk.values())))


# ---- Columns -------------------------------------------------------------------------------------


def select(columns: Any) -> list[Column] | None:
    """Read the argument ``columns``; None for all."""
    if columns is None:
        return None
    if isinstance(columns, (str, int)):
        columns = [columns]
    pairs = columns.items() if isinstance(columns, Mapping) else ((name, name) for name in columns)
    selected = [_column(name, sources) for name, sources in pairs]
    if not selected:
        raise InvalidError("columns is empty: name the columns of a batch, or leave it out")
    return selected


def _column(name: Any, sources: Any) -> Column:
    stacked = isinstance(sources, Iterable) and not isinstance(sources, str)
    column = Column(name, tuple(sources) if stacked else (sources,), stacked)
    if not all(isinstance(text, (str, int)) for text in (name, *column.sources)):
        raise InvalidError(
            f"columns has {name!r}: {sources!r}: pass the names of columns, or a dict whose values"
            ' are names or lists of names, as in {"x": ["height", "width"], "y": "label"}'
        )
    if not column.sources:
        raise InvalidError(f"columns has an empty list for {name!r}: name at least one column")
    return column


# ---- Chunks --------------------------------------------------------------------------------------


def chunks(rows: Any, selected: list[Column] | None, missing: Fill) -> Iterator[Chunk]:
    """Yield the chunks, without empty chunks."""
    start = 0
    for table in tables(rows, missing):
        if table.rows == 0:
            continue
        number.check_names(missing, table.names)
        wanted = selected or [Column(name, (name,), False) for name in table.names]
        try:
            yield {column.name: read(table, column) for column in wanted}
        except InvalidError as error:
            where = f"rows {start:,} to {start + table.rows - 1:,} of its partition"
            raise InvalidError(f"{where}: {error}") from error.__cause__
        start += table.rows


def tables(rows: Any, missing: Fill) -> Iterator[Table]:
    """Find the kind of the items."""
    if hasattr(rows, "mapInPandas") or hasattr(rows, "mapPartitions"):
        raise InvalidError(
            f"rows is a {type(rows).__name__} of Spark: call batches() in the tasks, with the"
            " argument that mapInPandas, mapInArrow or mapPartitions passes to your function"
        )
    if _is_frame(rows) or _is_arrow(rows):
        rows = rows.to_batches() if hasattr(rows, "to_batches") else [rows]
    if not isinstance(rows, Iterable):
        raise InvalidError(
            f"rows is of type {type(rows).__name__}: pass the argument that mapInPandas, mapInArrow"
            " or mapPartitions passes to your function"
        )
    items = iter(rows)
    for first in items:
        all_items = chain([first], items)
        if _is_frame(first):
            yield from (FrameTable(frame, missing) for frame in all_items)
        elif _is_arrow(first):
            yield from (ArrowTable(batch, missing) for batch in all_items)
        else:
            while some := list(islice(all_items, CHUNK_ROWS)):
                yield RowTable(some, missing)


def _is_frame(item: Any) -> bool:
    return hasattr(item, "columns") and hasattr(item, "to_numpy")


def _is_arrow(item: Any) -> bool:
    return hasattr(item, "schema") and hasattr(item, "num_rows")


def read(table: Table, column: Column) -> NDArray[Any]:
    """Read one array of a batch."""
    parts = [_source(table, name) for name in column.sources]
    return _side_by_side(parts) if column.stacked else parts[0]


def _source(table: Table, name: Name) -> NDArray[Any]:
    if name not in table.names:
        known = ", ".join(repr(known) for known in table.names[:20])
        more = " and more" if len(table.names) > 20 else ""
        raise InvalidError(f"there is no column {name!r}: there are {known}{more}")
    if table.names.count(name) > 1:
        raise InvalidError(
            f"there are several columns of this name, {name!r}: rename them in Spark"
        )
    try:
        return table.column(name)
    except InvalidError as error:
        raise InvalidError(f"column {name!r}: {error}") from error.__cause__


def _side_by_side(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Join columns to a matrix. Each column may have several elements a row."""
    matrices = [part.reshape(len(part), -1) for part in parts]
    ends = np.cumsum([matrix.shape[1] for matrix in matrices])
    result = np.empty((len(parts[0]), ends[-1]), np.result_type(*parts))
    for matrix, end in zip(matrices, ends):
        result[:, end - matrix.shape[1] : end] = matrix
    return result
