# SPDX-License-Identifier: Apache-2.0
"""The loader: batches of row groups, as many on every rank."""

from __future__ import annotations

import itertools
import logging
import weakref
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._agree import agree
from sparkring._core import Communicator, InvalidError
from sparkring.data import _schema as schema
from sparkring.data._batch import Batch
from sparkring.data._parquet import columns as columns_of
from sparkring.data._parquet import file_system, frameworks, listing, manifest, spark_table
from sparkring.data._parquet import state as states
from sparkring.data._parquet.blocks import Block, Blocks
from sparkring.data._parquet.cache import Cache
from sparkring.data._parquet.columns import Columns
from sparkring.data._parquet.deal import Deal
from sparkring.data._parquet.order import Order
from sparkring.data._parquet.reader import Reader
from sparkring.data._parquet.row_groups import RowGroups
from sparkring.data._parquet.state import State
from sparkring.data._source import Column
from sparkring.data._stream import Stream

if TYPE_CHECKING:
    from sparkring.data._parquet.file_system import Place
    from sparkring.data._parquet.manifest import Manifest
    from sparkring.data._parquet.order import Interval
    from sparkring.data._schema import Field
    from sparkring.data._source import Chunk

SETTINGS = ("batch_size", "shuffle", "seed", "epochs", "state", "equalize", "as_")
logger = logging.getLogger("sparkring")


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

    def __init__(self, source: Any, comm: Communicator, options: dict[str, Any]) -> None:
        self._comm, self._options = comm, options
        found, fields = self._find(source)
        self._columns, self._nothing = _columns(found, fields, options)
        self._manifest = found
        self._groups = found.groups()[:, 2]
        self.rows = int(self._groups.sum())
        self._marks = {
            "seed": options["seed"],
            "shuffle": options["shuffle"],
            "files": found.digest(),
        }
        self._place, self._cache, self._state = agree(comm, self._prepare)
        self._deal = self._deal_of(self._state)
        self._step = 0
        self._begun = self._runs = self._closed = False
        self._reader: Reader | None = None
        self._reads = -1  # the epoch at whose start the reader is, or -1
        has_bytes = any(field.dtype == columns_of.BYTES for field in self._columns.fields)
        self._as_they_are = ("arrow",) if has_bytes else ("arrow", "numpy")
        self._all_rows = np.ones(options["batch_size"], bool)
        self._all_rows.flags.writeable = False
        self._warn_of_few_groups()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of batches of this epoch or, between epochs, of the next epoch."""
        begins = self._begun and not self._runs
        return (self._deal_of(State()) if begins else self._deal).steps

    def __iter__(self) -> Iterator[Batch]:
        """Begin the next epoch."""
        return self._batches(self._options["as_"])

    @property
    def epoch(self) -> int:
        """The number of the epoch that the next iteration begins or continues."""
        return self._state.epoch + self._begun

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
        if step >= self._deal.steps and self._begun:
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
            When the loader makes batches of Arrow.
        """
        if self._options["as_"] == "arrow":
            raise InvalidError('a loader with as_="arrow" makes no tensors: leave out as_')
        import tensorflow as tf  # type: ignore[import-untyped, import-not-found, unused-ignore]

        def specification(field: Field) -> Any:
            is_bytes = field.dtype == columns_of.BYTES
            return tf.TensorSpec((None, *field.shape), tf.string if is_bytes else field.dtype)

        signature = {str(field.name): specification(field) for field in self._columns.fields}
        dataset = tf.data.Dataset.from_generator(
            lambda: map(dict, self._batches("numpy")), output_signature=signature
        )
        if self._begun or not self._state.stretches:
            dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(self)))
        return dataset

    def close(self) -> None:
        """End the thread that reads ahead, and close the files."""
        self._closed = True
        self._end_reader()

    # ---- Before the first batch

    def _find(self, source: Any) -> tuple[Manifest, dict[str, Any]]:
        """Find the files and fields on rank 0, and send them to all ranks."""
        found = failure = None
        try:
            frameworks.check(self._options["as_"])
            if self._comm.rank == 0:
                found = _found(source, self._options)
        except Exception as error:
            failure = error
        settings = {name: self._options[name] for name in SETTINGS}
        settings["columns"] = repr(self._options["columns"])
        text = None if failure is None else str(failure) or type(failure).__name__
        reports = schema.exchange(self._comm, schema.Report(settings, None, 0, text))
        try:
            schema.agree(reports)
        except InvalidError as error:
            raise error from failure
        return manifest.broadcast(self._comm, *(found or (None, None)))

    def _prepare(self) -> tuple[Place, Cache | None, State]:
        """Find what may be missing on a single rank."""
        place = file_system.find(self._manifest.url, self._options["filesystem"])
        directory = self._options["cache"]
        cache = None if directory is None else Cache(directory, self._manifest)
        return place, cache, states.read(self._options["state"], self._marks, self.rows)

    def _deal_of(self, state: State) -> Deal:
        batch_size, equalize = self._options["batch_size"], self._options["equalize"]
        return Deal(self.rows, list(state.stretches), self._comm.size, batch_size, equalize)

    def _warn_of_few_groups(self) -> None:
        twice = (self._comm.size - 1) * max(1, self._options["shuffle"])
        if self._comm.rank == 0 and 0 < len(self._groups) < 2 * twice:
            logger.warning(
                f"the files have {len(self._groups)} row groups, which are few for"
                f" {self._comm.size} ranks and shuffle={self._options['shuffle']}: several ranks"
                " read the same row groups. Write smaller row groups, or pass a smaller shuffle"
            )

    # ---- The reader

    def _reader_at(self, epoch: int) -> Reader:
        """Return a reader that is at the start of this epoch, or where it is continued."""
        if self._reader is None or self._reads != epoch:
            self._end_reader()
            row_groups = RowGroups(self._manifest, self._place, self._cache)
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
            weakref.finalize(self, self._reader.close)
        self._reads = -1
        return self._reader

    def _end_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    # ---- Batches

    def _begin(self) -> int:
        """Begin an epoch."""
        epoch, epochs = self.epoch, self._options["epochs"]
        if self._closed:
            raise InvalidError("the loader is closed: make another one")
        if epochs is not None and epoch >= epochs:
            raise InvalidError(
                f"this is epoch {epoch + 1} of {epochs}: pass a larger epochs=, or None for any"
                " number"
            )
        if self._begun:
            self._state = State(epoch)
            self._deal = self._deal_of(self._state)
        self._begun, self._runs, self._step = True, True, 0
        return epoch

    def _batches(self, as_: str) -> Generator[Batch, None, None]:
        epoch = self._begin()
        reader = self._reader_at(epoch)
        rows = Stream(_arrays(reader))
        try:
            for step in range(self._deal.steps):
                if self._state.epoch != epoch:
                    raise InvalidError(f"epoch {epoch} is over, because a later epoch has begun")
                batch = self._batch(rows, epoch, step, as_)
                self._step = step + 1
                yield batch
            self._take(rows, 1)  # the end of the epoch
            self._reads = epoch + 1
        finally:
            if self._state.epoch == epoch:
                self._runs = False
            if self._reads != epoch + 1 and self._reader is reader:
                self._end_reader()

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
        try:
            return rows.take(count) or {}
        except InvalidError as error:
            raise self._failed(error) from error.__cause__

    def _failed(self, error: InvalidError) -> InvalidError:
        """Abort, because the other ranks wait for this rank's batch; return the error to raise."""
        rank = self._comm.rank
        failure = InvalidError(f"rank {rank} ({self._comm.hosts[rank]}): {error}")
        failure.rank = rank
        if self._comm.size > 1:
            self._comm.abort(str(failure))
        return failure


