# SPDX-License-Identifier: Apache-2.0
"""The files of a version of a table of Delta Lake, as deltalake reads its log.

deltalake reads a log on a local disk. A log on another file system is copied to a temporary
directory, from its last checkpoint on, so all file systems of the loader have tables.

The loader reads the files themselves. Files of which some rows are deleted (deletion vectors), and
columns whose names differ in the files (column mapping), are errors.
"""

from __future__ import annotations

import contextlib
import json
import posixpath
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from sparkring._core import InvalidError, UnsupportedError
from sparkring.data._parquet import file_system

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sparkring.data._parquet.file_system import Location

LOG = "_delta_log"
THREADS = 16  # that copy files of a log; they wait for the storage
VECTORS = "deletionVectors"
FEATURES = {  # that leave all rows of all files as they are, or are detected file by file
    *("columnMapping", VECTORS, "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"),
    *("typeWidening", "typeWidening-preview", "domainMetadata", "inCommitTimestamp"),
    *("variantType", "variantType-preview"),
}
TYPES = {
    "byte": "int8",
    "short": "int16",
    "integer": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "boolean": "bool",
    "date": "date32",
    "binary": "binary",
}
REMEDY = (
    "pass the table as a DataFrame, spark.read.format('delta').load(...), which is written once"
)


def is_table(location: Location) -> bool:
    """Return whether a directory is a table."""
    return location.at(f"{location.path}/{LOG}").is_directory()


class Table:
    """A version of a table.

    Parameters
    ----------
    location : Location
        The directory of the table.
    version : int, optional
        The version; by default the newest.
    """

    def __init__(self, location: Location, version: int | None) -> None:
        self._location = location
        with _local(location, version) as directory:
            table = _open(directory, location.path, version)
            self.version = int(table.version())
            self._where = f"version {self.version} of the Delta table {location.path}"
            self._names = list(table.metadata().partition_columns)
            self._fields = json.loads(table.schema().to_json())["fields"]
            self._added = _rows(table)
            self._check(table)

    def _check(self, table: Any) -> None:
        features = set(table.protocol().reader_features or ())
        if unknown := features - FEATURES:
            raise UnsupportedError(
                f"{self._where} needs the features {sorted(unknown)} of the protocol: {REMEDY}"
            )
        if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
            raise UnsupportedError(f"{self._where} maps the names of its columns: {REMEDY}")
        if VECTORS in features and _has_vectors(table):
            raise UnsupportedError(
                f"{self._where} has deletion vectors: some rows of its files are deleted. Purge"
                f" them (REORG TABLE ... APPLY (PURGE)), or {REMEDY}"
            )
        if not self._added:
            raise InvalidError(f"{self._where} has no files: it has no rows")

    def files(self) -> list[tuple[str, dict[str, str | None]]]:
        """Return the paths of the files, with the values of their partition columns."""
        return [
            (self._path(row["path"]), {name: row[f"partition.{name}"] for name in self._names})
            for row in self._added
        ]

    def types(self) -> dict[str, str]:
        """Return the types of the partition columns."""
        kinds = {field["name"]: str(field["type"]) for field in self._fields}
        return {name: TYPES.get(kinds[name], "string") for name in kinds if name in self._names}

    def columns(self) -> list[str]:
        """Return the other columns, which the files have."""
        return [field["name"] for field in self._fields if field["name"] not in self._names]

    def _path(self, name: str) -> str:
        if "://" in name or name.startswith(("file:/", "dbfs:/")):
            return file_system.path_of(self._location)(unquote(name))
        path = unquote(name)
        return path if path.startswith("/") else posixpath.join(self._location.path, path)


def _open(directory: str, path: str, version: int | None) -> Any:
    """Open the table in a local directory. Errors name its own path."""
    try:
        import deltalake  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise UnsupportedError(
            f"{path} is a table of Delta Lake, whose log deltalake reads: pip install deltalake"
        ) from error
    try:
        return deltalake.DeltaTable(directory, version=version)
    except Exception as error:  # its errors have no common type
        which = "the newest version" if version is None else f"version {version}"
        raise InvalidError(
            f"deltalake cannot open {which} of the Delta table {path}: {error}. If another version"
            f" of deltalake cannot, either, {REMEDY}"
        ) from error


def _rows(table: Any) -> list[dict[str, Any]]:
    """Return the path of each file, and the values of its partition columns as texts."""
    import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]

    actions = pyarrow.table(table.get_add_actions(flatten=True))
    wanted = [
        name for name in actions.column_names if name.partition(".")[0] in ("path", "partition")
    ]
    texts = {name: actions.column(name).cast(pyarrow.string()) for name in wanted}
    rows: list[dict[str, Any]] = pyarrow.table(texts).to_pylist()
    return rows


def _has_vectors(table: Any) -> bool:
    """Return whether a file has deletion vectors, or none can be read, as in a copied log."""
    import pyarrow

    try:
        return bool(pyarrow.table(table.deletion_vectors()).num_rows)
    except Exception:  # deltalake before 1.5 does not know, and its errors have no common type
        return True


@contextlib.contextmanager
def _local(location: Location, version: int | None) -> Iterator[str]:
    """Yield a local directory with the log of a table."""
    if location.local:
        yield location.path
        return
    log = location.at(f"{location.path}/{LOG}")
    first = f"{_first(log, version):020}"
    with tempfile.TemporaryDirectory() as directory:

        def copy(path: str) -> None:
            name = posixpath.relpath(path, log.path)
            to = Path(directory, LOG, name)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(log.at(path).read())

        paths = [entry.path for entry in log.entries()]
        wanted = [path for path in paths if not posixpath.basename(path)[:20] < first]
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(copy, wanted))
        yield directory


def _first(log: Location, version: int | None) -> int:
    """Return the version of the last checkpoint, or 0 for a version before it."""
    hint = log.at(f"{log.path}/_last_checkpoint")
    first = int(json.loads(hint.read())["version"]) if hint.is_file() else 0
    return first if version is None or first <= version else 0
