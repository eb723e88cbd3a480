# SPDX-License-Identifier: Apache-2.0
"""Rows that arrive in chunks of any length, and are taken in batches of another length.

`Stream` returns rows in their order, as views of a chunk where no chunk ends in between. `Shuffled`
draws rows from random places of a buffer, and the next rows fill these places. So a row overtakes
at most `capacity` rows. When the buffer has capacity for all rows, every order is equally likely.
The order follows from the generator of random numbers and the number of rows alone, and not from
the ends of chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._tables.source import rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._tables.source import Chunk

FIRST = 1024  # capacity of a new buffer, in rows


def join(parts: list[Chunk]) -> Chunk:
    """Concatenate chunks."""
    if len(parts) == 1:
        return parts[0]
    return {name: concatenate([part[name] for part in parts]) for name in parts[0]}


def concatenate(arrays: list[Any]) -> Any:
    """Concatenate arrays of NumPy, or of Arrow."""
    if isinstance(arrays[0], np.ndarray):
        return np.concatenate(arrays)
    import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]

    return pyarrow.concat_arrays(arrays)


class Stream:
    """Rows in their order."""

    def __init__(self, chunks: Iterator[Chunk]) -> None:
        self._chunks = chunks
        self._chunk: Chunk = {}
        self._at = self._end = 0

    def piece(self, count: int) -> Chunk | None:
        """Take rows of one chunk, as views, up to a number; None after the last row."""
        if self._at == self._end:
            chunk = next(self._chunks, None)
            if chunk is None:
                return None
            self._chunk, self._at, self._end = chunk, 0, rows_of(chunk)
        start, self._at = self._at, min(self._at + count, self._end)
        if start == 0 and self._at == self._end:
            return self._chunk
        return {name: values[start : self._at] for name, values in self._chunk.items()}

    def take(self, count: int) -> Chunk | None:
        """Take a number of rows, fewer at the end, and None after the end."""
        parts = []
        while count > 0:
            part = self.piece(count)
            if part is None:
                break
            parts.append(part)
            count -= rows_of(part)
        return join(parts) if parts else None


class Shuffled:
    """Rows from random places of a buffer."""

    def __init__(self, stream: Stream, capacity: int, random: np.random.Generator) -> None:
        self._stream, self._capacity, self._random = stream, capacity, random
        self._buffer: dict[Any, NDArray[Any]] = {}
        self._allocated = self._held = 0
        self._filled = False

    def take(self, count: int) -> Chunk | None:
        """Take a number of rows, fewer at the end, and None after the end."""
        if not self._filled:
            self._fill()
        parts = []
        while count > 0 and self._held > 0:
            parts.append(self._draw(min(count, self._held)))
            count -= rows_of(parts[-1])
        return join(parts) if parts else None

    def _fill(self) -> None:
        self._filled = True
        while self._held < self._capacity:
            part = self._stream.piece(self._capacity - self._held)
            if part is None:
                return
            rows = rows_of(part)
            self._grow(part, self._held + rows)
            for name, values in part.items():
                self._buffer[name][self._held : self._held + rows] = values
            self._held += rows

    def _grow(self, part: Chunk, rows: int) -> None:
        """Grow, twofold at least. The system moves large arrays without a copy."""
        if not self._buffer:
            self._buffer = {name: np.empty_like(values[:0]) for name, values in part.items()}
        if rows <= self._allocated:
            return
        self._allocated = min(max(rows, 2 * self._allocated, FIRST), self._capacity)
        for values in self._buffer.values():
            values.resize((self._allocated, *values.shape[1:]), refcheck=False)

    def _draw(self, count: int) -> Chunk:
        places = self._random.choice(self._held, count, replace=False)
        drawn = {name: values[places] for name, values in self._buffer.items()}
        fresh = self._stream.take(count)
        filled = 0
        if fresh is not None:
            filled = rows_of(fresh)
            for name, values in fresh.items():
                self._buffer[name][places[:filled]] = values
        self._fill_gaps(places[filled:])
        return drawn

    def _fill_gaps(self, gaps: NDArray[Any]) -> None:
        """Move the last rows to the empty places."""
        held = self._held - len(gaps)
        is_row = np.ones(len(gaps), bool)
        is_row[gaps[gaps >= held] - held] = False
        last = held + np.flatnonzero(is_row)
        gaps = gaps[gaps < held]
        for values in self._buffer.values():
            values[gaps] = values[last]
        self._held = held
