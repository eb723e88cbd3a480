# SPDX-License-Identifier: Apache-2.0
"""Row groups on a local disk, for later epochs and for the other ranks of the host.

A row group is kept as an Arrow file with the columns that were read. Such a file is mapped into
memory, and needs no decoding. A file appears with its name when it is complete. The name has the
digest of the files, so a cache never gives rows of other files. When the disk is full, the cache
takes no more row groups.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparkring.data._parquet.manifest import Manifest

logger = logging.getLogger("sparkring")
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Cache:
    """The row groups of a manifest, in a directory."""

    def __init__(self, directory: str | os.PathLike[str], manifest: Manifest) -> None:
        columns = repr((manifest.digest(), manifest.columns))
        name = hashlib.sha256(columns.encode()).hexdigest()[:32]
        self._directory = Path(directory).expanduser().absolute() / f"sparkring-{name}"
        self._directory.mkdir(parents=True, exist_ok=True)
        self._takes = True

    def get(self, group: int) -> Any:
        """Return the table of a row group, or None."""
        import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]
        from pyarrow import ipc

        try:
            with pyarrow.memory_map(str(self._path(group))) as memory:
                return ipc.open_file(memory).read_all()
        except (
            FileNotFoundError,
            pyarrow.ArrowInvalid,
        ):  # a crash of the host may leave half a file
            return None

    def put(self, group: int, table: Any) -> None:
        """Keep the table of a row group."""
        if not self._takes:
            return
        try:
            self._write(group, table)
        except OSError as error:
            if error.errno not in FULL:
                raise
            self._takes = False
            logger.warning(
                f"the disk of {self._directory} is full: further row groups are not cached"
            )

    def _write(self, group: int, table: Any) -> None:
        from pyarrow import ipc

        with tempfile.NamedTemporaryFile(
            dir=self._directory, prefix=".", suffix=".part", delete=False
        ) as file:
            try:
                with ipc.new_file(file, table.schema) as writer:
                    writer.write_table(table)
                file.flush()
                os.rename(file.name, self._path(group))
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(file.name)
                raise

    def _path(self, group: int) -> Path:
        return self._directory / f"{group}.arrow"
