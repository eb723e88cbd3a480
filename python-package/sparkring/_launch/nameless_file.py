# SPDX-License-Identifier: Apache-2.0
"""A file without a name, for what other processes of this user read through a descriptor."""

from __future__ import annotations

import os
import tempfile
from typing import IO


def nameless_file(purpose: str) -> IO[bytes]:
    """Open a file in memory or, where memfd is missing or forbidden, an unnamed file on disk."""
    try:
        return open(os.memfd_create(purpose), "w+b")
    except (AttributeError, OSError):
        return tempfile.TemporaryFile()
