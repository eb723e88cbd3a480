# SPDX-License-Identifier: Apache-2.0
"""The three ways of the rows to a rank: kept in files, read from Parquet files, or streamed.

Each way has batches for training and for validation. `Kept` takes the same batches with any number
of ranks. The batches of the other ways depend on the number of ranks, because each rank reads rows
that lie together.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._communicator import Communicator
from sparkring._core import InvalidError
from sparkring._tables import number
from sparkring._tables.arrow import from_arrow
from sparkring.data import batches, parquet
from sparkring.spark.ml import _batch as batch_of
from sparkring.spark.ml._batch import Batch
from sparkring.spark.ml._columns import BESIDE, VALID, names_of
from sparkring.spark.ml._shard import Order, Shard

if TYPE_CHECKING:
    from sparkring.spark.ml._plan import Plan
    from sparkring.spark.ml._shard import Arrays

BUFFER = 8192  # rows of a stream that are shuffled together
LEAST = 2  # rows in a batch; batch normalization fails with one


class Feed:
    """Batches of a rank.

    Attributes
    ----------
    steps : int or None
        The number of steps of an epoch, if it is known.
    """

    steps: int | None = None

    def sample(self) -> list[Any]:
        """Return the inputs of a row or more, the same shapes on all ranks. A collective."""
        raise NotImplementedError

    def epoch(self, epoch: int, first_step: int) -> Iterator[Batch]:
        """Yield the batches of an epoch, the same number on all ranks, from a step on."""
        raise NotImplementedError

    def state(self) -> Any:
        """Return what is needed to go on after the last batch, beside epoch and step."""
        return None

    def close(self) -> None:
        """End threads, and close files."""


class Kept(Feed):
    """Rows in files of the rank's host. Its state is the digest of the rows of all ranks."""

    def __init__(self, shard: Shard, plan: Plan, *, is_training: bool) -> None:
        self._shard, self._pads = shard, plan.module.Learner.pads
        seed = plan.seed if is_training and plan.shuffle else None
        self._order = Order(shard, plan.batchSize, seed)
        self.steps = self._order.steps

    def sample(self) -> list[Any]:
        """Return the inputs of the first row."""
        return batch_of.make(self._shard.spare, 1, 1).inputs

    def epoch(self, epoch: int, first_step: int) -> Iterator[Batch]:
        """Yield the batches."""
        count = self._order.width if self._pads else LEAST
        for step, rows in enumerate(self._order.epoch(epoch, first_step), first_step):
            yield batch_of.make(*self._shard.take(rows, count), self._order.total(step))

    def state(self) -> Any:
        """Return the digest."""
        return self._shard.digest


class Read(Feed):
    """Rows that are read from Parquet files each epoch."""

    def __init__(
        self, comm: Communicator, path: str, plan: Plan, state: Any, *, is_training: bool
    ) -> None:
        self._comm, self._path, self._plan = comm, path, plan
        self._loader = parquet(
            path,
            comm,
            per_rank(plan, comm),
            shuffle=is_training and plan.shuffle,
            seed=plan.seed,
            epochs=None,
            state=state,
            equalize="pad",
        )
        self.rows, self.steps = self._loader.rows, len(self._loader)

    def sample(self) -> list[Any]:
        """Return the inputs of a row."""
        with parquet(self._path, self._comm, 1, equalize="pad") as loader:
            return self._make(next(iter(loader))).inputs

    def epoch(self, epoch: int, first_step: int) -> Iterator[Batch]:
        """Yield the batches. The state of the loader has the step.

        After the last step of an epoch the loader is in the next epoch.
        """
        return map(self._make, () if self._loader.epoch > epoch else self._loader)

    def state(self) -> Any:
        """Return the state of the loader."""
        return self._loader.state()

    def close(self) -> None:
        """End the thread of the loader."""
        self._loader.close()

    def _make(self, batch: Any) -> Batch:
        return batch_of.make(transform(batch, self._plan), batch.rows, batch.total)


class Stream(Feed):
    """Rows as Spark computes them, for one epoch."""

    def __init__(self, comm: Communicator, tables: Iterator[Any], plan: Plan, epoch: int) -> None:
        buffer = BUFFER if plan.shuffle else 0
        seed = plan.seed + epoch
        options = {"shuffle_buffer": buffer, "seed": seed, "equalize": "pad"}
        found = iter(batches(tables, comm, per_rank(plan, comm), **options))
        self._first = next(found, None)
        self._batches = itertools.chain([] if self._first is None else [self._first], found)

    def sample(self) -> list[Any]:
        """Return the inputs of the first batch."""
        return self._make(self._first).inputs

    def epoch(self, epoch: int, first_step: int) -> Iterator[Batch]:
        """Yield the batches; after a restart, pass over those that have been taken."""
        return map(self._make, itertools.islice(self._batches, first_step, None))

    @property
    def is_empty(self) -> bool:
        """Whether no rank has a row."""
        return self._first is None

    def _make(self, batch: Any) -> Batch:
        return batch_of.make(dict(batch), batch.rows, batch.total)


# ---- Ways ----------------------------------------------------------------------------------------


