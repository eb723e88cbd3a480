# SPDX-License-Identifier: Apache-2.0
"""Processes of ``sparkring-run``: signals, exit codes, and descendants.

No function reports an error for a process that has ended meanwhile. Only Linux sends a signal to a
process whose parent dies, lets a process adopt orphans, and lists children. Elsewhere the functions
for these tasks do nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
PASSED_ON = ENDING | {signal.SIGUSR1, signal.SIGUSR2}

LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def control(option: int, argument: int) -> None:
    """Call prctl, where there is one."""
    if LINUX:
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(argument), *[ctypes.c_ulong(0)] * 3)


def passed_on() -> set[int]:
    """List the signals to forward: not those that nohup and shells ignore."""
    return {number for number in PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN}


def exit_code(status: int) -> int:
    """Turn a wait status into an exit code, as shells do: 128 + number for a signal."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


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


def prepare_child(parent: int, mask: set[int]) -> None:
    """Prepare a forked child for exec: a process group of its own, and an end with its parent."""
    os.setpgid(0, 0)
    control(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if os.getppid() != parent:
        os._exit(1)


def send(process: int, number: int) -> None:
    """Send a signal to a process. A process that has ended is no error."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def kill_group(process: int, number: int) -> None:
    """Send a signal to a process group. A group that has ended, or is not ours, is no error."""
    with contextlib.suppress(OSError):
        os.killpg(process, number)


def children() -> Iterator[int]:
    """List the children of this process, adopted children included. Empty without /proc."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            _, _, after_name = entry.read_bytes().rpartition(b")")
            if int(after_name.split()[1]) == os.getpid():
                yield int(entry.parent.name)


def kill_descendants(spared: Collection[int] = ()) -> None:
    """Kill every child, and then the orphans that this process adopts, until none is left.

    SIGCHLD stays blocked: a handler that reaps a listed child would hide its orphans. SIGALRM stays
    blocked, too: a tick of the clock would start the work again.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGALRM})
    while mine := [process for process in children() if process not in spared]:
        for process in mine:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        for process in mine:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, 0)
