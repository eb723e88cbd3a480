# SPDX-License-Identifier: Apache-2.0
"""Row groups on a local disk, for later epochs and for the other ranks of the host.

A row group is kept as an Arrow file with the columns that were read. The file is mapped into
memory, and needs no decoding. The CRC-32 of its bytes follows them and is checked at each read, at
3 GiB a second. A file appears with its name when it is complete. The name of the directory has the
digest of the files, so a cache never gives rows of other files. It has the user, too, and belongs
to the user.

A cache is a help and no condition: a row group that it cannot give is read from its file. It takes
up half of the space that was free when the loader was made, and ends its growth at an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkring._core import InvalidError

if TYPE_CHECKING:
    from sparkring.data._parquet.manifest import Manifest

CRC = 4  # bytes after the Arrow file
logger = logging.getLogger("sparkring")


class Cache:
    """The row groups of a manifest, in a directory."""

    def __init__(self, directory: str | os.PathLike[str], manifest: Manifest) -> None:
        contents = repr((os.getuid(), manifest.digest(), manifest.columns))
        name = hashlib.sha256(contents.encode()).hexdigest()[:32]
        self._directory = Path(directory).expanduser().absolute() / f"sparkring-{name}"
        self._directory.parent.mkdir(parents=True, exist_ok=True)
        self._directory.mkdir(mode=0o700, exist_ok=True)
        if self._directory.stat().st_uid != os.getuid():
            raise InvalidError(
                f"{self._directory} belongs to another user: pass a directory of your own as cache="
            )
        self._least = shutil.disk_usage(self._directory).free // 2
        self._takes = True

    def get(self, group: int) -> Any:
        """Return the table of a row group; None where there is none, or its file is damaged."""
        import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]
        from pyarrow import ipc

        try:
            with pyarrow.memory_map(str(self._path(group))) as memory:
                content = memory.read_buffer()
            size = max(len(content) - CRC, 0)
            arrow, crc = content.slice(0, size), content.slice(size).to_pybytes()
            if crc_of(arrow) != crc:
                logger.warning(
                    f"the cached row group {self._path(group)} is damaged: its bytes do not have"
                    " their CRC-32. It is read from its file and replaced"
                )
                return None
            return ipc.open_file(arrow).read_all()
        except (OSError, pyarrow.ArrowException):
            return None

    def put(self, group: int, table: Any) -> None:
        """Keep the table of a row group."""
        if not self._takes:
            return
        try:
            if shutil.disk_usage(self._directory).free < self._least:
                raise OSError("half of the space that was free is in use")
            self._write(group, table)
        except OSError as error:
            self._takes = False
            logger.warning(
                f"further row groups are not cached in {self._directory}: {error}. They are read"
                " from their files"
            )

    def _write(self, group: int, table: Any) -> None:
        import pyarrow
        from pyarrow import ipc

        with tempfile.NamedTemporaryFile(
            dir=self._directory, prefix=".", suffix=".part", delete=False
        ) as file:
            try:
                with ipc.new_file(file, table.schema) as writer:
                    writer.write_table(table)
                file.flush()
                with pyarrow.memory_map(file.name) as memory:
                    file.write(crc_of(memory.read_buffer()))
                file.flush()
                os.rename(file.name, self._path(group))
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(file.name)
                raise

    def _path(self, group: int) -> Path:
        return self._directory / f"{group}.arrow"


def crc_of(content: Any) -> bytes:
    """Return the CRC-32 of a buffer."""
    return zlib.crc32(content).to_bytes(CRC, "big")
