# SPDX-License-Identifier: Apache-2.0
"""DataFrames of Spark as Parquet files that live as long as this process.

Equal plans of a session share their files. Spark compares the plans (``sameSemantics``), so the
names of variables do not matter. Spark's comparison leaves out the names of columns, so the schemas
are compared, too.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import tempfile
import threading
import uuid
import warnings
from typing import Any, NamedTuple

from sparkring._arguments import check_whole
from sparkring._core import InvalidError
from sparkring.data._parquet import file_system

ROW_GROUP = 16 << 20  # bytes


class _Table(NamedTuple):
    """A DataFrame that has been written."""

    frame: Any
    where: tuple[Any, ...]  # session, directory, row group size
    path: ParquetPath
    root: str  # the directory to delete
    process: int


_tables: list[_Table] = []
_lock = threading.Lock()


class ParquetPath(str):
    """The path or URL of files that `write_parquet` has written.

    As a context manager it deletes the files at the end of the block. A copy in another process is
    a plain string.
    """

    __slots__ = ()

    def __enter__(self) -> ParquetPath:
        return self

    def __exit__(self, *_: object) -> None:
        self.delete()

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)

    def delete(self) -> None:
        """Delete the files now. `write_parquet` then writes the frame anew."""
        with _lock:
            for table in [table for table in _tables if table.path == self]:
                _tables.remove(table)
                _delete_table(table)


def is_frame(source: Any) -> bool:
    """Return whether an object is a DataFrame of Spark, classic or Connect."""
    return type(source).__module__.startswith("pyspark.sql") and hasattr(source, "write")


def write_parquet(
    frame: Any, directory: str | os.PathLike[str] | None = None, *, row_group_size: int = ROW_GROUP
) -> ParquetPath:
    """Write a DataFrame of Spark to Parquet files for `parquet`, once in this process.

    Call it on the driver, and pass its result to the ranks. Frames with equal plans and columns
    share their files, also when the data that the plan reads have changed since: call ``delete()``
    of the result first. The files are deleted when this process ends, unless it is killed. A new
    process writes other files, and then a `Loader.state` of the earlier files is an error: where a
    job has to go on in another process, write the frame with ``frame.write.parquet``.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The frame, of a classic session or of Spark Connect. Each of its partitions becomes a file.
    directory : str or path, optional
        The directory of the new files, or its URL, such as ``hdfs:///tmp``, ``s3a://bucket/tmp`` or
        ``/shared/tmp``, which the executors and the driver must see. A path without a scheme is on
        a disk that the hosts share. By default the directory for temporary files, where Spark runs
        on this machine alone. Elsewhere the default is an error.
    row_group_size : int
        The bytes of a row group. The ranks keep a few row groups in memory.

    Returns
    -------
    str
        The path or URL of the files. Its method ``delete()`` deletes them, and so does the end of a
        ``with`` block.

    Raises
    ------
    InvalidError
        When the argument is no DataFrame, or a directory is needed.

    Examples
    --------
    >>> path = write_parquet(frame, "hdfs:///tmp")
    >>> run(train, args=(path,), num_proc=4)
    """
    check_whole("row_group_size", row_group_size, 1)
    if not is_frame(frame):
        raise InvalidError(
            f"frame is of type {type(frame).__name__}: pass a DataFrame of Spark; `parquet` takes"
            " paths as they are"
        )
    session = frame.sparkSession
    where = session, directory, row_group_size
    with _lock:
        for table in _tables:
            if table.where == where and _is_same(table.frame, frame):
                return table.path
        root = _new_directory(session, directory)
        path = ParquetPath(f"{root}/table")
        local = file_system.local_path(path)
        if not _tables:
            atexit.register(_delete)
        # Before the write, which may fail half-way.
        _tables.append(_Table(frame, where, path, root, os.getpid()))
        try:
            frame.write.option("parquet.block.size", row_group_size).parquet(
                path if local is None else f"file://{local}"
            )
        except BaseException:
            _delete_table(_tables.pop())
            raise
        return path


def _is_same(one: Any, other: Any) -> bool:
    return bool(one.schema == other.schema and one.sameSemantics(other))


def _new_directory(session: Any, directory: str | os.PathLike[str] | None) -> str:
    """Choose a new directory; on this machine alone, make one that other users cannot read."""
    if directory is not None:
        url = os.fspath(directory).rstrip("/")
        return f"{file_system.local_path(url) or url}/sparkring-{uuid.uuid4().hex[:16]}"
    from sparkring.spark import _session as sessions

    spark = sessions.find(session)
    is_classic = "connect" not in type(session).__module__
    if spark.here or (is_classic and spark.master.startswith("local-cluster")):
        return tempfile.mkdtemp(prefix="sparkring-")
    raise InvalidError(
        "the hosts of this Spark need a directory that all of them see: write the frame with"
        " sparkring.data.write_parquet(frame, directory), such as hdfs:///tmp or /shared/tmp, and"
        " pass the path that it returns"
    )


def _delete() -> None:
    """Delete all files, at the end of the process."""
    while _tables:
        _delete_table(_tables.pop())


def _delete_table(table: _Table) -> None:
    if os.getpid() != table.process:
        return  # a fork leaves the files of its parent
    try:
        location = file_system.find(table.root)
        with contextlib.suppress(FileNotFoundError):
            location.files.delete_dir(location.path)
    except Exception as error:
        warnings.warn(
            f"the files in {table.root} could not be deleted: {error}", RuntimeWarning, stacklevel=2
        )
