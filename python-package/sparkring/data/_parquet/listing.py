# SPDX-License-Identifier: Apache-2.0
"""The files of a source: a file, a directory, a list of these, a table of Delta Lake or Iceberg.

Names that begin with ``_`` or ``.`` are hidden, as for Spark. A directory ``year=2024`` gives its
files a column ``year``, which is no column of the file.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import unquote

from sparkring._core import InvalidError
from sparkring.data._parquet import delta, file_system, iceberg
from sparkring.data._parquet.file_system import Place

NULL = "__HIVE_DEFAULT_PARTITION__"


class Entry(NamedTuple):
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
    place : Place
        The file system.
    entries : list of Entry
        The files.
    types : dict
        Types of Arrow, by name, of the columns that are not in the files.
    """

    url: str
    place: Place
    entries: list[Entry]
    types: dict[str, str]


def find(source: Any, given: Any) -> Listing:
    """List the files."""
    if iceberg.is_table(source):
        return _of_urls(iceberg.files(source), given)
    if isinstance(source, (str, os.PathLike)):
        return _of_path(os.fspath(source), given)
    if isinstance(source, Iterable):
        paths = [os.fspath(path) for path in source]
        if not paths:
            raise InvalidError("the list of files is empty: pass at least one file")
        return _of_list(paths, given)
    raise InvalidError(
        f"path_or_frame is of type {type(source).__name__}: pass the path or URL of a Parquet file"
        " or directory, a list of these, a DataFrame of Spark, or a table of pyiceberg"
    )


def absolute(url: str) -> str:
    """Return a URL that means the same in every working directory of this host."""
    return file_system.local_path(url) or url


def _of_path(url: str, given: Any) -> Listing:
    url = url if given is not None else absolute(url)
    place = file_system.find(url, given)
    place = place.at(place.path.rstrip("/") or "/")
    if place.is_file():
        return Listing(url, place, [Entry(place.path, {})], {})
    if not place.is_directory():
        raise InvalidError(f"there is no file or directory {url}")
    if delta.is_table(place):
        files, types = delta.files(place)
        entries = [Entry(path, values) for path, values in files]
        return Listing(url, place, sorted(entries, key=_path), types)
    if (table := iceberg.find(url, place)) is not None:
        return _of_urls(iceberg.files(table), given)
    entries = [
        Entry(entry.path, _values(relative))
        for entry in place.entries()
        if not _is_hidden(relative := posixpath.relpath(entry.path, place.path))
    ]
    if not entries:
        raise InvalidError(f"the directory {url} has no files")
    entries.sort(key=_path)
    return Listing(url, place, entries, _types(url, entries))


def _of_list(urls: list[str], given: Any) -> Listing:
    """List several files or directories, in their order."""
    listings = [_of_path(url, given) for url in urls]
    first = listings[0]
    for listing in listings[1:]:
        if not listing.place.files.equals(first.place.files):
            raise InvalidError(f"{listing.url} is in another file system than {first.url}")
    entries = [entry for listing in listings for entry in listing.entries]
    if len({tuple(entry.values) for entry in entries}) > 1:
        raise InvalidError(
            "the paths have directories of different partition columns: pass the directory above"
        )
    types = {name: _common({listing.types[name] for listing in listings}) for name in first.types}
    return Listing(first.url, first.place, entries, types)


def _of_urls(urls: list[str], given: Any) -> Listing:
    """List the files of a table that names its files by URL."""
    if not urls:
        raise InvalidError("the table has no files: it has no rows")
    place = file_system.find(urls[0], given)
    path = file_system.path_of(place)
    entries = [Entry(path(url), {}) for url in urls]
    return Listing(absolute(urls[0]), place, sorted(entries, key=_path), {})


def _path(entry: Entry) -> str:
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


def _types(url: str, entries: list[Entry]) -> dict[str, str]:
    names = list(entries[0].values)
    for entry in entries:
        if list(entry.values) != names:
            raise InvalidError(
                f"the files {entries[0].path} and {entry.path} of {url} are in directories of"
                " different partition columns: pass the directory of one table"
            )
    return {name: _type({entry.values[name] for entry in entries}) for name in names}


def _type(texts: set[str | None]) -> str:
    """Return the narrowest type, as Spark infers it: whole numbers, numbers or strings."""
    import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]

    column = pyarrow.array(list(texts), pyarrow.string())
    for kind in ("int64", "double"):
        with contextlib.suppress(pyarrow.ArrowInvalid):
            column.cast(kind)
            return kind
    return "string"


def _common(types: set[str]) -> str:
    return next(kind for kind in ("string", "double", "int64") if kind in types)