# ---- Without the loader, so that the thread does not keep it -------------------------------------


def _found(source: Any, options: dict[str, Any]) -> tuple[Manifest, dict[str, Any]]:
    """Find the files, and the fields of their first row, on rank 0."""
    if spark_table.is_frame(source):
        source = spark_table.write_parquet(source)
    wanted = columns_of.names(options["columns"])
    files = listing.find(source, options["filesystem"])
    found = manifest.find(files, wanted)
    row_groups = RowGroups(found, files.place, None)
    try:
        if not len(found.groups()):
            return found, {}
        columns = Columns(_selected(found, options), options["missing"], options["as_"] == "arrow")
        with row_groups.named(0):
            table = row_groups.sample()
            fields = columns.describe(table, options["dtype"])
    finally:
        row_groups.close()
    texts = [[name, dtype.str, shape] for name, dtype, shape in fields]
    return found, {"fields": texts, "schema": bytes(table.schema.serialize()).hex()}


def _selected(found: Manifest, options: dict[str, Any]) -> list[Column]:
    names = [*found.columns, *found.types]
    return options["columns"] or [Column(name, (name,), False) for name in names]


def _columns(
    found: Manifest, fields: dict[str, Any], options: dict[str, Any]
) -> tuple[Columns, Chunk]:
    """Make the columns of a batch, and a batch without rows."""
    import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]

    columns = Columns(_selected(found, options), options["missing"], options["as_"] == "arrow")
    if not fields:
        return columns, {}
    columns.fields = [
        schema.Field(name, np.dtype(dtype), tuple(shape)) for name, dtype, shape in fields["fields"]
    ]
    of_table = pyarrow.ipc.read_schema(pyarrow.py_buffer(bytes.fromhex(fields["schema"])))
    return columns, columns.nothing(of_table)


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
