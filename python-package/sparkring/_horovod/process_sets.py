# SPDX-License-Identifier: Apache-2.0
"""Process sets: groups of ranks that run collectives of their own."""

from __future__ import annotations

from collections.abc import Iterable

from sparkring._horovod.group import Group


class ProcessSet:
    """A group of ranks.

    Pass it to ``init(process_sets=[...])`` or to `add_process_set`, on all ranks alike. Then pass
    it to the operations of its members. Its methods raise ValueError while it is not in use.

    Parameters
    ----------
    ranks : iterable of int
        Global ranks, in any order.

    Attributes
    ----------
    process_set_id : int or None
        The number of the set, 0 for the global set; None while it is not in use.
    ranks : list of int
        The global ranks, in order.
    """

    process_set_id: int | None = None

    def __init__(self, ranks: Iterable[int] | None = None) -> None:
        self.ranks: list[int] | None = None if ranks is None else sorted({int(r) for r in ranks})
        self._group: Group | None = None

    def included(self) -> bool:
        """Tell whether this rank is a member.

        Returns
        -------
        bool
        """
        self._check()
        return self._group is not None

    def rank(self) -> int:
        """Return the rank of this process in the set, or -1 outside it.

        Returns
        -------
        int
        """
        self._check()
        return -1 if self._group is None else self._group.comm.rank

    def size(self) -> int:
        """Return the number of ranks.

        Returns
        -------
        int
        """
        self._check()
        return len(self.ranks or ())

    def group(self) -> Group:
        """Return what runs the operations of this set; for the operations of this package.

        Returns
        -------
        Group

        Raises
        ------
        ValueError
            On a rank outside the set, and while the set is not in use.
        """
        self._check()
        if self._group is None:
            raise ValueError(
                f"this rank is not in the process set {self.process_set_id} of the ranks"
                f" {self.ranks}: call the operation on these ranks alone"
            )
        return self._group

    def open(self, number: int, ranks: list[int], group: Group | None) -> None:
        """Begin to use the set; `add_process_set` and `init` call this.

        Parameters
        ----------
        number : int
            The number of the set.
        ranks : list of int
            Its global ranks, in order.
        group : Group or None
            The reducer that runs the operations; None on a rank outside.
        """
        self.process_set_id, self.ranks, self._group = number, ranks, group

    def close(self) -> None:
        """Forget number and group; `remove_process_set` and `shutdown` call this."""
        self.process_set_id, self._group = None, None

    def _check(self) -> None:
        if self.process_set_id is None:
            raise ValueError(
                f"{self!r} is not in use: call init() first, and pass other sets than the global"
                " one to add_process_set() on all ranks"
            )

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


global_process_set = ProcessSet()
