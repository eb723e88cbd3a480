# SPDX-License-Identifier: Apache-2.0
"""The rows of all ranks, in blocks: of an array or a table in memory, or of batches.

A pass takes all blocks of this rank in their order. An error in a block is raised on all ranks, at
the end of the pass: the rest of the batches is still taken, because batches may be collective.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import numpy as np

from sparkring._agree import agree
from sparkring._communicator import Communicator
from sparkring._core import InvalidError
from sparkring.models import _alike as alike
from sparkring.models._table import (
    Numbers,
    check_finite,
    dense,
    is_batches,
    is_parts,
    is_sparse,
    numbers_in,
    numbers_of,
    weights_in,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sparkring.models._table import Array

HEAD = 1000  # rows of a sample
AGAIN = (
    "pass an iterable that begins again, such as sparkring.data.parquet(..., epochs=None), or a"
    " class with __iter__"
)


class Block(NamedTuple):
    """Some rows of this rank.

    Attributes
    ----------
    x : array of shape (rows, columns)
        The features, which are finite.
    roles : dict of arrays
        Further columns, as they were given.
    weight : array of shape (rows,)
        The weights, from 0 on; 1 without ``sample_weight``.
    first : int
        The number of rows of this rank before the block.
    """

    x: Array
    roles: dict[str, NDArray[Any]]
    weight: Array
    first: int

    def numbers(self, role: str) -> Array:
        """Return a column as numbers; 0 where the role was not given."""
        if role not in self.roles:
            return np.zeros(len(self.x))
        return numbers_in(self.roles[role], role, self.first)


class Rows:
    """The rows of all ranks.

    Attributes
    ----------
    comm : Communicator
        The ranks.
    width : int
        The number of features.
    names, columns : list of str or None
        The names of the features, and of the columns of the table.
    roles : list of str
        The roles that were given.
    """

    def __init__(
        self,
        comm: Communicator,
        x: Any,
        features: Sequence[str] | None,
        roles: Mapping[str, Any],
        settings: Mapping[str, Any],
        required: Sequence[str] = (),
    ) -> None:
        self.comm = comm
        self.columns: list[str] | None = None
        self._second: Any = None
        self._features, self._given = features, roles
        self._batches = x if is_batches(x) else None
        self._streamed = bool(
            comm.allreduce(np.array([int(self._batches is not None)]), op="max")[0]
        )
        self._begun: Any = None  # the iterator of the first batch
        self._of_pass: int | None = None  # rows of all ranks in the first pass
        first = agree(comm, lambda: self._first(x))
        self._numbers = first if self._batches is None else _head(first)
        mine = None
        if first is not None:
            mine = {"columns": first.x.shape[1], "names": first.names, "of": first.columns}
        alike.check_settings(comm, dict(settings))
        found = alike.join(
            comm, "features", mine if first is not None and first.x.shape[0] else None
        )
        if found is None and self._streamed:  # the first batch of every rank is empty
            found = alike.join(comm, "features", mine)
        given = None if first is None else sorted(first.roles)
        self.roles: list[str] = alike.join(comm, "arguments", given)
        if found is None:
            raise InvalidError("there are no rows on any rank")
        self.width: int = found["columns"]
        self.names: list[str] | None = found["names"]
        self.columns = found["of"]
        for role in required:
            if role not in self.roles:
                raise InvalidError(
                    f"{role} is missing: {settings['estimator']} requires {role} to be passed, but"
                    f" the target {role} is None"
                )
        if self.width == 0:
            rows = 0 if first is None else first.x.shape[0]
            raise InvalidError(
                f"X has no columns: 0 feature(s) (shape=({rows}, 0)) while a minimum of 1 is"
                " required: pass rows with features"
            )

    @property
    def streamed(self) -> bool:
        """Whether the rows of a rank are batches; the same on all ranks."""
        return self._streamed

    @property
    def own(self) -> int:
        """The number of rows of this rank, in memory."""
        return 0 if self._numbers is None else int(self._numbers.x.shape[0])

    # ---- Passes

    def each(self, take: Callable[[Block], Any]) -> None:
        """Call ``take`` for every block of this rank. Collective; ``take`` is not.

        Raises
        ------
        Exception
            On every rank, where a block or ``take`` fails on one rank.
        """
        rows = agree(self.comm, lambda: self._take_all(take))
        if not self._streamed:
            return
        total = int(self.comm.allreduce(np.array([rows]))[0])
        if self._of_pass is None:
            self._of_pass = total
        if total != self._of_pass:
            raise InvalidError(
                f"a pass over the batches of all ranks has {total} rows, and the first pass has"
                f" {self._of_pass}: each pass must have all rows, as of"
                ' sparkring.data.parquet(..., epochs=None), without equalize="drop"'
            )

    def total(self, size: int, of_block: Callable[[Block], Any]) -> Array:
        """Sum ``of_block(block)``, `size` numbers, over the blocks of all ranks. Collective."""
        sums = np.zeros(size)

        def add(block: Block) -> None:
            np.add(sums, of_block(block), out=sums)

        self.each(add)
        return self.comm.allreduce(sums)

    def distinct(self, role: str) -> list[Any]:
        """Return the sorted distinct values of a column over all ranks. Collective."""
        found: set[Any] = set()
        self.each(lambda block: found.update(alike.counts_of(block.roles[role], role)))
        return alike.distinct(self.comm, list(found))

    def coded(self, second: Any) -> Rows:
        """Return the same rows with a response of 1 for a class, and 0 otherwise."""
        rows = copy.copy(self)
        rows._second = second
        return rows

    def count(self) -> int:
        """Count the rows with a weight, of all ranks. Collective.

        Raises
        ------
        InvalidError
            If there are none.
        """
        count = int(self.total(1, lambda block: (block.weight > 0).sum())[0])
        check_count(count)
        return count

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of this rank, of rows in memory."""
        numbers = self._numbers
        if numbers is None:
            return
        step = max(1000, min(8000, 2**18 // self.width), 4 * self.width)  # 2 MiB at most, if narrow
        for first in range(0, numbers.x.shape[0], step):
            part = slice(first, first + step)
            roles = {name: values[part] for name, values in numbers.roles.items()}
            yield self._block(numbers._replace(x=numbers.x[part], roles=roles), first)

    def sample(self) -> Block | None:
        """Return the first rows of this rank; None for a rank without rows."""
        head = _head(self._numbers)
        return None if head is None or head.x.shape[0] == 0 else self._block(head, 0)

    def _take_all(self, take: Callable[[Block], Any]) -> int:
        """Call ``take`` for every block, and return the number of rows."""
        if self._batches is None:
            for block in self.blocks():
                take(block)
            return 0 if self._numbers is None else int(self._numbers.x.shape[0])
        failure: Exception | None = None
        first = 0
        batches = iter(self._batches)
        if batches is self._begun:
            failure = InvalidError(f"X does not begin again in each pass: {AGAIN}")
        self._begun = None
        for batch in batches:
            if failure is not None:
                continue
            try:
                numbers = self._read(batch)
                if numbers.x.shape[0]:
                    take(self._block(numbers, first))
                first += numbers.x.shape[0]
            except Exception as error:
                failure = error
        if failure is not None:
            raise failure
        return first

    # ---- In memory

    def _first(self, x: Any) -> Numbers | None:
        """Read the rows, or the first batch; None for a rank without batches."""
        if self._batches is None:
            numbers = numbers_of(x, self._features, self._given)
            check_finite(numbers.x, numbers.names)
            return numbers
        if isinstance(self._batches, Iterator):
            raise InvalidError(f"X is an iterator, which ends after one pass: {AGAIN}")
        if any(role is not None for role in self._given.values()):
            raise InvalidError(
                "X is batches: each batch has its own y and weights, as a tuple (x, y),"
                ' (x, y, weight) or a dict with "x", "y" and "sample_weight"'
            )
        self._begun = iter(self._batches)
        batch = next(self._begun, None)
        if hasattr(self._begun, "close"):  # a generator
            self._begun.close()
        return None if batch is None else self._read(batch)

    def _block(self, numbers: Numbers, first: int) -> Block:
        if self._batches is not None:
            self._check(numbers)
            check_finite(numbers.x, numbers.names, first)
        x = dense(numbers.x)
        weight = np.ones(len(x))
        if "sample_weight" in numbers.roles:
            weight = weights_in(numbers.roles["sample_weight"], first)
        roles = numbers.roles
        if self._second is not None:
            roles = {**roles, "y": np.asarray(roles["y"] == self._second, np.float64)}
        return Block(x, roles, weight, first)

    # ---- Batches

    def _read(self, batch: Any) -> Numbers:
        """Read a batch, without the rows that only fill it up."""
        x, roles = _parts(batch)
        odd = sorted(set(roles) - {"y", *self._given})
        if odd:
            raise InvalidError(
                f"a batch has {odd[0]!r}, which this model does not take: it takes"
                f" {', '.join(['x', *self._given])}"
            )
        numbers = numbers_of(x, self._features or self.columns, roles)
        mask = getattr(batch, "mask", None)
        if mask is not None and not np.all(mask):
            mask = np.asarray(mask)
            roles = {name: values[mask] for name, values in numbers.roles.items()}
            numbers = numbers._replace(x=numbers.x[mask], roles=roles)
        return numbers

    def _check(self, numbers: Numbers) -> None:
        """Refuse a batch that lacks a part of the batches before it."""
        if numbers.columns != self.columns:
            raise InvalidError("a batch is a table, and the batches before it are arrays")
        if numbers.x.shape[1] != self.width:
            raise InvalidError(
                f"a batch has {numbers.x.shape[1]} features, and the batches before it have"
                f" {self.width}"
            )
        if sorted(numbers.roles) != self.roles:
            raise InvalidError(
                f"a batch has {', '.join(['x', *sorted(numbers.roles)])}, and the batches before"
                f" it have {', '.join(['x', *self.roles])}"
            )


def check_count(count: int) -> None:
    """Refuse rows of all ranks of which none has a weight."""
    if count == 0:
        raise InvalidError("there are no rows with a weight on any rank: all weights are zero")


def _head(numbers: Numbers | None) -> Numbers | None:
    """Copy the first rows."""
    if numbers is None:
        return None
    roles = {name: np.array(values[:HEAD]) for name, values in numbers.roles.items()}
    return numbers._replace(x=np.array(dense(numbers.x[:HEAD])), roles=roles)


def _parts(batch: Any) -> tuple[Any, dict[str, Any]]:
    """Split a batch into the features and the roles."""
    if isinstance(batch, tuple) or is_parts(batch):
        if not 1 <= len(batch) <= 3:
            raise InvalidError(
                f"a batch is a tuple of {len(batch)}: it must be (x, y) or (x, y, sample_weight);"
                " a mapping may have further parts by name"
            )
        return batch[0], dict(zip(("y", "sample_weight"), batch[1:]))
    if isinstance(batch, Mapping):
        roles = dict(batch)
        if "x" not in roles:
            raise InvalidError(
                f'a batch has {alike.brief(list(roles))} and no "x": name the features, as by'
                ' columns={"x": [...], "y": "label"}'
            )
        x = roles.pop("x")
        if is_sparse(x):
            return x, roles
        x = np.asarray(x)
        return x.reshape(len(x), int(np.prod(x.shape[1:]))), roles
    return batch, {}
