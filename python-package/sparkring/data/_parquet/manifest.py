# SPDX-License-Identifier: Apache-2.0
"""The files, row groups and rows of a source, which rank 0 finds and broadcasts.

A manifest has paths relative to the directory of all files. Its digest does not depend on this
directory, so files may move between two runs.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkring._core import InvalidError
from sparkring.data._parquet import footer, iceberg

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._communicator import Communicator
    from sparkring.data._parquet.file_system import Location
    from sparkring.data._parquet.listing import Listing

THREADS = 16  # that read footers on rank 0; they wait for the storage


class File(NamedTuple):
    """A file.

    Attributes
    ----------
    path : str
        The path relative to the root of the manifest.
    size : int
        Its size in bytes.
    digest : str
        The digest of its footer.
    rows : list of int
        The rows of each row group.
    values : list of str or None
        The texts of the partition columns.
    """

    path: str
    size: int
    digest: str
    rows: list[int]
    values: list[str | None]


class Manifest(NamedTuple):
    """The files of a source.

    Attributes
    ----------
    url : str
        A URL by which every rank finds the file system.
    root : str
        The common beginning of the paths of all files.
    files : list of File
        The files, in their order.
    columns : list of str
        The columns to read from the files.
    types : dict
        Types of Arrow of the partition columns to take, by name.
    version : int or None
        The version of the table.
    largest : int
        The bytes of the largest row group, decompressed, without columns that are not taken.
    """

    url: str
    root: str
    files: list[File]
    columns: list[str]
    types: dict[str, str]
    version: int | None
    largest: int

    def groups(self) -> NDArray[np.int64]:
        """Return file, number in the file and rows of all row groups that have rows."""
        found = [
            (number, group, rows)
            for number, file in enumerate(self.files)
            for group, rows in enumerate(file.rows)
            if rows
        ]
        return np.array(found, np.int64).reshape(-1, 3)

    def digest(self) -> str:
        """Return the digest of the files."""
        files = [[file.path, file.size, file.digest, file.values] for file in self.files]
        return hashlib.sha256(json.dumps(files).encode()).hexdigest()[:32]

    def path(self, file: File) -> str:
        """Return the path of a file in its file system."""
        return self.root + file.path


def find(listing: Listing, wanted: list[str] | None) -> Manifest:
    """Read the footers of all files. The columns of files with rows must be the same.

    Parameters
    ----------
    listing : Listing
        The files.
    wanted : list of str, optional
        The columns to take; by default all.
    """
    paths = [entry.path for entry in listing.entries]
    schemas: dict[Any, Any] = {}  # equal schemas share their memory
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(
            pool.map(lambda path: _summarise(listing.location.at(path), wanted, schemas), paths)
        )
    described = [(path, one.schema) for path, one in zip(paths, found) if sum(one.rows)]
    columns = _columns(listing, wanted, described or [(paths[0], found[0].schema)])
    types = {name: kind for name, kind in listing.types.items() if wanted is None or name in wanted}
    prefix = os.path.commonprefix(paths)
    root = prefix[: prefix.rfind("/") + 1]
    files = [
        File(
            entry.path[len(root) :],
            one.size,
            one.digest,
            one.rows,
            [entry.values[name] for name in types],
        )
        for entry, one in zip(listing.entries, found)
    ]
    largest = max(one.largest for one in found)
    return Manifest(listing.url, root, files, columns, types, listing.version, largest)


class _Summary(NamedTuple):
    """The part of a footer that is kept. The footer itself may take much memory."""

    size: int
    digest: str
    rows: list[int]
    largest: int
    schema: Any


def _summarise(location: Location, wanted: list[str] | None, schemas: dict[Any, Any]) -> _Summary:
    try:
        with location.files.open_input_file(location.path) as file:
            found = footer.read(file)
        schema = found.metadata.schema.to_arrow_schema().remove_metadata()
        groups = [found.metadata.row_group(i) for i in range(found.metadata.num_row_groups)]
        largest = max(groups, key=lambda group: group.total_byte_size, default=None)
        return _Summary(
            found.size,
            found.digest,
            [group.num_rows for group in groups],
            0 if largest is None else footer.bytes_of(largest, wanted),
            schemas.setdefault(schema, schema),
        )
    except Exception as error:  # drivers of storage raise errors of any type
        raise InvalidError(f"the file {location.path}: {error}") from error


def _columns(
    listing: Listing, wanted: list[str] | None, described: list[tuple[str, Any]]
) -> list[str]:
    """Return the columns to read, which all files must have with the same types."""
    path, schema = described[0]
    if listing.schema is not None:
        for other, found in described:
            iceberg.check(other, found, listing.schema)
    names = listing.columns
    if names is None:
        names = [name for name in schema.names if name not in listing.types]
    columns = [name for name in dict.fromkeys(wanted or names) if name not in listing.types]
    for name in columns:
        if name not in schema.names:
            known = [*schema.names, *listing.types]
            listed = ", ".join(map(repr, known[:20])) + (" and more" if len(known) > 20 else "")
            raise InvalidError(f"the file {path}: there is no column {name!r}: there are {listed}")
    checked = None
    for other, found in described:
        if found is not checked:
            _check(other, found, path, schema, columns)
            more = set(found.names) - set(names) - set(listing.types)
            if wanted is None and more:
                raise _unlike(
                    other, f"a column {min(more)!r}", "the first file or the table", "none"
                )
            checked = found
    return columns


def _check(path: str, found: Any, first: str, schema: Any, columns: list[str]) -> None:
    for name in columns:
        if found.names.count(name) > 1:
            raise InvalidError(f"the file {path} has several columns {name!r}: name other columns")
        if name not in found.names:
            has = str(_plain(schema.field(name).type))
            raise _unlike(path, f"no column {name!r}", f"the file {first}", has)
        one, another = (_plain(x.field(name).type) for x in (found, schema))
        if one != another:
            raise _unlike(path, f"{one} in the column {name!r}", f"the file {first}", another)


def _unlike(path: str, has: str, first: str, other: str) -> InvalidError:
    return InvalidError(
        f"the file {path} has {has}, and {first} has {other}: write the files with one schema, name"
        " the columns to take with columns=, or pass a DataFrame of Spark"
    )


def _plain(kind: Any) -> str:
    """Describe a type without what batches do not show, such as large offsets and nullability."""
    from pyarrow import types  # type: ignore[import-untyped, import-not-found, unused-ignore]

    if types.is_dictionary(kind):
        return _plain(kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return f"list<{_plain(kind.value_type)}>"
    if types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_plain(field.type)}' for field in kind)}>"
    if types.is_timestamp(kind):
        return "timestamp with time zone" if kind.tz else "timestamp"
    return str(kind).removeprefix("large_")


# ---- To all ranks --------------------------------------------------------------------------------


def broadcast(comm: Communicator, manifest: Manifest | None, more: Any) -> tuple[Manifest, Any]:
    """Send the manifest of rank 0, and more that JSON takes, to every rank."""
    data = b""
    if manifest is not None:
        data = zlib.compress(json.dumps([*manifest, more]).encode())
    length = int(comm.broadcast(float(len(data)), 0))
    memory = np.frombuffer(data, np.uint8) if comm.rank == 0 else np.empty(length, np.uint8)
    url, root, files, *others, more = json.loads(
        zlib.decompress(comm.broadcast(memory, 0).tobytes())
    )
    return Manifest(url, root, [File(*file) for file in files], *others), more
