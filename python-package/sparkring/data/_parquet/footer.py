# SPDX-License-Identifier: Apache-2.0
"""The footer of a Parquet file: its row groups and schema, and a digest of both.

The footer has the places, sizes and, as a rule, the extremes of all columns of all row groups. A
file that is written anew has another footer. So the digest of the footer detects that a file has
changed since rank 0 listed it. One read of the last 64 KiB suffices for most files.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from sparkring._core import InvalidError

TAIL = 1 << 16  # bytes
END = 8  # bytes: the length of the footer, and the magic number


class Footer(NamedTuple):
    """A footer.

    Attributes
    ----------
    metadata : pyarrow.parquet.FileMetaData
        Row groups and schema.
    size : int
        The size of the file.
    digest : str
        The digest of the footer.
    """

    metadata: Any
    size: int
    digest: str


def read(file: Any) -> Footer:
    """Read the footer of an open file of pyarrow."""
    import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]
    from pyarrow import parquet

    size = file.size()
    tail = _at(file, size, TAIL)
    if len(tail) < END or tail[-4:] not in (b"PAR1", b"PARE"):
        raise InvalidError("it is no Parquet file, or not written to its end")
    if tail[-4:] == b"PARE":
        raise InvalidError("its footer is encrypted: write the table without encryption")
    length = int.from_bytes(tail[-END:-4], "little") + END
    if length > size:
        raise InvalidError("it is cut off: its footer is longer than the file")
    footer = tail[-length:] if length <= len(tail) else _at(file, size, length)
    metadata = parquet.read_metadata(pyarrow.BufferReader(footer))
    return Footer(metadata, size, hashlib.sha256(footer).hexdigest()[:32])


def bytes_of(group: Any, columns: list[str] | None) -> int:
    """Return the bytes of columns of a row group, or of all columns, decompressed."""
    if columns is None:
        return int(group.total_byte_size)
    parts = (group.column(index) for index in range(group.num_columns))
    return sum(
        part.total_uncompressed_size
        for part in parts
        if part.path_in_schema.partition(".")[0] in columns
    )


def _at(file: Any, size: int, count: int) -> bytes:
    start = max(0, size - count)
    return bytes(file.read_at(size - start, start))
