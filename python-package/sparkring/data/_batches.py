# SPDX-License-Identifier: Apache-2.0
"""Batches of a partition, the same number on all ranks.

Collectives in a training loop require that every rank takes every step. But partitions differ in
length, and a rank knows the length of its partition only at its end. So before each batch the ranks
add up their numbers of rows: one allreduce of eight bytes. The sum decides on all ranks alike
whether the epoch ends. From the second epoch on all lengths are known, and nothing is sent.

The three ways differ in the number that a rank adds. ``pad`` and ``join`` add the rank's rows and
end when the sum is 0. ``drop`` adds the rows of full batches only and ends when a full batch is
missing. The sum is also the `total` of the batch, so a mean over all ranks needs no further call.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._arguments import check_choice, check_communicator, check_whole
from sparkring._communicator import Communicator
from sparkring._core import InvalidError
from sparkring._tables import source
from sparkring.data import _schema as schema
from sparkring.data._arguments import check_dtypes, check_missing
from sparkring.data._batch import Batch, tensors
from sparkring.data._store import Store
from sparkring.data._stream import Shuffled, Stream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._tables.source import Chunk

WAYS = ("pad", "drop", "join", None)
KINDS = ("numpy", "torch")
logger = logging.getLogger("sparkring")


class Batches:
    """The batches of a partition. Each iteration is one epoch.

    `batches` returns it.
    """

    def __init__(self, rows: Any, comm: Communicator, options: dict[str, Any]) -> None:
        self._comm = comm
        self._size: int = options["batch_size"]
        self._equalize: str | None = options["equalize"]
        self._epochs: int | None = options["epochs"]
        self._shuffle: int = options["shuffle_buffer"]
        self._seed: int = options["seed"]
        self._tensors: bool = options["as_"] == "torch"
        self._epoch = -1
        self._counts: NDArray[np.int64] | None = None  # rows of each rank; None while unknown
        self._sum = np.zeros(1, np.int64)
        self._all_rows = np.ones(self._size, bool)
        self._all_rows.flags.writeable = False
        chunks = source.chunks(rows, options["columns"], options["missing"])
        first = self._agree(chunks, options)
        self._store = None if self._epochs == 1 else Store(self._fields, options["memory"])
        self._spark_chunks = self._fitted(itertools.chain(first, chunks))

    def __iter__(self) -> Iterator[Batch]:
        """Begin the next epoch. A collective."""
        return self._batches()

    # ---- Before the first batch

    def _agree(self, chunks: Iterator[Chunk], options: dict[str, Any]) -> list[Chunk]:
        """Find the fields; return a list of the first chunk, empty where there is no chunk."""
        first, fields, failure = [], None, None
        try:
            first = list(itertools.islice(chunks, 1))
            fields = schema.fields_of(first[0], options["dtype"]) if first else None
        except InvalidError as error:
            failure = error
        names = ("batch_size", "equalize", "epochs")
        rows = source.rows_of(first[0]) if first else 0
        report = schema.Report(
            {name: options[name] for name in names}, fields, rows, str(failure) if failure else None
        )
        reports = schema.exchange(self._comm, report)
        try:
            self._fields = schema.agree(reports)
        except InvalidError as error:
            raise error from failure
        self._reserve = self._repeated(first, [report.rows for report in reports])
        return first

    def _repeated(self, first: list[Chunk], rows: list[int]) -> Chunk:
        """Copy the rows that ``pad`` repeats. An empty rank gets the rows of another rank."""
        if self._equalize != "pad" or not any(rows):
            return {}
        mine: Chunk = {}
        if first:
            some = {name: values[: self._size] for name, values in first[0].items()}
            mine = {name: np.array(values) for name, values in self._fit(some).items()}
        if all(rows):
            return mine
        owner = next(rank for rank, count in enumerate(rows) if count)
        theirs = mine
        if self._comm.rank != owner:
            count = min(rows[owner], self._size)
            theirs = {field.name: field.empty(count) for field in self._fields}
        for values in theirs.values():
            raw = values.reshape(-1).view(np.uint8)
            self._comm.broadcast(raw, owner, out=raw)
        return mine or theirs

    def _fit(self, chunk: Chunk) -> Chunk:
        try:
            return schema.fit(chunk, self._fields)
        except InvalidError as error:
            raise self._failed(error) from error

    def _failed(self, error: InvalidError) -> InvalidError:
        """Abort, because the other ranks wait for this rank's rows; return the error to raise."""
        failure = schema.error_of(self._comm.rank, str(error))
        if self._equalize is not None:
            self._comm.abort(str(failure))
        return failure

    # ---- Rows

    def _fitted(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Yield the chunks of Spark, which come once only, and keep them if there is a store."""
        while True:
            try:
                chunk = next(chunks, None)
            except InvalidError as error:
                raise self._failed(error) from error
            if chunk is None:
                return
            chunk = self._fit(chunk)
            if self._store is not None:
                self._store.append(chunk)
            yield chunk

    def _begin(self) -> Iterator[Chunk]:
        """Begin an epoch: find its chunks."""
        self._epoch += 1
        if self._epochs is not None and self._epoch >= self._epochs:
            raise InvalidError(
                f"this is epoch {self._epoch + 1} of {self._epochs}: pass a larger epochs= (or None"
                " for any number), so that the rows are kept"
            )
        if self._epoch == 0 or self._store is None:
            return self._spark_chunks
        for _ in self._spark_chunks:  # the rest of the first epoch
            pass
        if self._counts is None and self._equalize is not None:
            self._counts = self._comm.allgather(np.array([self._store.rows])).ravel()
        return self._store.chunks()

    # ---- Batches

    def _batches(self) -> Iterator[Batch]:
        stream = Stream(self._begin())
        epoch = self._epoch
        rows: Stream | Shuffled = stream
        if self._shuffle:
            random = np.random.default_rng((self._seed, self._comm.rank, epoch))
            rows = Shuffled(stream, self._shuffle, random)
        for step in itertools.count():
            if epoch != self._epoch:
                raise InvalidError(f"epoch {epoch} is over, because a later epoch has begun")
            chunk = rows.take(self._size)
            count = 0 if chunk is None else source.rows_of(chunk)
            total = self._total(step, count)
            if self._ends(count, total):
                if self._equalize == "drop" and step == 0:
                    self._warn(count)
                return
            yield self._batch(chunk, count, total, epoch, step)

    def _total(self, step: int, count: int) -> int | None:
        """Add up the rows that the ranks have for this step."""
        if self._equalize is None:
            return None
        if self._counts is not None:
            left = np.clip(self._counts - step * self._size, 0, self._size)
            return int(self._counted(left).sum())
        self._sum[0] = self._counted(np.array(count))
        self._comm.allreduce(self._sum, out=self._sum)
        return int(self._sum[0])

    def _counted(self, rows: NDArray[Any]) -> NDArray[Any]:
        return np.where(rows == self._size, rows, 0) if self._equalize == "drop" else rows

    def _ends(self, count: int, total: int | None) -> bool:
        if total is None:
            return count == 0
        return total < (self._comm.size * self._size if self._equalize == "drop" else 1)

    def _batch(
        self, chunk: Chunk | None, count: int, total: int | None, epoch: int, step: int
    ) -> Batch:
        if chunk is None:
            chunk = {field.name: field.empty(0) for field in self._fields}
        mask = self._all_rows[:count]
        if self._equalize == "pad" and count < self._size:
            chunk = {name: self._padded(name, values) for name, values in chunk.items()}
            mask = np.arange(self._size) < count
        if not self._tensors:
            return Batch(chunk, mask, count, total, epoch, step)
        arrays = tensors({**chunk, "": mask})
        mask = arrays.pop("")
        return Batch(arrays, mask, count, total, epoch, step)

    def _padded(self, name: Any, values: NDArray[Any]) -> NDArray[Any]:
        repeated = self._reserve[name]
        places = np.arange(self._size - len(values)) % len(repeated)
        return np.concatenate([values, repeated[places]])

    def _warn(self, count: int) -> None:
        counts = self._comm.allgather(np.array([count])).ravel()
        if self._comm.rank == 0:
            short = ", ".join(f"rank {rank}" for rank in np.flatnonzero(counts < self._size)[:20])
            logger.warning(
                'no batch at all: equalize="drop" ends where the first rank has no full batch left,'
                f" and fewer than batch_size={self._size} rows are on {short}."
                ' Repartition, or pass a smaller batch_size, or equalize="pad" or "join"'
            )


def batches(
    rows: Any,
    comm: Communicator,
    batch_size: int,
    *,
    columns: Any = None,
    dtype: Any = None,
    missing: float | Mapping[Any, float] | None = None,
    shuffle_buffer: int = 0,
    seed: int = 0,
    epochs: int | None = 1,
    equalize: str | None = "pad",
    as_: str = "numpy",
    memory: float = 1 << 30,
) -> Batches:
    """Cut the partition of this task into batches of arrays, as many on every rank.

    Collective: every rank calls it, also a rank with an empty partition. All ranks take all batches
    of an epoch, or leave the epoch after the same batch. The ranks first exchange names, dtypes and
    shapes of their arrays, so a rank without rows has empty arrays of the agreed dtypes and shapes.

    Memory use is the sum of one chunk of Spark (for data frames
    ``spark.sql.execution.arrow.maxRecordsPerBatch`` rows), ``shuffle_buffer`` rows and two batches,
    and with several epochs up to ``memory`` bytes. Where a batch lies within one chunk of Spark,
    its arrays are views of the chunk without a copy, unless they are shuffled, converted or joined
    to a matrix. Views of Arrow's memory are read-only.

    Parameters
    ----------
    rows : iterable
        The argument that Spark passes to the function: the data frames of ``mapInPandas``, the
        record batches of ``mapInArrow``, or the rows of ``RDD.mapPartitions``. Rows may be Row
        objects, dicts, tuples (their columns are called 0, 1 and so on) or single values
        (``"value"``).
    comm : Communicator
        The communicator of the ranks.
    batch_size : int
        The rows of a rank in a step.
    columns : list or dict, optional
        The names of the columns to take. A dict has the name of each array and its column, or a
        list of columns that are joined to a matrix, as in
        ``{"x": ["height", "width"], "y": "label"}``. By default all columns. Columns hold numbers,
        booleans, arrays of numbers or booleans that all have one length, or vectors of Spark ML,
        which become rows of a dense matrix.
    dtype : dtype or dict, optional
        The dtype of the arrays, for all arrays or by name, such as ``"float32"``. By default a
        dtype that holds the values of all ranks.
    missing : float or dict, optional
        The number that replaces nulls, for all columns or by column, as in ``{"age": -1}``. By
        default a null is an error. In a data frame of pandas NaN counts as null. With a float,
        whole numbers and booleans become floats. A number that the dtype of a column with nulls
        cannot hold, such as -1 for booleans, is an error.
    shuffle_buffer : int
        The size of the buffer from which rows are drawn at random. The buffer is filled first, and
        then each drawn row is replaced by the next row. 0 keeps the order of the partition. A
        buffer of at least the size of the partition makes every order equally likely.
    seed : int
        The order follows from the seed, the rank, the epoch and the rows.
    epochs : int or None
        How often the result can be iterated over; None for any number. If it is not 1, rows are
        kept for the next epochs.
    equalize : {"pad", "drop", "join"} or None
        The treatment of ranks with fewer rows. ``"pad"``: all batches are full. A rank that has run
        out repeats its own rows, where `Batch.mask` is False, until all ranks have run out. (A rank
        with an empty partition repeats rows of another rank.) ``"drop"``: all batches are full, and
        all ranks end when the first rank has no full batch left. ``"join"``: a rank that has run
        out gets batches without rows until all ranks have run out, so it can take part in
        collectives. None: every rank takes its own batches, and their numbers differ. Then a loop
        must not call collectives.
    as_ : {"numpy", "torch"}
        NumPy's arrays, or PyTorch's tensors. A tensor shares the memory of a writable array, and is
        a copy of a read-only array.
    memory : float
        The bytes of rows that are kept in memory for the next epochs. Further rows are kept in a
        temporary file.

    Returns
    -------
    Batches
        Each iteration is an epoch. It yields one `Batch` a step, the same number on all ranks.

    Raises
    ------
    InvalidError
        For invalid arguments, and columns that hold nulls, strings or arrays of several lengths.
        The message has the rank, the column and the remedy. An error before the first batch is
        raised on all ranks. A later error is raised on one rank, which aborts the communicator with
        the message.
    MismatchError
        When ranks pass different ``batch_size``, ``epochs`` or ``equalize``.
    PeerLostError, TimeoutError, AbortedError
        As for `Communicator.allreduce`. Each step of the first epoch has one allreduce of eight
        bytes, unless ``equalize`` is None.

    Examples
    --------
    In a function for ``df.mapInPandas(train, schema, barrier=True)``:

    >>> def train(frames):
    ...     with sparkring.init() as comm:
    ...         data = batches(frames, comm, 32, epochs=5, shuffle_buffer=10_000)
    ...         for epoch in range(5):
    ...             for batch in data:
    ...                 weights -= comm.allreduce(gradient_sum(weights, batch)) / batch.total
    """
    options = {
        "batch_size": check_whole("batch_size", batch_size, 1),
        "columns": source.select(columns),
        "dtype": check_dtypes(dtype),
        "missing": check_missing(missing),
        "shuffle_buffer": check_whole("shuffle_buffer", shuffle_buffer, 0),
        "seed": check_whole("seed", seed, 0),
        "epochs": None if epochs is None else check_whole("epochs", epochs, 1),
        "equalize": check_choice("equalize", equalize, WAYS),
        "as_": check_choice("as_", as_, KINDS),
        "memory": memory,
    }
    return Batches(rows, check_communicator(comm), options)
