# SPDX-License-Identifier: Apache-2.0
"""Finds the options, the manifest and the columns, which all ranks know before the first batch.

Rank 0 lists the files, reads their footers and the first row. All ranks exchange their options and
errors, so each error is raised on every rank. Then rank 0 broadcasts the manifest.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkring._core import InvalidError
from sparkring._tables import number
from sparkring._tables.source import Column
from sparkring.data import _schema as schema
from sparkring.data._parquet import columns as columns_of
from sparkring.data._parquet import frameworks, listing, manifest, spark_table
from sparkring.data._parquet.columns import Columns
from sparkring.data._parquet.row_groups import RowGroups

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkring._communicator import Communicator
    from sparkring.data._parquet.manifest import Manifest

SETTINGS = ("batch_size", "shuffle", "seed", "epochs", "state", "equalize", "as_", "version")
MEMORY = 500 << 20  # bytes of a rank above which rank 0 warns
logger = logging.getLogger("sparkring")


class Found(NamedTuple):
    """The result of `find`.

    Attributes
    ----------
    options : dict
        The arguments of `parquet`.
    manifest : Manifest
        The files.
    columns : Columns
        The columns of a batch.
    """

    options: dict[str, Any]
    manifest: Manifest
    columns: Columns


def find(source: Any, comm: Communicator, read: Callable[[], dict[str, Any]]) -> Found:
    """Find the files and fields on rank 0, and send them to all ranks. Collective.

    Parameters
    ----------
    source : object
        The source of rank 0.
    comm : Communicator
        The communicator.
    read : callable
        Checks and returns the options of this rank.
    """
    options: dict[str, Any] = {}
    files = failure = None
    try:
        options = read()
        frameworks.check(options["as_"])
        if comm.rank == 0:
            files = _find(source, options)
    except Exception as error:
        failure = error
    settings = {name: options.get(name) for name in SETTINGS}
    settings.update({name: repr(options.get(name)) for name in ("columns", "dtype", "missing")})
    text = None if failure is None else str(failure) or type(failure).__name__
    reports = schema.exchange(comm, schema.Report(settings, None, 0, text))
    try:
        schema.agree(reports)
    except InvalidError as error:
        raise error from failure
    found, fields = manifest.broadcast(comm, *(files or (None, None)))
    if comm.rank == 0:
        _warn(found, comm.size, options["shuffle"])
    return Found(options, found, _columns(found, fields, options))


def _find(source: Any, options: dict[str, Any]) -> tuple[Manifest, dict[str, Any]]:
    """Find the files, and the fields of their first row."""
    if spark_table.is_frame(source):
        source = spark_table.write_parquet(source)
    version = options["version"]
    if version is None:  # a job goes on with the version with which it began
        version = (options["state"] or {}).get("version")
    files = listing.find(source, options["filesystem"], version)
    found = manifest.find(files, columns_of.names(options["columns"]))
    row_groups = RowGroups(found, files.location, None)
    try:
        if not len(found.groups()):
            return found, {}
        columns = _new_columns(found, options)
        with row_groups.named(0):
            table = row_groups.sample()
            fields = columns.describe(table, options["dtype"])
            frameworks.check_fields(options["as_"], fields)
    finally:
        row_groups.close()
    texts = [[name, dtype.str, shape] for name, dtype, shape in fields]
    return found, {"fields": texts, "schema": bytes(table.schema.serialize()).hex()}


def _columns(found: Manifest, fields: dict[str, Any], options: dict[str, Any]) -> Columns:
    import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]

    columns = _new_columns(found, options)
    if fields:
        columns.fields = [
            schema.Field(name, np.dtype(dtype), tuple(shape))
            for name, dtype, shape in fields["fields"]
        ]
        of_table = pyarrow.ipc.read_schema(pyarrow.py_buffer(bytes.fromhex(fields["schema"])))
        sources = {column.name: column.sources[0] for column in columns.selected}
        columns.types = {
            field.name: of_table.field(sources[field.name]).type
            for field in columns.fields
            if field.dtype == columns_of.BYTES
        }
    return columns


def _new_columns(found: Manifest, options: dict[str, Any]) -> Columns:
    names = [*found.columns, *found.types]
    number.check_names(options["missing"], names)
    selected = options["columns"] or [Column(name, (name,), False) for name in names]
    return Columns(selected, options["missing"], options["as_"] == "arrow")


def _warn(found: Manifest, size: int, shuffle: int) -> None:
    """Warn of row groups that are few for the ranks, or large for the memory."""
    groups = len(found.groups())
    if 0 < groups < 2 * (size - 1) * max(1, shuffle):
        logger.warning(
            f"the files have {groups} row groups, which are few for {size} ranks and"
            f" shuffle={shuffle}: several ranks read the same row groups. Write smaller row groups,"
            " or pass a smaller shuffle"
        )
    window = min(shuffle, groups)
    memory = (2 * window + 1) * found.largest
    if window and memory > MEMORY:
        logger.warning(
            f"row groups have up to {found.largest >> 20} MB, so shuffle={shuffle} takes about"
            f" {memory >> 20} MB of each rank: pass a smaller shuffle=, fewer columns=, or write"
            " smaller row groups (16 MB, as write_parquet does)"
        )
