# SPDX-License-Identifier: Apache-2.0
"""A directory that is removed also if this process is killed: a shell waits for that.

The shell is in a session of its own, so a signal to the group of this process does not reach it.
R's spark-folder.R does the same.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

# The end of the input without a line is the end of this process. Killed ranks may still write.
SHELL = 'read -r line || rm -rf -- "$1" || { sleep 1; rm -rf -- "$1"; }'


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a directory that only this user can read, for the ``with`` block."""
    path = tempfile.mkdtemp(prefix="sparkring-")
    shell = None
    with contextlib.suppress(OSError):  # without a shell, only this process removes it
        shell = subprocess.Popen(
            ["/bin/sh", "-c", SHELL, "sh", path],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        yield Path(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if shell is not None:
            shell.communicate(b"\n")
