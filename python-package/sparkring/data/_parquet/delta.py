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
    from sparkring.data._parquet.file_system import Place

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


def is_table(place: Place) -> bool:
    """Return whether a directory is a table."""
    return place.at(f"{place.path}/{LOG}").is_directory()


def files(place: Place) -> tuple[list[tuple[str, dict[str, str | None]]], dict[str, str]]:
    """Return the files, with the values of their partition columns, and the types of these."""
    table = _Table(place)
    for action in _actions(place.at(f"{place.path}/{LOG}")):
        table.take(action)
    return table.files(), table.types()


class _Table:
    """The table as its actions leave it."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._added: dict[tuple[str, str], dict[str, Any]] = {}
        self._metadata: dict[str, Any] = {}

    def take(self, action: dict[str, Any]) -> None:
        """Apply an action of the log."""
        if action.get("add"):
            self._added[_key(action["add"])] = action["add"]
        elif action.get("remove"):
            self._added.pop(_key(action["remove"]), None)
        elif action.get("metaData"):
            self._metadata = action["metaData"]
            mapping = dict(self._metadata.get("configuration") or {})
            if mapping.get("delta.columnMapping.mode", "none") != "none":
                raise UnsupportedError(
                    f"the Delta table {self._place.path} maps the names of its columns: {REMEDY}"
                )
        elif action.get("protocol"):
            self._check(action["protocol"])

    def _check(self, protocol: dict[str, Any]) -> None:
        version = protocol["minReaderVersion"]
        unknown = set(protocol.get("readerFeatures") or ()) - FEATURES
        if version > READERS or unknown:
            what = f"the features {sorted(unknown)}" if unknown else f"version {version}"
            raise UnsupportedError(
                f"the Delta table {self._place.path} needs {what} of the protocol: {REMEDY}"
            )

    def files(self) -> list[tuple[str, dict[str, str | None]]]:
        """Return the paths of the files, and values."""
        paths = {self._path(add["path"]): add for add in self._added.values()}
        deleted = [path for path, add in paths.items() if add.get("deletionVector")]
        if deleted:
            raise UnsupportedError(
                f"the Delta table {self._place.path} has deletion vectors: some rows of"
                f" {len(deleted)} of its {len(paths)} files are deleted, such as of {deleted[0]}."
                " Purge them (REORG TABLE ... APPLY (PURGE)), or " + REMEDY
            )
        if not paths:
            raise InvalidError(f"the Delta table {self._place.path} has no files: it has no rows")
        names = self._metadata.get("partitionColumns") or []
        return [(path, {name: _value(add, name) for name in names}) for path, add in paths.items()]

    def types(self) -> dict[str, str]:
        """Return the types of the partition columns."""
        fields = json.loads(self._metadata["schemaString"])["fields"]
        names = self._metadata.get("partitionColumns") or []
        return {
            field["name"]: TYPES.get(str(field["type"]), "string")
            for field in fields
            if field["name"] in names
        }

    def _path(self, name: str) -> str:
        if "://" in name or name.startswith(("file:/", "dbfs:/")):
            return file_system.path_of(self._place)(unquote(name))
        path = unquote(name)
        return path if path.startswith("/") else posixpath.join(self._place.path, path)


def _key(action: dict[str, Any]) -> tuple[str, str]:
    """Return what identifies a file: a version may remove it and add it with deleted rows."""
    vector = action.get("deletionVector") or {}
    names = ("storageType", "pathOrInlineDv", "offset")
    return action["path"], repr([vector.get(name) for name in names])


def _value(add: dict[str, Any], name: str) -> str | None:
    return dict(add.get("partitionValues") or {}).get(name) or None


# ---- The log -------------------------------------------------------------------------------------


def _actions(log: Place) -> Iterator[dict[str, Any]]:
    """Yield the actions of the newest complete checkpoint, and of the versions after it."""
    names = [posixpath.basename(entry.path) for entry in log.entries(recursive=False)]
    start, parts = _checkpoint(names)
    for name in parts:
        yield from _read(log, name)
    versions = sorted(int(match[1]) for match in map(COMMIT.fullmatch, names) if match)
    later = [version for version in versions if version > start]
    if later != list(range(start + 1, start + 1 + len(later))) or (start < 0 and not later):
        raise InvalidError(
            f"the log {log.path} is not complete: versions after {start} are missing"
        )
    for version in later:
        text = log.at(f"{log.path}/{version:020}.json").read().decode()
        yield from _lines(text)


def _checkpoint(names: Iterable[str]) -> tuple[int, list[str]]:
    """Return the version and the files of the newest complete checkpoint, or -1."""
    found: dict[tuple[int, int], list[str]] = {}
    for name in sorted(names):
        match = CHECKPOINT.fullmatch(name)
        if match:
            found.setdefault((int(match[1]), int(match[3] or 1)), []).append(name)
    complete = [key for key, parts in found.items() if len(parts) >= key[1]]
    if not complete:
        return -1, []
    version, count = max(complete)
    return version, found[version, count][:count]


def _read(log: Place, name: str) -> Iterator[dict[str, Any]]:
    """Yield the actions of a file of a checkpoint, and of those that it names."""
    file = log.at(f"{log.path}/{name}")
    for action in _lines(file.read().decode()) if name.endswith(".json") else _rows(file):
        if action.get("sidecar"):
            yield from _read(log, f"_sidecars/{action['sidecar']['path']}")
        else:
            yield action


def _lines(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.strip():
            yield json.loads(line)


def _rows(file: Place) -> Iterator[dict[str, Any]]:
    from pyarrow import parquet  # type: ignore[import-untyped, import-not-found, unused-ignore]

    with file.files.open_input_file(file.path) as opened:
        table = parquet.ParquetFile(opened)
        paths = [table.schema.column(index).path for index in range(len(table.schema))]
        columns = [path for path in paths if WANTED.fullmatch(path)]
        for batch in table.iter_batches(columns=columns):
            yield from batch.to_pylist()
