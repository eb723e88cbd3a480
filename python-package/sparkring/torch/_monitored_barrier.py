# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""A barrier that names the ranks that do not arrive.

Every other rank writes its arrival into the store of the group. Rank 0 waits for the arrivals, and
writes how the barrier ended. So the barrier also works beside a call that hangs.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import torch.distributed as dist

_SHORTEST = 1e-3  # seconds; 0 would be no limit


class MonitoredBarrier:
    """The monitored barriers of a group, one after the other."""

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self._store, self._rank, self._size = store, rank, size
        self._count = 0

    def wait(self, seconds: float, wait_all_ranks: bool) -> None:
        """Wait for all ranks; raise an error that names the first missing rank, or all."""
        self._count += 1
        end = time.monotonic() + seconds
        if self._rank == 0:
            missing = self._missing(end, wait_all_ranks)
            problem = f"rank {missing} did not arrive within {seconds:g} s" if missing else ""
            self._store.set(self._key("end"), problem)
            if not missing:  # all ranks have read the end of the last barrier
                self._store.delete_key(f"monitored_barrier/{self._count - 1}/end")
        else:
            self._store.set(self._key(self._rank), "")
            if self._arrives("end", end):
                problem = self._store.get(self._key("end")).decode()
            else:
                problem = f"rank 0 did not end it within {seconds:g} s"
        if problem:
            raise TimeoutError(f"monitored_barrier: {problem}")

    def _missing(self, end: float, wait_all_ranks: bool) -> str:
        """Return the ranks that do not arrive: the first, or all."""
        missing = []
        for rank in range(1, self._size):
            if self._arrives(rank, end):
                self._store.delete_key(self._key(rank))
            else:
                missing.append(str(rank))
                if not wait_all_ranks:
                    break
        return ", ".join(missing)

    def _arrives(self, name: str | int, end: float) -> bool:
        left = timedelta(seconds=max(end - time.monotonic(), _SHORTEST))
        try:
            self._store.wait([self._key(name)], left)
        except dist.DistStoreError:
            return False
        return True

    def _key(self, name: str | int) -> str:
        return f"monitored_barrier/{self._count}/{name}"
