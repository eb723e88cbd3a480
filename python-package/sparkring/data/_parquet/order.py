# SPDX-License-Identifier: Apache-2.0
"""The order of the rows of an epoch. It depends neither on ranks nor on batches.

The row groups of all files are permuted. `window` row groups that follow each other in the
permutation form a window, and the rows of a window are permuted. So each epoch has a sequence of
rows, and every position from 0 to the number of rows has one row. Ranks take intervals of
positions. Another number of ranks takes other intervals of the same sequence.

Both permutations follow from (seed, epoch, window) alone, so the rows of an interval are found
without a look at earlier rows. `RandomState` makes them, because NumPy guarantees its sequences in
all later versions, and the sequences of `Generator` may change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Union

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import TypeAlias

    Interval: TypeAlias = tuple[int, int]
    Rows: TypeAlias = Union[slice, "NDArray[np.int64]"]


class Slice(NamedTuple):
    """Some rows that follow each other in the order, all of one window.

    Attributes
    ----------
    groups : list of int
        The row groups of the window.
    rows : slice or array of int
        The rows among the concatenated rows of these row groups, in their order.
    """

    groups: list[int]
    rows: Rows


class Order:
    """The order of each epoch.

    Parameters
    ----------
    rows : array of int
        The number of rows of each row group, none of them 0.
    window : int
        The number of row groups whose rows are shuffled together. 0 for the order of the files.
    seed : int
        The seed.
    """

    def __init__(self, rows: NDArray[np.int64], window: int, seed: int) -> None:
        self._rows, self._window, self._seed = rows, window, seed

    def slices(self, epoch: int, intervals: list[Interval]) -> Iterator[Slice]:
        """Yield the rows of intervals of positions, in the order of the intervals."""
        groups = self._groups(epoch)
        firsts = np.arange(0, len(groups), max(self._window, 1))
        starts = np.concatenate([[0], np.cumsum(self._rows[groups])])
        starts = np.append(starts[firsts], starts[-1])  # of the windows, and the end
        for start, end in intervals:
            while start < end:
                window = int(np.searchsorted(starts, start, "right")) - 1
                until = min(end, int(starts[window + 1]))
                first, origin = int(firsts[window]), int(starts[window])
                members = groups[first : first + max(self._window, 1)].tolist()
                yield Slice(
                    members, self._part(epoch, window, members, start - origin, until - origin)
                )
                start = until

    def _groups(self, epoch: int) -> NDArray[np.int64]:
        count = len(self._rows)
        return self._random(epoch, 0).permutation(count) if self._window else np.arange(count)

    def _part(self, epoch: int, window: int, members: list[int], start: int, end: int) -> Rows:
        if not self._window:
            return slice(start, end)
        count = int(self._rows[members].sum())
        part: NDArray[np.int64] = self._random(epoch, 1 + window).permutation(count)[start:end]
        return part

    def _random(self, *which: int) -> np.random.RandomState:
        sequence = np.random.SeedSequence((self._seed, *which))
        return np.random.RandomState(np.random.MT19937(sequence))
