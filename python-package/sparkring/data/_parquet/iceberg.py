# SPDX-License-Identifier: Apache-2.0
"""The files of a table of Iceberg, as pyiceberg plans a scan.

A table is one that pyiceberg has loaded from a catalog, or a directory with the table's metadata.
Files of which some rows are deleted (merge on read) are an error.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Any

from sparkring._core import UnsupportedError

if TYPE_CHECKING:
    from sparkring.data._parquet.file_system import Place

METADATA = re.compile(r"(?:v(\d+)|(\d+)-[0-9a-f-]+)(?:\.gz)?\.metadata\.json")


def is_table(source: Any) -> bool:
    """Return whether an object is a table of pyiceberg."""
    return type(source).__module__.startswith("pyiceberg.")


def find(url: str, place: Place) -> Any:
    """Load the table of a directory by its newest metadata; None for any other directory."""
    entries = place.at(f"{place.path}/metadata").entries(recursive=False)
    names = [posixpath.basename(entry.path) for entry in entries]
    versions = {
        int(match[1] or match[2]): match[0] for match in map(METADATA.fullmatch, names) if match
    }
    if not versions:
        return None
    try:
        from pyiceberg.table import StaticTable  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise UnsupportedError(
            f"{url} is a table of Iceberg, whose files pyiceberg lists: pip install pyiceberg"
        ) from error
    return StaticTable.from_metadata(f"{url.rstrip('/')}/metadata/{versions[max(versions)]}")


def files(table: Any) -> list[str]:
    """Return the URLs of the files of the current snapshot."""
    urls = []
    for task in table.scan().plan_files():
        if task.delete_files:
            raise UnsupportedError(
                f"the Iceberg table has deleted rows in the file {task.file.file_path}, which only"
                " a reader of Iceberg can leave out: rewrite its files (rewrite_data_files), or"
                " pass the table as a DataFrame, which is written once"
            )
        urls.append(task.file.file_path)
    return urls
