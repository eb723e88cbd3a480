# SPDX-License-Identifier: Apache-2.0
"""The files of a table of Iceberg, as pyiceberg plans a scan.

A table is one that pyiceberg has loaded from a catalog, or a directory whose metadata have a
``version-hint.text``. Without this file only the catalog knows which metadata are current.

Iceberg identifies a column by a number, its field id, so columns can be renamed, dropped and added
without new files. Files that have other names or ids than the table, and files of which some rows
are deleted (merge on read), are errors.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from sparkring._core import InvalidError, UnsupportedError

if TYPE_CHECKING:
    from sparkring.data._parquet.file_system import Location

HINT = "version-hint.text"
FIELD_ID = b"PARQUET:field_id"
REMEDY = "rewrite its files (rewrite_data_files), or pass the table as a DataFrame of Spark"


def is_table(source: Any) -> bool:
    """Return whether an object is a table of pyiceberg."""
    return type(source).__module__.startswith("pyiceberg.")


def is_directory(location: Location) -> bool:
    """Return whether a directory has the metadata of a table."""
    entries = location.at(f"{location.path}/metadata").entries(recursive=False)
    return any(entry.path.endswith(".metadata.json") for entry in entries)


def find(url: str, location: Location) -> Any:
    """Load the table of a directory."""
    if not location.at(f"{location.path}/metadata/{HINT}").is_file():
        raise InvalidError(
            f"{url} is a table of Iceberg without metadata/{HINT}, so only its catalog knows its"
            " current files: pass the table that pyiceberg has loaded from the catalog"
        )
    try:
        from pyiceberg.table import StaticTable  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise UnsupportedError(
            f"{url} is a table of Iceberg, whose files pyiceberg lists: pip install pyiceberg"
        ) from error
    hint = location.at(f"{location.path}/metadata/{HINT}").read().decode().strip()
    name = f"v{hint}.metadata.json" if hint.isdigit() else hint
    return StaticTable.from_metadata(posixpath.join(url, "metadata", name))


def files(table: Any, version: int | None) -> tuple[list[str], int, Any]:
    """Return the URLs of the files of a snapshot, its id, and its schema as one of Arrow.

    Parameters
    ----------
    table : pyiceberg.table.Table
        The table.
    version : int, optional
        The id of the snapshot; by default the current snapshot.
    """
    from pyiceberg.io.pyarrow import (  # type: ignore[import-not-found, unused-ignore]
        schema_to_pyarrow,
    )

    snapshot = table.current_snapshot() if version is None else table.snapshot_by_id(version)
    if snapshot is None:
        wanted = "snapshot" if version is None else f"snapshot {version}"
        raise InvalidError(f"the Iceberg table has no {wanted}: it has no rows, or it is expired")
    scan = table.scan(snapshot_id=snapshot.snapshot_id)
    urls = []
    for task in scan.plan_files():
        if task.delete_files:
            raise UnsupportedError(
                f"the Iceberg table has deleted rows in the file {task.file.file_path}, which only"
                f" a reader of Iceberg can leave out: {REMEDY}"
            )
        urls.append(task.file.file_path)
    schema = table.schema() if version is None else scan.projection()
    return urls, snapshot.snapshot_id, schema_to_pyarrow(schema)


def check(path: str, found: Any, schema: Any) -> None:
    """Refuse a file whose columns are not those of the table, by name and by field id."""
    if _ids(found) != _ids(schema):
        raise UnsupportedError(
            f"the file {path} has not the columns of the Iceberg table, which have been added,"
            f" dropped or renamed since: {REMEDY}"
        )


def _ids(fields: Any) -> dict[bytes | None, str]:
    """Return the names of columns, and of the fields of structs, by their ids."""
    from pyarrow import types  # type: ignore[import-untyped, import-not-found, unused-ignore]

    found: dict[bytes | None, str] = {}
    for field in fields:
        kind = field.type
        found[(field.metadata or {}).get(FIELD_ID)] = field.name
        while types.is_list(kind) or types.is_large_list(kind):
            kind = kind.value_type
        if types.is_struct(kind):
            found.update(_ids(kind))
    return found
