# SPDX-License-Identifier: Apache-2.0
"""Reads row groups with pyarrow, without its threads: the reader is one thread.

Some files stay open between two row groups. When a file is opened, its footer must still have the
digest that rank 0 has found, so no rank takes rows of a file that has changed. A row group may also
come from a cache.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sparkring._core import InvalidError
from sparkring.data._parquet import footer

if TYPE_CHECKING:
    from sparkring.data._parquet.cache import Cache
    from sparkring.data._parquet.file_system import Place
    from sparkring.data._parquet.manifest import File, Manifest

OPEN = 32  # files
FOOTERS = 8 << 20  # bytes of the footers of open files; in memory they take several times as much


class RowGroups:
    """The row groups of a manifest."""

    def __init__(self, manifest: Manifest, place: Place, cache: Cache | None) -> None:
        self._manifest, self._place, self._cache = manifest, place, cache
        self._groups = manifest.groups()
        self._open: OrderedDict[int, _OpenFile] = OrderedDict()

    def read(self, group: int) -> Any:
        """Return the table of a row group."""
        number, index, _ = self._groups[group].tolist()
        table = None if self._cache is None else self._cache.get(group)
        if table is None:
            table = self._file(number).parquet.read_row_group(
                index, columns=self._manifest.columns, use_threads=False
            )
            if self._cache is not None:
                self._cache.put(group, table)
        return self._completed(table, self._manifest.files[number])

    def sample(self) -> Any:
        """Return the table of the first row of the first row group."""
        import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]

        number, index, _ = self._groups[0].tolist()
        batches = self._file(number).parquet.iter_batches(
            1, row_groups=[index], columns=self._manifest.columns, use_threads=False
        )
        table = pyarrow.Table.from_batches([next(batches)])
        return self._completed(table, self._manifest.files[number])

    @contextlib.contextmanager
    def named(self, group: int) -> Iterator[None]:
        """Name the row group in the errors of the block."""
        import pyarrow

        number, index, _ = self._groups[group].tolist()
        where = f"row group {index} of {self._manifest.path(self._manifest.files[number])}"
        try:
            yield
        except InvalidError as error:
            raise InvalidError(f"{where}: {error}") from error
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise InvalidError(
                f"{where}: it cannot be read: {error}. Every host must be able to read the file,"
                " and the file must be whole"
            ) from error

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
        opened = self._open[number] = _OpenFile(self._place.at(self._manifest.path(file)), file)
        while len(self._open) > OPEN or (len(self._open) > 1 and self._footers() > FOOTERS):
            self._open.popitem(last=False)[1].close()
        return opened

    def _footers(self) -> int:
        return sum(opened.parquet.metadata.serialized_size for opened in self._open.values())


class _OpenFile:
    """An open file, which is the one that rank 0 has listed."""

    def __init__(self, place: Place, file: File) -> None:
        from pyarrow import parquet

        self._source = place.files.open_input_file(place.path)
        try:
            found = footer.read(self._source)
            if (found.size, found.digest) != (file.size, file.digest):
                raise InvalidError(
                    "the file has changed since rank 0 listed it: do not write to files that a job"
                    " reads, and start the job anew"
                )
            self.parquet = parquet.ParquetFile(
                self._source, metadata=found.metadata, pre_buffer=not place.local
            )
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            self._source.close()
