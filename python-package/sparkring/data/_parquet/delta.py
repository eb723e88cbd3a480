# SPDX-License-Identifier: Apache-2.0
"""The files of a table of Delta Lake, read from its log.

The log has a JSON file for each version, with the files that the version adds and removes. A
checkpoint has all of it until its version, as Parquet, in one or several parts. Files of which some
rows are deleted (deletion vectors), and columns whose names differ in the files (column mapping),
are errors. The protocol: https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from sparkring._core import InvalidError, UnsupportedError
from sparkring.data._parquet import file_system

if TYPE_CHECKING:
    from sparkring.data._parquet.file_system import Location

LOG = "_delta_log"
COMMIT = re.compile(r"(\d{20})\.json")
CHECKPOINT = re.compile(
    r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.[0-9a-f-]{36})?\.(?:parquet|json)"
)
WANTED = re.compile(
    r"(add\.(path|partitionValues)|(add|remove)\.deletionVector|remove\.path|protocol|sidecar\.path"
    r"|metaData\.(partitionColumns|schemaString|configuration))(\..*)?"
)
READERS = 3  # versions of the protocol for readers
FEATURES = {  # that leave all rows of all files as they are, or are detected file by file
    *("columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"),
    *("typeWidening", "typeWidening-preview", "domainMetadata", "inCommitTimestamp"),
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
    """A version of a table, as the actions of its log leave it.

    Parameters
    ----------
    location : Location
        The directory of the table.
    version : int, optional
        The version; by default the newest.
    """

    def __init__(self, location: Location, version: int | None) -> None:
        self._location = location
        self._added: dict[tuple[str, str], dict[str, Any]] = {}
        self._metadata: dict[str, Any] = {}
        self._protocol: dict[str, Any] = {}
        log = location.at(f"{location.path}/{LOG}")
        self.version, parts, later = _find(log, version)
        for name in parts:
            self._take(_read(log, name))
        for number in later:
            self._take(_lines(log.at(f"{log.path}/{number:020}.json").read().decode()))
        self._check()

    def _take(self, actions: Iterable[dict[str, Any]]) -> None:
        """Apply actions of the log."""
        for action in actions:
            if action.get("add"):
                self._added[_key(action["add"])] = action["add"]
            elif action.get("remove"):
                self._added.pop(_key(action["remove"]), None)
            elif action.get("metaData"):
                self._metadata = action["metaData"]
            elif action.get("protocol"):
                self._protocol = action["protocol"]

    def _check(self) -> None:
        where = f"version {self.version} of the Delta table {self._location.path}"
        needed = self._protocol.get("minReaderVersion", 1)
        unknown = set(self._protocol.get("readerFeatures") or ()) - FEATURES
        if needed > READERS or unknown:
            what = f"the features {sorted(unknown)}" if unknown else f"version {needed}"
            raise UnsupportedError(f"{where} needs {what} of the protocol: {REMEDY}")
        mapping = dict(self._metadata.get("configuration") or {})
        if mapping.get("delta.columnMapping.mode", "none") != "none":
            raise UnsupportedError(f"{where} maps the names of its columns: {REMEDY}")
        deleted = [add["path"] for add in self._added.values() if add.get("deletionVector")]
        if deleted:
            raise UnsupportedError(
                f"{where} has deletion vectors: some rows of {len(deleted)} of its"
                f" {len(self._added)} files are deleted, such as of {deleted[0]}. Purge them"
                f" (REORG TABLE ... APPLY (PURGE)), or {REMEDY}"
            )
        if not self._added:
            raise InvalidError(f"{where} has no files: it has no rows")

    def files(self) -> list[tuple[str, dict[str, str | None]]]:
        """Return the paths of the files, with the values of their partition columns."""
        names = self._metadata.get("partitionColumns") or []
        paths = {self._path(add["path"]): add for add in self._added.values()}
        return [(path, {name: _value(add, name) for name in names}) for path, add in paths.items()]

    def types(self) -> dict[str, str]:
        """Return the types of the partition columns."""
        names = self._metadata.get("partitionColumns") or []
        kinds = {field["name"]: str(field["type"]) for field in self._fields()}
        return {name: TYPES.get(kinds[name], "string") for name in kinds if name in names}

    def columns(self) -> list[str]:
        """Return the other columns, which the files have."""
        names = self._metadata.get("partitionColumns") or []
        return [field["name"] for field in self._fields() if field["name"] not in names]

    def _fields(self) -> list[dict[str, Any]]:
        fields: list[dict[str, Any]] = json.loads(self._metadata["schemaString"])["fields"]
        return fields

    def _path(self, name: str) -> str:
        if "://" in name or name.startswith(("file:/", "dbfs:/")):
            return file_system.path_of(self._location)(unquote(name))
        path = unquote(name)
        return path if path.startswith("/") else posixpath.join(self._location.path, path)


def _key(action: dict[str, Any]) -> tuple[str, str]:
    """Return what identifies a file: a version may remove it and add it with deleted rows."""
    vector = action.get("deletionVector") or {}
    names = ("storageType", "pathOrInlineDv", "offset")
    return action["path"], repr([vector.get(name) for name in names])


def _value(add: dict[str, Any], name: str) -> str | None:
    return dict(add.get("partitionValues") or {}).get(name) or None


# ---- The log -------------------------------------------------------------------------------------


def _find(log: Location, version: int | None) -> tuple[int, list[str], list[int]]:
    """Return the version, the files of a complete checkpoint, and the versions after it."""
    names = [posixpath.basename(entry.path) for entry in log.entries(recursive=False)]
    start, parts = _checkpoint(names, version)
    later = sorted(int(match[1]) for match in map(COMMIT.fullmatch, names) if match)
    later = [number for number in later if start < number]
    if version is not None:
        later = [number for number in later if number <= version]
    newest = max([start, *later])
    if version not in (None, newest):
        raise InvalidError(
            f"the log {log.path} does not lead to version {version}, but to {newest}: the version"
            " is not there yet, or the log is cleaned up"
        )
    if later != list(range(start + 1, newest + 1)) or newest < 0:
        raise InvalidError(
            f"the log {log.path} is not complete: versions after {start} are missing"
        )
    return newest, parts, later


def _checkpoint(names: Iterable[str], version: int | None) -> tuple[int, list[str]]:
    """Return the version and the files of the newest complete checkpoint, or -1."""
    found: dict[tuple[int, int], list[str]] = {}
    for name in sorted(names):
        match = CHECKPOINT.fullmatch(name)
        if match and (version is None or int(match[1]) <= version):
            found.setdefault((int(match[1]), int(match[3] or 1)), []).append(name)
    complete = [key for key, parts in found.items() if len(parts) >= key[1]]
    if not complete:
        return -1, []
    start, count = max(complete)
    return start, found[start, count][:count]


def _read(log: Location, name: str) -> Iterator[dict[str, Any]]:
    """Yield the actions of a file of a checkpoint, and of the sidecars that it names."""
    file = log.at(f"{log.path}/{name}")
    for action in _lines(file.read().decode()) if name.endswith(".json") else _rows(file):
        if action.get("sidecar"):
            sidecar = posixpath.basename(unquote(action["sidecar"]["path"]))
            yield from _read(log, f"_sidecars/{sidecar}")
        else:
            yield action


def _lines(text: str) -> Iterator[dict[str, Any]]:
    for line in text.split("\n"):  # splitlines() splits at more characters, which strings may have
        if line.strip():
            yield json.loads(line)


def _rows(file: Location) -> Iterator[dict[str, Any]]:
    from pyarrow import parquet  # type: ignore[import-untyped, import-not-found, unused-ignore]

    with file.files.open_input_file(file.path) as opened:
        table = parquet.ParquetFile(opened)
        paths = [table.schema.column(index).path for index in range(len(table.schema))]
        columns = [path for path in paths if WANTED.fullmatch(path)]
        for batch in table.iter_batches(columns=columns):
            yield from batch.to_pylist()
