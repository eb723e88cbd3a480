# SPDX-License-Identifier: Apache-2.0
"""Reads row groups with pyarrow, without its threads: the reader is one thread.

Some files stay open between two row groups. When a file is opened, its footer must still have the
digest that rank 0 has found, so no rank takes rows of a file that has changed. A row group may also
come from a cache.

For remote files pyarrow keeps the bytes of a row group until its reader is gone. So each of their
row groups is read by a reader of its own, and the open file keeps the parsed footer only.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sparkring._core import InvalidError
from sparkring.data._parquet import footer

if TYPE_CHECKING:
    from sparkring.data._parquet.cache import Cache
    from sparkring.data._parquet.file_system import Location
    from sparkring.data._parquet.manifest import File, Manifest

OPEN = 32  # files
FOOTERS = 8 << 20  # bytes of the footers of open files; in memory they take several times as much
PART = 8 << 20  # bytes, decompressed, of a part of a row group

# A thread of Arrow may be the last to let go of a file, some moments after its last read. For a
# file in Python it would come back to Python then, perhaps after the interpreter has ended.
_closed: deque[Any] = deque(maxlen=OPEN)


class RowGroups:
    """The row groups of a manifest."""

    def __init__(self, manifest: Manifest, location: Location, cache: Cache | None) -> None:
        self._manifest, self._location, self._cache = manifest, location, cache
        self._groups = manifest.groups()
        self._open: OrderedDict[int, _OpenFile] = OrderedDict()

    def read(self, group: int) -> Any:
        """Return the table of a row group."""
        number, index, rows = self._groups[group].tolist()
        table = None if self._cache is None else self._cache.get(group)
        if table is None or table.num_rows != rows:  # a crash of the host may leave any file
            reader = self._file(number).reader()
            table = reader.read_row_group(index, self._manifest.columns, use_threads=False)
            if self._cache is not None:
                self._cache.put(group, table)
        if table.num_rows != rows:
            raise InvalidError(f"it has {table.num_rows:,} rows, and its footer says {rows:,}")
        return self._completed(table, self._manifest.files[number])

    def parts(self, group: int, start: int, end: int) -> Iterator[Any]:
        """Yield tables of some rows of a row group, which is not in memory as a whole if large."""
        number, index, rows = self._groups[group].tolist()
        size = 0 if self._cache is not None else self._file(number).bytes(index)
        if size <= PART:
            yield self.read(group).slice(start, end - start)
            return
        at = 0
        for table in self._tables(number, index, max(1, rows * PART // size)):
            first, last = max(start - at, 0), min(end - at, table.num_rows)
            if first < last:
                yield table.slice(first, last - first)
            at += table.num_rows
            if at >= end:
                break

    def sample(self) -> Any:
        """Return the table of the first row of the first row group."""
        number, index, _ = self._groups[0].tolist()
        return next(self._tables(number, index, 1))

    def _tables(self, number: int, index: int, rows: int) -> Iterator[Any]:
        """Yield tables of so many rows each."""
        import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]

        batches = (
            self._file(number)
            .reader()
            .iter_batches(
                rows, row_groups=[index], columns=self._manifest.columns, use_threads=False
            )
        )
        for batch in batches:
            table = pyarrow.Table.from_batches([batch])
            yield self._completed(table, self._manifest.files[number])

    @contextlib.contextmanager
    def named(self, group: int) -> Iterator[None]:
        """Name the row group in the errors of the block. Drivers of storage raise any type."""
        import pyarrow

        number, index, _ = self._groups[group].tolist()
        where = f"row group {index} of {self._manifest.path(self._manifest.files[number])}"
        try:
            yield
        except InvalidError as error:
            raise InvalidError(f"{where}: {error}") from error
        except (pyarrow.ArrowInvalid, OSError) as error:
            raise InvalidError(
                f"{where}: it cannot be read: {error}. Every host must be able to read the file,"
                " and the file must be whole"
            ) from error
        except Exception as error:
            raise InvalidError(f"{where}: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Close all files."""
        while self._open:
            self._open.popitem()[1].close()

    def _completed(self, table: Any, file: File) -> Any:
        """Append the partition columns, and replace dictionaries by their values."""
        import pyarrow

        for index, field in enumerate(table.schema):
            if pyarrow.types.is_dictionary(field.type):
                values = table.column(index).cast(field.type.value_type)
                table = table.set_column(index, field.name, values)
        for (name, kind), text in zip(self._manifest.types.items(), file.values):
            value = pyarrow.scalar(text, pyarrow.string()).cast(kind)
            table = table.append_column(name, pyarrow.repeat(value, table.num_rows))
        return table

    def _file(self, number: int) -> _OpenFile:
        if number in self._open:
            self._open.move_to_end(number)
            return self._open[number]
        file = self._manifest.files[number]
        opened = self._open[number] = _OpenFile(self._location.at(self._manifest.path(file)), file)
        while len(self._open) > OPEN or (len(self._open) > 1 and self._footers() > FOOTERS):
            self._open.popitem(last=False)[1].close()
        return opened

    def _footers(self) -> int:
        return sum(opened.metadata.serialized_size for opened in self._open.values())


class _OpenFile:
    """An open file, which is the one that rank 0 has listed."""

    def __init__(self, location: Location, file: File) -> None:
        self._local = location.local
        self._reader: Any = None  # of a local file
        self._source = location.files.open_input_file(location.path)
        try:
            found = footer.read(self._source)
        except BaseException:
            self.close()
            raise
        self.metadata = found.metadata
        if (found.size, found.digest) != (file.size, file.digest):
            self.close()
            raise InvalidError(
                "the file has changed since rank 0 listed it: do not write to files that a job"
                " reads, and start the job anew"
            )

    def bytes(self, index: int) -> int:
        """Return the bytes of a row group, decompressed."""
        return int(self.metadata.row_group(index).total_byte_size)

    def reader(self) -> Any:
        """Return a reader. Its buffer_size is left alone, which crashes before pyarrow 19."""
        from pyarrow import parquet

        if self._reader is not None:
            return self._reader
        options = {"metadata": self.metadata, "pre_buffer": not self._local}
        reader = parquet.ParquetFile(self._source, **options)
        if self._local:
            self._reader = reader
        return reader

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self._source.close()
        if not self._local:
            _closed.append(self._source)
