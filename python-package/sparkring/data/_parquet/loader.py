# SPDX-License-Identifier: Apache-2.0
"""The loader: batches of row groups, as many on every rank."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._agree import agree
from sparkring._communicator import Communicator
from sparkring._core import InvalidError, UnsupportedError
from sparkring._tables.source import rows_of
from sparkring.data._batch import Batch
from sparkring.data._parquet import columns as columns_of
from sparkring.data._parquet import file_system, frameworks
from sparkring.data._parquet import state as states
from sparkring.data._parquet.blocks import Block, Blocks
from sparkring.data._parquet.cache import Cache
from sparkring.data._parquet.deal import Deal
from sparkring.data._parquet.order import Order
from sparkring.data._parquet.reader import Reader
from sparkring.data._parquet.row_groups import RowGroups
from sparkring.data._parquet.state import State
from sparkring.data._stream import Stream

if TYPE_CHECKING:
    from sparkring._tables.source import Chunk
    from sparkring.data._parquet.discovery import Found
    from sparkring.data._parquet.file_system import Location
    from sparkring.data._parquet.order import Interval
    from sparkring.data._schema import Field


class Loader:
    """The batches of Parquet files. Each iteration is one epoch.

    `parquet` returns it. A loader is a context manager. `close` ends the thread that reads ahead,
    and so does a loader that is no longer used.

    Attributes
    ----------
    epoch : int
        The number of the epoch that the next iteration begins or continues, from 0 on.
    rows : int
        The number of rows of an epoch, of all ranks.
    """

    def __init__(self, comm: Communicator, found: Found) -> None:
        self._comm = comm
        self._options, self._manifest, self._columns = found
        self._nothing = self._columns.nothing()
        self._groups = self._manifest.groups()[:, 2]
        self.rows = int(self._groups.sum())
        self._marks = {
            "seed": self._options["seed"],
            "shuffle": self._options["shuffle"],
            "version": self._manifest.version,
            "files": self._manifest.digest(),
        }
        self._location, self._cache, self._state = agree(comm, self._prepare)
        self._deal = self._deal_of(self._state)
        self._step = 0
        self._iterations = 0  # that have begun
        self._runs = self._over = self._closed = False  # the last iteration; its epoch; the loader
        self._reader: Reader | None = None
        self._reads = -1  # the epoch at whose start the reader is, or -1
        has_bytes = any(field.dtype == columns_of.BYTES for field in self._columns.fields)
        self._as_they_are = ("arrow",) if has_bytes else ("arrow", "numpy")
        self._all_rows = np.ones(self._options["batch_size"], bool)
        self._all_rows.flags.writeable = False

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of batches of this epoch or, between epochs, of the next epoch."""
        return (self._deal if self._runs else self._deal_of(self._next())).steps

    def __iter__(self) -> Iterator[Batch]:
        """Begin the next epoch, or again an epoch that was left after its first batch."""
        return self._batches(self._options["as_"])

    @property
    def epoch(self) -> int:
        """The number of the epoch that the next iteration begins or continues."""
        return self._next().epoch

    def state(self, step: int | None = None) -> dict[str, Any]:
        """Return how far this epoch got, the same on every rank. Not a collective.

        Parameters
        ----------
        step : int, optional
            The number of batches of this iteration that count as taken. By default all batches that
            the iteration has yielded. Pass it where batches are taken ahead, as by ``tf.data``.

        Returns
        -------
        dict
            Numbers and strings, to save with a checkpoint. `parquet` takes it as ``state``, also on
            another number of ranks or with another batch size.
        """
        step = self._step if step is None else step
        if step >= self._deal.steps and self._iterations:
            return states.write(State(self._state.epoch + 1), self._marks)
        return states.write(self._state.after(self._comm.size, self._deal.row(step)), self._marks)

    def tf_dataset(self) -> Any:
        """Make a ``tf.data.Dataset`` of dicts of tensors. Each iteration over it is one epoch.

        Returns
        -------
        tf.data.Dataset
            Its elements have a tensor by name. Its cardinality is the number of batches, so Keras
            knows the number of steps, unless the first epoch is continued in its middle.

        Raises
        ------
        InvalidError
            When the loader makes batches of Arrow, or columns hold times.
        """
        if self._options["as_"] == "arrow":
            raise InvalidError('a loader with as_="arrow" makes no tensors: leave out as_')
        frameworks.check_fields("tensorflow", self._columns.fields)
        import tensorflow as tf  # type: ignore[import-untyped, import-not-found, unused-ignore]

        def specification(field: Field) -> Any:
            is_bytes = field.dtype == columns_of.BYTES
            return tf.TensorSpec((None, *field.shape), tf.string if is_bytes else field.dtype)

        signature = {str(field.name): specification(field) for field in self._columns.fields}
        dataset = tf.data.Dataset.from_generator(
            lambda: map(dict, self._batches("numpy")), output_signature=signature
        )
        if not self._next().segments:
            dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(self)))
        return dataset

    def close(self) -> None:
        """End the thread that reads ahead, and close the files."""
        self._closed = True
        self._end_reader()

    def _prepare(self) -> tuple[Location, Cache | None, State]:
        """Find what may be missing on a single rank."""
        location = file_system.find(self._manifest.url, self._options["filesystem"])
        directory = self._options["cache"]
        cache = None if directory is None else Cache(directory, self._manifest)
        return location, cache, states.read(self._options["state"], self._marks, self.rows)

    def _deal_of(self, state: State) -> Deal:
        batch_size, equalize = self._options["batch_size"], self._options["equalize"]
        return Deal(self.rows, list(state.segments), self._comm.size, batch_size, equalize)

    # ---- The reader

    def _reader_at(self, epoch: int) -> Reader:
        """Return a reader that is at the start of this epoch, or where it is continued."""
        if self._reader is None or self._reads != epoch:
            self._end_reader()
            row_groups = RowGroups(self._manifest, self._location, self._cache)
            order = Order(self._groups, self._options["shuffle"], self._options["seed"])
            blocks = _blocks(
                Blocks(order, row_groups, self._columns),
                range(epoch, self._options["epochs"])
                if self._options["epochs"] is not None
                else itertools.count(epoch),
                self._deal.intervals(self._comm.rank),
                self._deal_of(State()).intervals(self._comm.rank),
            )
            self._reader = Reader(blocks)
            self._unused = weakref.finalize(self, self._reader.stop)
        self._reads = -1
        return self._reader

    def _end_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            self._unused.detach()
            reader.close()

    # ---- Batches

    def _next(self) -> State:
        """Return the state at the start of the next iteration.

        Frameworks take a first batch to see its shapes, and then begin again. So an iteration that
        has been left after its first batch at the latest does not count as an epoch.
        """
        if not self._iterations or (self._step <= 1 and not self._over):
            return self._state
        return State(self._state.epoch + 1)

    def _begin(self) -> State:
        """Begin an epoch."""
        state, epochs = self._next(), self._options["epochs"]
        if self._closed:
            raise InvalidError("the loader is closed: make another one")
        if epochs is not None and state.epoch >= epochs:
            raise InvalidError(
                f"this is epoch {state.epoch + 1} of {epochs}: pass a larger epochs=, or None for"
                " any number"
            )
        self._state, self._deal = state, self._deal_of(state)
        self._iterations += 1
        self._runs, self._over, self._step = True, False, 0
        return state

    def _batches(self, as_: str) -> Generator[Batch, None, None]:
        epoch = self._begin().epoch
        iteration = self._iterations
        reader = self._reader_at(epoch)
        rows = Stream(_arrays(reader))
        try:
            for step in range(self._deal.steps):
                self._check_current(iteration)
                batch = self._batch(rows, epoch, step, as_)
                self._step = step + 1
                yield batch
            self._check_current(iteration)
            self._take(rows, 0)
            self._reads, self._over = epoch + 1, True
        finally:
            if self._iterations == iteration:
                self._runs = False
            if self._reads != epoch + 1 and self._reader is reader:
                self._end_reader()

    def _check_current(self, iteration: int) -> None:
        if self._closed:
            raise InvalidError("the loader is closed: make another one")
        if self._iterations != iteration:
            raise InvalidError("this iteration is over, because a later iteration has begun")

    def _batch(self, rows: Stream, epoch: int, step: int, as_: str) -> Batch:
        own = self._deal.own(self._comm.rank, step)
        count = self._options["batch_size"] if self._options["equalize"] == "pad" else own
        arrays = self._take(rows, count) if count else self._nothing
        mask: Any = self._all_rows[:own]
        if count > own:
            mask = np.arange(count) < own
        if as_ not in self._as_they_are:
            arrays, mask = frameworks.convert(arrays, as_), frameworks.convert({"": mask}, as_)[""]
        return Batch(arrays, mask, own, self._deal.total(step), epoch, step)

    def _take(self, rows: Stream, count: int) -> Chunk:
        """Take rows; with 0, take the end of the epoch."""
        iteration = self._iterations
        try:
            taken = rows.take(count or 1) or {}
        except UnsupportedError:  # this process is a fork
            raise
        except Exception as error:
            self._check_current(iteration)
            kind = "" if isinstance(error, InvalidError) else f"{type(error).__name__}: "
            raise self._failed(f"{kind}{error}") from error.__cause__
        found = rows_of(taken) if taken else 0
        if found != count:
            self._check_current(iteration)
            raise self._failed(f"the reader has {found} rows of {count}: report this defect")
        return taken

    def _failed(self, text: str) -> InvalidError:
        """Abort, because the other ranks wait for this rank's batch; return the error to raise."""
        rank = self._comm.rank
        failure = InvalidError(f"rank {rank} ({self._comm.hosts[rank]}): {text}")
        failure.rank = rank
        if self._comm.size > 1:
            self._comm.abort(str(failure))
        return failure


# ---- Without the loader, so that the thread does not keep it -------------------------------------


def _blocks(
    blocks: Blocks, epochs: Any, first: list[Interval], later: list[Interval]
) -> Generator[Block, None, None]:
    """Yield the blocks of all epochs."""
    try:
        for epoch in epochs:
            yield from blocks.epoch(epoch, first)
            first = later
    finally:
        blocks.close()


def _arrays(reader: Reader) -> Iterator[Chunk]:
    """Yield the blocks of an epoch."""
    while (block := reader.get()) is not None and block.arrays is not None:
        arrays = block.arrays
        del block
        yield arrays
        del arrays
