# SPDX-License-Identifier: Apache-2.0
"""The timeline of Horovod's API: a recording of the calls of every rank."""

from __future__ import annotations

from sparkring._horovod.context import context
from sparkring._horovod.errors import internal_errors


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Record the calls of every rank into a directory. All ranks call it.

    ``python -m sparkring timeline FILE_PATH`` makes one trace of the files of the ranks.

    Parameters
    ----------
    file_path : str
        The directory.
    mark_cycles : bool
        Whether the cycles of the reducer are marked, as ``CYCLE_START``.
    """
    with internal_errors():
        context().comm.start_timeline(file_path, mark_cycles)


def stop_timeline() -> None:
    """End the recording."""
    context().comm.stop_timeline()