def spill(comm: Communicator, rows: Iterable[Any], plan: Plan) -> tuple[Feed, Feed | None]:
    """Keep the rows of this rank in files."""
    train, valid = Shard(), Shard()
    for batch in filter(len, rows):
        for shard, part in zip((train, valid), split(read(batch, plan))):
            if part:
                shard.append(part)
    train.close(comm)
    check_rows(train.total)
    return Kept(train, plan, is_training=True), held(comm, valid, plan)


def stream(comm: Communicator, rows: Iterable[Any], plan: Plan, epoch: int) -> tuple[Feed, Shard]:
    """Pass the rows on, except the rows for validation, which are kept in files."""
    valid = Shard()

    def tables() -> Iterator[Any]:
        for batch in filter(len, rows):
            train, held_out = split(read(batch, plan))
            if held_out:
                valid.append(held_out)
            if train:
                yield to_arrow(train)

    feed = Stream(comm, tables(), plan, epoch)
    check_rows(not feed.is_empty)
    return feed, valid


def files(
    comm: Communicator, paths: tuple[str, str | None], plan: Plan, state: Any
) -> tuple[Feed, Feed | None]:
    """Read the rows from Parquet files."""
    train = Read(comm, paths[0], plan, state, is_training=True)
    check_rows(train.rows)
    valid = None
    if paths[1] is not None:
        valid = Read(comm, paths[1], plan, None, is_training=False)
    return train, valid if valid and valid.rows else None


def held(comm: Communicator, shard: Shard, plan: Plan) -> Feed | None:
    """Return the rows for validation, if there are any. A collective."""
    shard.close(comm)
    return Kept(shard, plan, is_training=False) if shard.total else None


def per_rank(plan: Plan, comm: Communicator) -> int:
    """Return the rows of a rank in a step."""
    return int(-(-plan.batchSize // comm.size))


def check_rows(rows: int) -> None:
    """Refuse a table without rows."""
    if not rows:
        raise InvalidError(
            "the table has no rows to train on: check its filters, and validation, which takes rows"
            " out of the training"
        )


# ---- Arrays --------------------------------------------------------------------------------------


def read(batch: Any, plan: Plan, missing: float | None = None) -> Arrays:
    """Make arrays of a record batch of Arrow. A number may replace nulls of the inputs."""
    arrays = {}
    inputs = names_of(len(plan.inputCols))
    for name, column in zip(batch.schema.names, batch.columns):
        try:
            arrays[name] = from_column(column, missing if name in inputs else None)
        except InvalidError as error:
            given = {other: plan.settings.get(param) for other, param in BESIDE.items()}
            given.update(zip(inputs, plan.inputCols))
            text = number.without_arguments(error)
            raise InvalidError(f"column {given[name]!r}: {text}") from error.__cause__
    return transform(arrays, plan)


def from_column(column: Any, missing: float | None) -> Any:
    """Make an array of a column; of objects for bytes and strings."""
    kind = str(column.type)
    if kind.endswith(("binary", "string")):
        values = np.empty(len(column), object)
        values[:] = column.to_pylist()
        return values
    return from_arrow(column, missing)


def transform(arrays: Any, plan: Plan) -> Arrays:
    """Apply the function of the user to the inputs."""
    given = [arrays[name] for name in names_of(len(plan.inputCols))]
    plan.shapes = [list(values.shape[1:]) for values in given]
    inputs = apply(plan.transformation, plan.inputCols, given)
    result = dict(zip(names_of(len(inputs)), inputs))
    result.update({name: arrays[name] for name in BESIDE if name in arrays})
    return result


def apply(transformation: Any, names: list[str], inputs: list[Any]) -> list[Any]:
    """Apply the function of the user; return the inputs of the network."""
    if transformation is None:
        return inputs
    found = transformation(dict(zip(names, inputs)))
    if not isinstance(found, dict):
        raise InvalidError(
            f"transformation returned a value of type {type(found).__name__}: return a dict of"
            " arrays, the inputs of the network in their order"
        )
    for name, values in found.items():
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
            raise InvalidError(
                f"transformation returned {type(values).__name__} for {name!r}: return an array of"
                " numbers with a row for each row"
            )
        if len(values) != len(inputs[0]):
            raise InvalidError(
                f"transformation returned {len(values)} rows of {name!r} for {len(inputs[0])} rows:"
                " return a row for each row, and drop rows in Spark"
            )
    return list(found.values())


def split(arrays: Arrays) -> tuple[Arrays, Arrays]:
    """Split rows into those for training and those for validation."""
    mark = arrays.pop(VALID, None)
    if mark is None:
        return arrays, {}
    is_valid = mark.astype(bool)
    parts = tuple(
        {name: values[chosen] for name, values in arrays.items()} if chosen.any() else {}
        for chosen in (~is_valid, is_valid)
    )
    return parts[0], parts[1]


def to_arrow(arrays: Arrays) -> Any:
    """Make a record batch of arrays."""
    import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]

    columns = []
    for values in arrays.values():
        column = pyarrow.array(np.ascontiguousarray(values).reshape(-1))
        for width in reversed(values.shape[1:]):
            column = pyarrow.FixedSizeListArray.from_arrays(column, width)
        columns.append(column)
    return pyarrow.RecordBatch.from_arrays(columns, list(arrays))
