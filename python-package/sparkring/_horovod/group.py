# SPDX-License-Identifier: Apache-2.0
"""The ranks of a process set: a communicator, its reducer and the names of its operations."""

from __future__ import annotations

import threading

from sparkring._communicator import Communicator
from sparkring._core import RingError
from sparkring._horovod.arguments import check_type
from sparkring._horovod.errors import internal_errors
from sparkring._horovod.settings import Settings

_LISTED = 8  # ranks in a text


class Group:
    """Runs named operations of the ranks of one process set. Opening it is collective."""

    def __init__(
        self, comm: Communicator, ranks: tuple[int, ...], settings: Settings, number: int = 0
    ) -> None:
        self.comm, self.ranks = comm, ranks
        self._suffix = f" of {_describe(number, ranks)}" if number else ""
        with internal_errors():
            self.reducer = comm.reducer(
                threshold=settings.threshold,
                cycle_time=settings.cycle_time,
                cache_capacity=settings.cache_capacity,
                stall_timeout=settings.stall_timeout,
                autotune=settings.autotune,
                autotune_log=settings.autotune_log,
            )
        self.compared: set[tuple[str, str]] = set()  # settings that all ranks have passed alike
        self._naming = threading.Lock()
        self._unnamed = 0

    @property
    def size(self) -> int:
        """int: the number of ranks."""
        return len(self.ranks)

    def name(self, kind: str, name: str | None) -> str:
        """Name an operation: as the caller does or by the number of earlier ones without a name.

        Two kinds of operations may have the same name, where callers give it. Arguments that ranks
        could pass differently are not part of a name: the reducer compares them. The name of an
        operation of a process set tells so, because errors show it.
        """
        if name is not None:
            check_type("name", name, str, "a string")
            return f"{kind}.{name}{self._suffix}"
        with self._naming:
            self._unnamed += 1
            return f"noname.{self._unnamed}{self._suffix}"

    def index(self, rank: int) -> int:
        """Return the place of a global rank in the group. Raise ValueError for a rank outside."""
        if rank not in self.ranks:
            raise ValueError(
                f"root_rank is {rank!r}: pass the global rank of a member of the process set,"
                f" {', '.join(map(str, self.ranks))}"
            )
        return self.ranks.index(rank)

    def join(self) -> int:
        """Join, and count operations without a name anew. Return the last global rank to join.

        A rank that had joined has compared no settings, so all ranks compare them anew.
        """
        with internal_errors():
            last = self.reducer.join()
        self.compared.clear()
        with self._naming:
            self._unnamed = 0
        return self.ranks[last]

    def close(self) -> None:
        """Close the reducer with the other ranks; abort it when they have failed. Collective."""
        try:
            self.reducer.close()
        except RingError as error:
            self.reducer.abort(str(error))


def _describe(number: int, ranks: tuple[int, ...]) -> str:
    """Return a text such as "process set 1 (ranks 0, 2)"."""
    listed = ", ".join(map(str, ranks[:_LISTED])) + (", ..." if len(ranks) > _LISTED else "")
    return f"process set {number} (ranks {listed})"
