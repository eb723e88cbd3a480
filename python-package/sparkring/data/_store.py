# SPDX-License-Identifier: Apache-2.0
"""The rows of a partition, kept for the epochs after the first.

Spark passes the rows of a partition once. Up to `memory` bytes of the rows are kept in memory, and
further rows in an unnamed file in Spark's local directory. The file ends with the process. One
chunk at a time is read back.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from sparkring._run_state import spark_local_directory
from sparkring._tables.source import rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._tables.source import Chunk
    from sparkring.data._schema import Field


class Store:
    """Chunks, in their order."""

    def __init__(self, fields: list[Field], memory: float) -> None:
        self._fields, self._memory = fields, memory
        self._chunks: list[Chunk] = []
        self._lengths: list[int] = []  # of the chunks in the file
        self._file: IO[bytes] | None = None
        self.rows = 0

    def append(self, chunk: Chunk) -> None:
        """Keep a copy of a chunk. Must not be called after `chunks`."""
        rows = rows_of(chunk)
        self.rows += rows
        size = sum(values.nbytes for values in chunk.values())
        if self._file is None and size <= self._memory:
            self._memory -= size
            self._chunks.append({name: _frozen(values) for name, values in chunk.items()})
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="sparkring-", dir=spark_local_directory())  # noqa: SIM115
        for values in chunk.values():
            self._file.write(_bytes(np.ascontiguousarray(values)))
        self._lengths.append(rows)

    def chunks(self) -> Iterator[Chunk]:
        """Yield all chunks."""
        yield from self._chunks
        if self._file is None:
            return
        self._file.flush()
        at = 0
        for rows in self._lengths:
            chunk: dict[Any, Any] = {}
            for field in self._fields:
                values = chunk[field.name] = field.empty(rows)
                self._read(at, _bytes(values))
                at += values.nbytes
            yield chunk

    def _read(self, at: int, memory: memoryview) -> None:
        assert self._file is not None
        while memory:
            count = os.preadv(self._file.fileno(), [memory], at)
            if count == 0:
                raise EOFError("the file with the rows of this partition has been cut off")
            memory, at = memory[count:], at + count


def _bytes(values: NDArray[Any]) -> memoryview:
    view: Any = values.reshape(-1).view(np.uint8)
    return memoryview(view)


def _frozen(values: Any) -> Any:
    """Make a read-only copy, so that the array keeps no other memory alive."""
    copy = np.array(values)
    copy.flags.writeable = False
    return copy
