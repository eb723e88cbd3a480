# SPDX-License-Identifier: Apache-2.0
"""The rows of a rank as blocks: arrays of the rows of one window, in their order.

All work on rows is done here, and so by the thread that reads ahead: reading, conversion and
shuffling. A batch is then a slice of each array.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkring.data._parquet.columns import concatenated

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._tables.source import Chunk
    from sparkring.data._parquet.columns import Columns
    from sparkring.data._parquet.order import Interval, Order
    from sparkring.data._parquet.row_groups import RowGroups


class Block(NamedTuple):
    """Rows, or the end of an epoch.

    Attributes
    ----------
    arrays : dict or None
        The arrays; None at the end of the epoch.
    groups : int
        The number of row groups that the arrays come from.
    """

    arrays: Chunk | None
    groups: int


END = Block(None, 0)


class Blocks:
    """Makes the blocks of a rank.

    Parameters
    ----------
    order : Order
        The order of the rows.
    row_groups : RowGroups
        The row groups.
    columns : Columns
        The columns of a batch.
    """

    def __init__(self, order: Order, row_groups: RowGroups, columns: Columns) -> None:
        self._order, self._row_groups, self._columns = order, row_groups, columns

    def epoch(self, epoch: int, intervals: list[Interval]) -> Iterator[Block]:
        """Yield the blocks of an epoch, and its end."""
        for part in self._order.slices(epoch, intervals):
            if isinstance(part.rows, slice):
                yield from self._ordered(part.groups[0], part.rows)
            else:
                yield Block(self._shuffled(part.groups, part.rows), len(part.groups))
        yield END

    def close(self) -> None:
        """Close the files."""
        self._row_groups.close()

    def _ordered(self, group: int, rows: slice) -> Iterator[Block]:
        with self._row_groups.named(group):
            for table in self._row_groups.parts(group, rows.start, rows.stop):
                yield Block(self._columns.fit(self._columns.arrays(table)), 1)

    def _shuffled(self, groups: list[int], rows: NDArray[np.int64]) -> Chunk:
        parts = []
        for group in groups:
            with self._row_groups.named(group):
                arrays = self._columns.arrays(self._row_groups.read(group))
                parts.append(self._columns.fit(arrays))
        with self._row_groups.named(groups[0]):
            return {
                name: _taken([part.pop(name) for part in parts], rows) for name in list(parts[0])
            }


def _taken(parts: list[Any], rows: NDArray[np.int64]) -> Any:
    """Concatenate arrays, and take rows."""
    import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]

    if not isinstance(parts[0], np.ndarray):
        count, indices = len(rows), pyarrow.py_buffer(rows)
        indices = pyarrow.Array.from_buffers(pyarrow.int64(), count, [None, indices])
        return concatenated(parts, parts[0].type).take(indices)
    count = sum(map(len, parts))
    whole = np.concatenate(parts, out=_allocated(count, parts[0]))
    # All rows exist. NumPy checks them once more, and "wrap" is its fastest way.
    return whole.take(rows, 0, _allocated(len(rows), whole), "wrap")


def _allocated(count: int, like: NDArray[Any]) -> NDArray[Any]:
    """Allocate rows from Arrow's memory, which has the pages of freed row groups at hand."""
    import pyarrow

    shape = count, *like.shape[1:]
    buffer = pyarrow.allocate_buffer(math.prod(shape) * like.dtype.itemsize)
    return np.ndarray(shape, like.dtype, buffer)
