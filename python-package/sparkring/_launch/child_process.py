# SPDX-License-Identifier: Apache-2.0
"""Child processes: that they end with their parent, and how they have ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def end_with_parent(number: int) -> None:
    """Let the kernel send this process a signal when the thread that has forked it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, *map(ctypes.c_ulong, (number, 0, 0, 0)))


def describe(status: int) -> str:
    """Describe how a process has failed, by its wait status."""
    return describe_code(os.waitstatus_to_exitcode(status))


def describe_code(code: int) -> str:
    """Describe how a process has failed, by its exit code or the negative number of a signal."""
    if code >= 0:
        return f"failed with exit code {code}"
    with contextlib.suppress(ValueError):  # real-time signals have no names
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
