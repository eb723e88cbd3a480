# SPDX-License-Identifier: Apache-2.0
"""Runs MPI programs on ranks of the tests, and counts what remains of them."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from ranks import LIMIT, open_comm

HERE = Path(__file__).parent


def count_remains():
    """Count the threads, descriptors and children of this process."""
    me = Path("/proc/self")
    children = [path for path in me.glob("task/*/children") if path.read_text()]
    return len(list(me.glob("task/*"))), len(list(me.glob("fd/*"))), children


def remains(expected=None):
    """Count when nothing changes any more: a thread leaves /proc after it was joined."""
    before = None
    for _ in range(100 * LIMIT):
        with contextlib.suppress(OSError):  # a thread has left meanwhile
            now = count_remains()
            if now == before and expected in (None, now):
                break
            before = now
        time.sleep(0.01)
    return now


def run_program(argv, **options):
    """Run a program; return its lines, and check that nothing remains."""
    lines = []
    with open_comm() as comm:
        comm.barrier()
        comm.mpi_run(["true"])  # from now on nothing new is kept
        before = remains()
        comm.mpi_run(argv, output=lines.append, **options)
        left = remains(before)
        assert left == before, (left, before)
        assert comm.allreduce(1) == comm.size  # it works on
    return sorted(lines)
