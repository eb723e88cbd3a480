# SPDX-License-Identifier: Apache-2.0
"""The files of a source: a path, a list of paths, or a table of Delta Lake or Iceberg.

Names that begin with ``_`` or ``.`` are hidden, as for Spark. A directory ``year=2024`` gives its
files a column ``year``, which is no column of the file. A part of a table that has a log, such as
one directory of a table of Delta Lake, is an error: files there may have been removed by the log.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from typing import Any, NamedTuple
from urllib.parse import unquote

from sparkring._core import InvalidError
from sparkring.data._parquet import delta, file_system, iceberg
from sparkring.data._parquet.file_system import Location

NULL = "__HIVE_DEFAULT_PARTITION__"
LOGS = {  # directories whose files decide which files of a table count
    delta.LOG: "Delta Lake",
    ".hoodie": "Hudi",
    "_spark_metadata": "Structured Streaming",
}


class FileEntry(NamedTuple):
    """A file.

    Attributes
    ----------
    path : str
        The path in the file system.
    values : dict
        Texts of the columns that are not in the file, or None.
    """

    path: str
    values: dict[str, str | None]


class Listing(NamedTuple):
    """The files of a source, sorted by path.

    Attributes
    ----------
    url : str
        A URL by which every rank finds the file system.
    location : Location
        The file system.
    entries : list of FileEntry
        The files.
    types : dict
        Types of Arrow, by name, of the columns that are not in the files.
    columns : list of str or None
        The columns that the files must have, where a table says so.
    version : int or None
        The version of a table.
    schema : pyarrow.Schema or None
        The schema of a table of Iceberg, with field ids.
    """

    url: str
    location: Location
    entries: list[FileEntry]
    types: dict[str, str]
    columns: list[str] | None = None
    version: int | None = None
    schema: Any = None


def find(source: Any, given: Any, version: int | None) -> Listing:
    """List the files."""
    found = _find(source, given, version)
    if version is not None and found.version is None:
        raise InvalidError(
            f"version is {version}, and {found.url} is not one table of Delta Lake or Iceberg:"
            " leave out version="
        )
    return found


def _find(source: Any, given: Any, version: int | None) -> Listing:
    if iceberg.is_table(source):
        return _of_iceberg(source, given, version)
    if isinstance(source, (str, os.PathLike)):
        return _of_path(os.fspath(source), given, version, set())
    if isinstance(source, (list, tuple)):
        paths = [os.fspath(path) for path in source]
        if not paths:
            raise InvalidError("the list of files is empty: pass at least one file")
        return _of_list(paths, given) if len(paths) > 1 else _find(paths[0], given, version)
    raise InvalidError(
        f"path_or_frame is of type {type(source).__name__}: pass the path or URL of a Parquet file"
        " or directory, a list of paths, a DataFrame of Spark, or a table of pyiceberg"
    )


def absolute(url: str) -> str:
    """Return a URL that means the same in every working directory of this host."""
    return file_system.local_path(url) or url


def _of_path(url: str, given: Any, version: int | None, checked: set[str]) -> Listing:
    url = file_system.decoded(url)
    url = url if given is not None else absolute(url)
    location = file_system.find(url, given)
    location = location.at(location.path.rstrip("/") or "/")
    if location.is_file():
        _refuse_part(location.at(posixpath.dirname(location.path)), checked)
        return Listing(url, location, [FileEntry(location.path, {})], {})
    if not location.is_directory():
        raise InvalidError(f"there is no file or directory {url}")
    if delta.is_table(location):
        table = delta.Table(location, version)
        entries = [FileEntry(path, values) for path, values in table.files()]
        entries.sort(key=_path)
        return Listing(url, location, entries, table.types(), table.columns(), table.version)
    if iceberg.is_directory(location):
        return _of_iceberg(iceberg.find(url, location), given, version)
    _refuse_part(location, checked)
    entries = _entries(location)
    if not entries:
        raise InvalidError(f"the directory {url} has no files")
    return Listing(url, location, entries, _types(url, entries))


def _entries(location: Location) -> list[FileEntry]:
    entries = []
    for entry in location.entries():
        relative = posixpath.relpath(entry.path, location.path)
        for part in relative.split("/"):
            if part in LOGS:
                root = posixpath.join(location.path, relative.partition(f"/{part}/")[0])
                raise _part_of(LOGS[part], root)
        if not _is_hidden(relative):
            entries.append(FileEntry(entry.path, _values(relative)))
    return sorted(entries, key=_path)


def _refuse_part(above: Location, checked: set[str]) -> None:
    """Refuse a directory in a table whose log decides which files count."""
    while above.path.strip("/") and above.path not in checked:
        try:
            infos = above.files.get_file_info([f"{above.path}/{name}" for name in LOGS])
            kinds = [
                kind for info, kind in zip(infos, LOGS.values()) if info.type.name != "NotFound"
            ]
            if not kinds and iceberg.is_directory(above):
                kinds = ["Iceberg"]
        except Exception:  # drivers raise any type for a directory that this user may not list
            return
        if kinds:
            raise _part_of(kinds[0], above.path)
        checked.add(above.path)
        above = above.at(posixpath.dirname(above.path))


def _part_of(kind: str, root: str) -> InvalidError:
    return InvalidError(
        f"{root} is a table of {kind}, and its log decides which of its files count: pass the table"
        " as a whole (Delta Lake, Iceberg), or a DataFrame of Spark with the rows that you want"
    )


def _of_list(urls: list[str], given: Any) -> Listing:
    """List several files or directories, in their order."""
    checked: set[str] = set()
    listings = [_of_path(url, given, None, checked) for url in urls]
    first = listings[0]
    for listing in listings:
        if listing.version is not None:
            raise InvalidError(
                f"the list of paths has a table, {listing.url}: pass one table, or files"
            )
        if not listing.location.files.equals(first.location.files):
            raise InvalidError(f"{listing.url} is in another file system than {first.url}")
    entries = [entry for listing in listings for entry in listing.entries]
    if len({tuple(entry.values) for entry in entries}) > 1:
        raise InvalidError(
            "the paths have directories of different partition columns: pass the directory above"
        )
    types = {name: _common({listing.types[name] for listing in listings}) for name in first.types}
    return Listing(first.url, first.location, entries, types)


def _of_iceberg(table: Any, given: Any, version: int | None) -> Listing:
    urls, version, schema = iceberg.files(table, version)
    if not urls:
        raise InvalidError("the table has no files: it has no rows")
    location = file_system.find(urls[0], given)
    path = file_system.path_of(location)
    entries = [FileEntry(path(url), {}) for url in urls]
    entries.sort(key=_path)
    return Listing(absolute(urls[0]), location, entries, {}, schema.names, version, schema)


def _path(entry: FileEntry) -> str:
    return entry.path


# ---- Partition columns ---------------------------------------------------------------------------


def _is_hidden(path: str) -> bool:
    """Return whether a file is one of Spark's own, or in a directory of such files."""
    return any(
        part.startswith(".") or (part.startswith("_") and "=" not in part)
        for part in path.split("/")
    )


def _values(path: str) -> dict[str, str | None]:
    """Read the names of directories such as ``year=2024``."""
    pairs = [part.split("=", 1) for part in path.split("/")[:-1] if "=" in part]
    return {unquote(name): None if text == NULL else unquote(text) for name, text in pairs}


def _types(url: str, entries: list[FileEntry]) -> dict[str, str]:
    names = list(entries[0].values)
    for entry in entries:
        if list(entry.values) != names:
            raise InvalidError(
                f"the files {entries[0].path} and {entry.path} of {url} are in directories of"
                " different partition columns: pass the directory of one table"
            )
    return {name: _type({entry.values[name] for entry in entries}) for name in names}


def _type(texts: set[str | None]) -> str:
    """Return the narrowest type: whole numbers, numbers or strings."""
    import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]

    column = pyarrow.array(list(texts), pyarrow.string())
    for kind in ("int64", "double"):
        with contextlib.suppress(pyarrow.ArrowInvalid):
            column.cast(kind)
            return kind
    return "string"


def _common(types: set[str]) -> str:
    return next(kind for kind in ("string", "double", "int64") if kind in types)
