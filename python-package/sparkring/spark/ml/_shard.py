# SPDX-License-Identifier: Apache-2.0
"""The rows of a rank, in files of its host, and the order in which all ranks take their rows.

The rows of all ranks have numbers: those of rank 0 come first. With batches of B rows, the numbers
are cut into B intervals, and an epoch permutes each interval. The batch of step k has the k-th row
of each interval. So the batches do not depend on the number of ranks, and a rank finds its own rows
of a batch without a message. Each rank has the same number of rows of a batch, give or take one
for each of its ends. Rows that lie together in a sorted table are in different batches.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from sparkring._communicator import Communicator
from sparkring._core import InvalidError
from sparkring._run_state import spark_local_directory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]


class Shard:
    """The rows of a rank: one file for each array."""

    def __init__(self) -> None:
        self._files: dict[str, IO[bytes]] = {}
        self._rows: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self._arrays: Arrays = {}
        self._checksum = 0
        self.rows = 0

    def append(self, arrays: Arrays) -> None:
        """Append rows."""
        rows = {name: (values.dtype, values.shape[1:]) for name, values in arrays.items()}
        if not self._files:
            self._rows = rows
            self._files = {name: _file() for name in arrays}
        if rows != self._rows:
            name = next(name for name in {**rows, **self._rows} if _differs(name, rows, self._rows))
            raise InvalidError(
                f"the rows of {name} have {_describe(rows.get(name))} after"
                f" {_describe(self._rows.get(name))}: all rows need arrays of one shape and type"
            )
        for name, values in arrays.items():
            data = np.ascontiguousarray(values).data
            self._files[name].write(data)
            self._checksum = zlib.crc32(data, self._checksum)
        self.rows += len(next(iter(arrays.values())))

    def close(self, comm: Communicator) -> None:
        """End the appending, and find out how many rows the other ranks have. A collective."""
        for name, file in self._files.items():
            file.flush()
            dtype, shape = self._rows[name]
            self._arrays[name] = np.memmap(file, dtype, "r", shape=(self.rows, *shape))
        found = comm.allgather(np.array([self.rows, self._checksum])).reshape(-1, 2)
        self.digest, counts = found.tolist(), found[:, 0]
        self.first, self.total = int(counts[: comm.rank].sum()), int(counts.sum())
        if not self.total:
            return
        owner = int(np.argmax(counts > 0))
        row = {name: values[:1] for name, values in self._arrays.items()}
        self.spare: Arrays = comm.broadcast_object(row if comm.rank == owner else None, owner)
        if self.rows and self._rows != {k: (v.dtype, v.shape[1:]) for k, v in self.spare.items()}:
            raise InvalidError(
                f"the rows of rank {comm.rank} have other shapes or types than those of rank"
                f" {owner}: {_text(row)} instead of {_text(self.spare)}"
            )

    def all(self) -> Arrays:
        """Return all rows of this rank; arrays without rows where it has none."""
        return self._arrays or {name: values[:0] for name, values in self.spare.items()}

    def take(self, rows: NDArray[np.int64], count: int) -> tuple[Arrays, int]:
        """Return some rows, and further rows up to a count that do not count."""
        if not len(rows):
            return {name: np.repeat(values, count, 0) for name, values in self.spare.items()}, 0
        places = np.append(rows, np.repeat(rows[:1], max(0, count - len(rows))))
        return {name: values[places] for name, values in self._arrays.items()}, len(rows)


class Order:
    """The rows of a rank in each step.

    Parameters
    ----------
    shard : Shard
        The rows, after `Shard.close`.
    batch_size : int
        The rows of a step, of all ranks together.
    seed : int or None
        The seed; None for the order of the table.
    """

    def __init__(self, shard: Shard, batch_size: int, seed: int | None) -> None:
        self._first, self._end = shard.first, shard.first + shard.rows
        self._total, self._batch_size, self._seed = shard.total, batch_size, seed
        self.steps = -(-shard.total // batch_size)
        bounds = -(-np.arange(batch_size + 1) * shard.total // batch_size)
        is_mine = (bounds[1:] > self._first) & (bounds[:-1] < self._end)
        self._slots = [
            (int(slot), int(bounds[slot]), int(bounds[slot + 1]))
            for slot in np.flatnonzero(is_mine)
        ]
        self.width = max(1, len(self._slots))  # rows of this rank in a step at most

    def total(self, step: int) -> int:
        """Return the number of rows of all ranks in a step."""
        return min(self._batch_size, self._total - step * self._batch_size)

    def epoch(self, epoch: int, first_step: int) -> Iterator[NDArray[np.int64]]:
        """Yield the own rows of each step, by their places in the shard."""
        table = np.full((len(self._slots), self.steps), -1)
        for row, (slot, start, end) in zip(table, self._slots):
            numbers = np.arange(start, end)
            if self._seed is not None:
                sequence = np.random.SeedSequence((self._seed, epoch, slot))
                numbers = np.random.RandomState(np.random.MT19937(sequence)).permutation(numbers)
            is_mine = (numbers >= self._first) & (numbers < self._end)
            row[: len(numbers)] = np.where(is_mine, numbers - self._first, -1)
        for step in range(first_step, self.steps):
            column = table[:, step]
            yield column[column >= 0]


def _file() -> IO[bytes]:
    return tempfile.TemporaryFile(prefix="sparkring-", dir=spark_local_directory())


def _differs(name: str, some: dict[str, Any], others: dict[str, Any]) -> bool:
    return bool(some.get(name) != others.get(name))


def _describe(row: Any) -> str:
    return "no array" if row is None else f"shape {row[1]} and type {row[0]}"


def _text(arrays: Arrays) -> str:
    return ", ".join(f"{name} {values.dtype}{values.shape[1:]}" for name, values in arrays.items())
