# SPDX-License-Identifier: Apache-2.0
"""The positions of an epoch that each rank takes, and the number of steps, without a message.

The positions that are left of an epoch form a sequence. Of R positions and n ranks, rank r takes
the r-th of n intervals of the sequence. The first R modulo n ranks take one position more than the
others. After a step every rank has taken the same number of positions, except at the end. So the
number of positions that each rank has taken follows from the sum over all ranks.

The rest after some steps is again a sequence: the rest of rank 0, then the rest of rank 1 and so
on. A job that goes on with another number of ranks deals this sequence. With the same number of
ranks the cuts fall where they were, so the job goes on as if it had not been interrupted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sparkring.data._parquet.order import Interval


class Segment(NamedTuple):
    """A part of an epoch with one number of ranks.

    Attributes
    ----------
    size : int
        The number of ranks.
    row : int
        The number of rows that had been taken when it ended, since the start of the epoch.
    """

    size: int
    row: int


def share(rows: int, size: int, rank: int) -> Interval:
    """Return the interval of a rank."""
    each, more = divmod(rows, size)
    start = rank * each + min(rank, more)
    return start, start + each + (rank < more)


def cut(intervals: list[Interval], start: int, end: int) -> list[Interval]:
    """Return the intervals of a part of a sequence, which consists of intervals."""
    found = []
    for first, last in intervals:
        length = last - first
        if start < length and end > 0:
            found.append((first + max(start, 0), first + min(end, length)))
        start, end = start - length, end - length
    return found


def left(rows: int, segments: list[Segment]) -> list[Interval]:
    """Return the positions that are left of an epoch, in the sequence in which they are dealt."""
    intervals, before = [(0, rows)] if rows else [], 0
    for size, row in segments:
        taken = -(-(row - before) // size)  # of each rank
        some = []
        for rank in range(size):
            start, end = share(rows - before, size, rank)
            some += cut(intervals, min(start + taken, end), end)
        intervals, before = _merged(some), row
    return intervals


def _merged(intervals: list[Interval]) -> list[Interval]:
    merged: list[Interval] = []
    for start, end in intervals:
        if merged and merged[-1][1] == start:
            start = merged.pop()[0]
        merged.append((start, end))
    return merged


class Deal:
    """The rest of an epoch, dealt to ranks.

    Parameters
    ----------
    rows : int
        The rows of the epoch.
    segments : list of Segment
        The history of the epoch, empty at its start.
    size : int
        The number of ranks.
    batch_size : int
        The rows of a rank in a step.
    equalize : {"join", "pad", "drop"}
        As for `parquet`.
    """

    def __init__(
        self, rows: int, segments: list[Segment], size: int, batch_size: int, equalize: str
    ) -> None:
        self._size, self._batch_size, self._equalize = size, batch_size, equalize
        self._left = left(rows, segments)
        self._before = segments[-1].row if segments else 0
        self._rows = rows - self._before
        least, most = self._rows // size, -(-self._rows // size)
        self.steps = least // batch_size if equalize == "drop" else -(-most // batch_size)

    def own(self, rank: int, step: int) -> int:
        """Return the number of own rows of a rank in a step."""
        start, end = share(self._rows, self._size, rank)
        return max(0, min(self._batch_size, end - start - step * self._batch_size))

    def total(self, step: int) -> int:
        """Return the number of own rows of all ranks in a step."""
        return self.row(step + 1) - self.row(step)

    def row(self, step: int) -> int:
        """Return the number of rows of the epoch that all ranks have taken before a step."""
        each, more = divmod(self._rows, self._size)
        taken = step * self._batch_size
        return self._before + self._size * min(taken, each) + (more if taken > each else 0)

    def intervals(self, rank: int) -> list[Interval]:
        """Return the positions that a rank reads, with those that ``pad`` repeats."""
        start, end = share(self._rows, self._size, rank)
        length = self.steps * self._batch_size
        if self._equalize == "drop":
            return cut(self._left, start, start + length)
        found = cut(self._left, start, end)
        missing = length - (end - start) if self._equalize == "pad" else 0
        while missing > 0:  # the rows that follow those of this rank, in a circle
            start = end % self._rows
            end = min(self._rows, start + missing)
            found += cut(self._left, start, end)
            missing -= end - start
        return found
