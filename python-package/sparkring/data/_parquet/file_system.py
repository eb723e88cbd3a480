# SPDX-License-Identifier: Apache-2.0
"""File systems by URL: those of pyarrow, and those of fsspec for other schemes.

pyarrow itself reads local disks, S3, Google Cloud Storage, HDFS and Azure. fsspec knows more
schemes, each by a package of its own. A path without a scheme is on a local disk.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from sparkring._core import InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable

LOCAL = re.compile(r"(?:file|local):(?://(?:localhost(?=/))?)?(.*)", re.DOTALL)
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
ALIASES = {"s3a": "s3", "s3n": "s3"}  # names of Hadoop's drivers


class Location(NamedTuple):
    """A directory or file: its file system, and its path there."""

    files: Any
    path: str
    local: bool

    def at(self, path: str) -> Location:
        """Return another path of the file system."""
        return self._replace(path=path)

    def is_directory(self) -> bool:
        """Return whether there is such a directory."""
        from pyarrow import fs  # type: ignore[import-untyped, import-not-found, unused-ignore]

        return bool(self.files.get_file_info(self.path).type == fs.FileType.Directory)

    def is_file(self) -> bool:
        """Return whether there is such a file."""
        from pyarrow import fs

        return bool(self.files.get_file_info(self.path).type == fs.FileType.File)

    def entries(self, *, recursive: bool = True) -> list[Any]:
        """List the files below, none where there is no directory."""
        from pyarrow import fs

        selector = fs.FileSelector(self.path, allow_not_found=True, recursive=recursive)
        found = self.files.get_file_info(selector)
        return [entry for entry in found if entry.type == fs.FileType.File]

    def read(self) -> bytes:
        """Read the file."""
        with self.files.open_input_stream(self.path) as stream:
            return bytes(stream.read())


def local_path(url: str) -> str | None:
    """Return the path of a URL on a local disk, or of a plain path; None for other URLs."""
    if url.startswith("dbfs:/"):  # Databricks mounts it
        return f"/dbfs/{url[len('dbfs:/') :].lstrip('/')}"
    match = LOCAL.fullmatch(url)
    if match is None and SCHEME.match(url):
        return None
    return os.path.abspath(os.path.expanduser(match[1] if match else url))


def decoded(url: str) -> str:
    """Return the path of a URL of a local file, which is percent-encoded, or else the text.

    Iceberg and others write such URLs as they are: a file of the encoded name goes first.
    """
    if not LOCAL.fullmatch(url) or "%" not in url:
        return url
    path = local_path(url)
    return url if path is None or os.path.exists(path) else unquote(path)


def find(url: str, given: Any = None) -> Location:
    """Find the file system of a URL.

    Parameters
    ----------
    url : str
        The URL or path.
    given : object, optional
        A file system of pyarrow or fsspec to use instead.
    """
    from pyarrow import fs

    if given is not None:
        return _in_given(url, given)
    path = local_path(url)
    if path is not None:
        return Location(fs.LocalFileSystem(), path, True)
    match = SCHEME.fullmatch(url)
    assert match is not None
    scheme = ALIASES.get(match[1], match[1])
    url = f"{scheme}://{match[2]}"
    try:
        files, path = fs.FileSystem.from_uri(url)
        return Location(files, path, False)
    except (ValueError, NotImplementedError):  # no scheme of pyarrow, or of its build
        return _by_fsspec(url)
    except OSError as error:
        if scheme not in ("hdfs", "viewfs"):
            raise
        raise InvalidError(
            f"{url}: {error}. pyarrow needs libhdfs (HADOOP_HOME or ARROW_LIBHDFS_DIR), JAVA_HOME"
            " and CLASSPATH=$(hadoop classpath --glob) on every host, before Python starts"
        ) from error


def _in_given(url: str, given: Any) -> Location:
    from pyarrow import fs

    if isinstance(given, fs.FileSystem):
        match = SCHEME.fullmatch(url)
        local = isinstance(given, fs.LocalFileSystem)
        path = local_path(url) if local else None
        return Location(given, path or (match[2] if match else url), local)
    if hasattr(given, "_strip_protocol"):
        return Location(_wrapped(given), given._strip_protocol(url), False)
    raise InvalidError(
        f"filesystem is of type {type(given).__name__}: pass a file system of pyarrow.fs or fsspec"
    )


def _by_fsspec(url: str) -> Location:
    try:
        from fsspec import core  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as error:
        raise InvalidError(
            f"pyarrow does not know the scheme of {url}: pip install fsspec, and its package for"
            " this scheme, or pass filesystem="
        ) from error
    try:
        files, path = core.url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise InvalidError(f"neither pyarrow nor fsspec can read {url}: {error}") from error
    return Location(_wrapped(files), path, False)


def _wrapped(files: Any) -> Any:
    from pyarrow import fs

    return fs.PyFileSystem(fs.FSSpecHandler(files))


def path_of(location: Location) -> Callable[[str], str]:
    """Return a function that finds the path of a URL in a file system, for lists of URLs."""

    def path(url: str) -> str:
        local = local_path(url)
        match = SCHEME.fullmatch(url)
        if local is not None and location.local:
            return local
        if match is None or location.local:
            raise InvalidError(f"the file {url} is in another file system than {location.path}")
        kind, after = location.files.type_name, match[2]
        if kind.startswith("py::fsspec"):
            return str(location.files.handler.fs._strip_protocol(url))
        if kind in ("hdfs", "viewfs", "abfs"):  # the authority is of the file system
            container = match[2].partition("@")[0]
            after = match[2].partition("/")[2]
            return f"{container}/{after}" if kind == "abfs" else f"/{after}"
        return after

    return path
