# SPDX-License-Identifier: Apache-2.0
"""The end of a rank's data, before that of other ranks."""

from __future__ import annotations

from sparkring._horovod import operations


def join(device: int = -1) -> int:
    """Give zeros to the operations of other ranks until all ranks have joined.

    Parameters
    ----------
    device : int
        Ignored; Horovod has it.

    Returns
    -------
    int
        The rank that joined last.
    """
    return operations.join()
