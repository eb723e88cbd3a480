# SPDX-License-Identifier: Apache-2.0
"""The files, row groups and rows of a source, which rank 0 finds and broadcasts.

A manifest has paths relative to the directory of all files. Its digest does not depend on this
directory, so files may move between two runs.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkring._core import InvalidError
from sparkring.data._parquet import footer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._core import Communicator
    from sparkring.data._parquet.file_system import Place
    from sparkring.data._parquet.footer import Footer
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
        The directory of all files.
    files : list of File
        The files, in their order.
    columns : list of str
        The columns to read from the files.
    types : dict
        Types of Arrow of the partition columns to take, by name.
    """

    url: str
    root: str
    files: list[File]
    columns: list[str]
    types: dict[str, str]

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
        return posixpath.join(self.root, file.path)


def find(listing: Listing, wanted: list[str] | None) -> Manifest:
    """Read the footers of all files. The columns of files with rows must have the same types.

    Parameters
    ----------
    listing : Listing
        The files.
    wanted : list of str, optional
        The columns to take; by default all.
    """
    paths = [entry.path for entry in listing.entries]
    with ThreadPoolExecutor(THREADS) as pool:
        footers = list(pool.map(lambda path: _footer(listing.place.at(path)), paths))
    described = [pair for pair in zip(paths, footers) if pair[1].metadata.num_rows]
    path, found = described[0] if described else (paths[0], footers[0])
    schema = _schema(found)
    if wanted is None:
        wanted = [*(name for name in schema if name not in listing.types), *listing.types]
    columns = [name for name in dict.fromkeys(wanted) if name not in listing.types]
    _check_columns(path, schema, columns, list(listing.types))
    for other, found in described[1:]:
        _check_types(columns, (path, schema), (other, _schema(found)))
    types = {name: kind for name, kind in listing.types.items() if name in wanted}
    root = posixpath.dirname(paths[0]) if len(paths) == 1 else os.path.commonpath(paths)
    files = [
        File(
            posixpath.relpath(entry.path, root),
            found.size,
            found.digest,
            [found.metadata.row_group(i).num_rows for i in range(found.metadata.num_row_groups)],
            [entry.values[name] for name in types],
        )
        for entry, found in zip(listing.entries, footers)
    ]
    return Manifest(listing.url, root, files, columns, types)


def _footer(place: Place) -> Footer:
    try:
        with place.files.open_input_file(place.path) as file:
            return footer.read(file)
    except (OSError, ValueError, InvalidError) as error:
        raise InvalidError(f"the file {place.path}: {error}") from error


def _schema(found: Footer) -> dict[str, Any]:
    schema = found.metadata.schema.to_arrow_schema()
    return dict(zip(schema.names, schema.types))


def _check_columns(path: str, schema: dict[str, Any], names: list[str], more: list[str]) -> None:
    known = [*schema, *more]
    for name in names:
        if name not in schema:
            listed = ", ".join(map(repr, known[:20])) + (" and more" if len(known) > 20 else "")
            raise InvalidError(f"the file {path}: there is no column {name!r}: there are {listed}")


def _check_types(
    names: list[str], first: tuple[str, dict[str, Any]], other: tuple[str, dict[str, Any]]
) -> None:
    for name in names:
        one, another = _plain(first[1][name]), _plain(other[1].get(name))
        if one != another:
            has = "no column" if another is None else f"{another} in the column"
            raise InvalidError(
                f"the file {other[0]} has {has} {name!r}, and the file {first[0]} has {one}: write"
                " the files with one schema, or leave the column out with columns="
            )


def _plain(kind: Any) -> Any:
    """Return the type of the values of a dictionary."""
    return getattr(kind, "value_type", kind) if str(kind).startswith("dictionary<") else kind


# ---- To all ranks --------------------------------------------------------------------------------


def broadcast(comm: Communicator, manifest: Manifest | None, more: Any) -> tuple[Manifest, Any]:
    """Send the manifest of rank 0, and more that JSON takes, to every rank."""
    data = b""
    if manifest is not None:
        data = zlib.compress(json.dumps([*manifest, more]).encode())
    length = int(comm.broadcast(float(len(data)), 0))
    memory = np.frombuffer(data, np.uint8) if comm.rank == 0 else np.empty(length, np.uint8)
    url, root, files, columns, types, more = json.loads(
        zlib.decompress(comm.broadcast(memory, 0).tobytes())
    )
    return Manifest(url, root, [File(*file) for file in files], columns, types), more
