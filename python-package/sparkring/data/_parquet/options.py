# SPDX-License-Identifier: Apache-2.0
"""`parquet`: its arguments."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sparkring._arguments import check_choice, check_communicator, check_whole
from sparkring._core import InvalidError, UnsupportedError
from sparkring._tables import source
from sparkring.data._arguments import check_dtypes, check_missing
from sparkring.data._parquet import discovery
from sparkring.data._parquet.loader import Loader

if TYPE_CHECKING:
    import os

    from sparkring._communicator import Communicator

WAYS = ("pad", "drop", "join")
KINDS = ("numpy", "torch", "tensorflow", "jax", "arrow")
WINDOW = 4  # row groups of shuffle=True


def parquet(
    path_or_frame: Any,
    comm: Communicator,
    batch_size: int,
    *,
    columns: Any = None,
    dtype: Any = None,
    missing: float | str | bytes | Mapping[str, float | str | bytes] | None = None,
    shuffle: bool | int = False,
    seed: int = 0,
    epochs: int | None = 1,
    state: Mapping[str, Any] | None = None,
    equalize: str = "pad",
    as_: str = "numpy",
    cache: str | os.PathLike[str] | None = None,
    filesystem: Any = None,
    version: int | None = None,
) -> Loader:
    """Read Parquet files as batches, each row on one rank, as many batches on every rank.

    Collective: every rank calls it. Rank 0 lists the files and their row groups, and sends the list
    to all ranks. Each rank then reads its own row groups with pyarrow, past Spark, and no batch
    needs a message. Of N rows every rank has the N-th part, rounded up or down, so the number of
    batches is known (``len``). Each row is in one batch of an epoch.

    The rows of an epoch have an order that does not depend on the number of ranks. So a job can go
    on within an epoch on another number of ranks (``state``).

    A thread of each rank reads ahead: two row groups or, where more than two are shuffled together,
    as many as are shuffled. A rank needs the memory of the row groups that are shuffled, twice, and
    of one further row group: of their decoded columns, as far as they are taken. Rank 0 warns where
    this is more than 500 MB. Without a shuffle, large row groups are decoded in parts of 8 MB. The
    thread ends with the loader: use ``with``.

    Parameters
    ----------
    path_or_frame : str, path, list, DataFrame or table
        A Parquet file or a directory of files, a list of paths, or a table of Delta Lake or
        Iceberg. Ranks other than 0 may pass None. Paths are local, or URLs of HDFS, S3, Google
        Cloud Storage, Azure (``hdfs://``, ``s3://``, ``gs://``, ``abfss://``) or any other that
        fsspec knows. A directory ``year=2024`` gives its files a column ``year``. Delta Lake needs
        the package deltalake, and Iceberg pyiceberg; a table that pyiceberg has loaded from a
        catalog may be passed itself. A DataFrame of Spark is first written by `write_parquet`,
        which also takes the directory; this works in the process that has the Spark session.
    comm : Communicator
        The communicator of the ranks.
    batch_size : int
        The rows of a rank in a step.
    columns : list or dict, optional
        The columns to take, as for `batches`. By default all columns, which all files must have.
        Columns hold numbers, booleans, arrays of numbers that all have one length, vectors of Spark
        ML, strings, or bytes, such as images. NumPy also has decimals, as float64, and timestamps
        and dates, as datetime64 in UTC.
    dtype : dtype or dict, optional
        The dtype of the arrays, for all arrays or by name, such as ``"float32"``.
    missing : float, str, bytes or dict, optional
        The number that replaces nulls, as for `batches`, or the text that replaces nulls of strings
        and bytes, as in ``{"age": -1, "name": ""}``. By default a null is an error.
    shuffle : bool or int
        The number of row groups whose rows are shuffled together, in a random order of the row
        groups. True for 4. False for the order of the files. A row is drawn from the whole window
        of row groups, so sort no table by its label.
    seed : int
        The order follows from the seed, the epoch and the files.
    epochs : int or None
        How often the result can be iterated over; None for any number. The thread reads ahead into
        the next epoch. An iteration that is left after its first batch, as to see its shapes, does
        not count: the next iteration begins the epoch again.
    state : dict, optional
        A result of `Loader.state`, the same on every rank. The first iteration goes on there: with
        the same number of ranks and the same batch size the remaining batches are the same.
        Otherwise their rows are the same. `Batch.step` counts from 0 again.
    equalize : {"pad", "drop", "join"}
        The treatment of the last batches, where the ranks' numbers of rows differ by one, or are no
        multiple of ``batch_size``. ``"pad"``: all batches are full; rows of other ranks follow,
        where `Batch.mask` is False. ``"drop"``: all batches are full, and the rows that remain are
        not in this epoch. ``"join"``: the last batch has fewer rows, or none, of which a mean is
        NaN.
    as_ : {"numpy", "torch", "tensorflow", "jax", "arrow"}
        The library of the arrays. Strings and bytes become arrays of objects (NumPy, JAX), a list
        (PyTorch) or a tensor of strings (TensorFlow). NumPy's arrays that are not shuffled are
        read-only views of Arrow's memory where possible. JAX makes 32 bits of 64, unless
        ``jax_enable_x64`` is set. Arrow takes columns of any type: ``pyarrow.table(batch)`` makes a
        table. Dictionaries become their values. `Loader.tf_dataset` makes a ``tf.data.Dataset``.
    cache : str or path, optional
        A directory on a local disk that keeps decoded row groups, for later epochs, later jobs and
        the other ranks of the host. It takes at most half of the space that is free now. Nothing is
        deleted there. An error of the disk ends its growth. A row group whose bytes have changed is
        read from its file again, with a warning.
    filesystem : object, optional
        A file system of ``pyarrow.fs`` or fsspec for the paths, where the environment lacks
        credentials or addresses. Every rank passes its own.
    version : int, optional
        The version of a table of Delta Lake, or the id of a snapshot of Iceberg. By default that of
        ``state``, or else the newest.

    Returns
    -------
    Loader
        Each iteration is an epoch. It yields one `Batch` a step, the same number on all ranks.

    Raises
    ------
    InvalidError
        For invalid arguments, missing packages, files that cannot be read, that have changed or
        differ in their schema, parts of tables, tables with deleted rows in their files, and
        columns with nulls, arrays of several lengths or other types. The message has the rank, the
        file, the row group, the column and the remedy. An error before the first batch is raised on
        all ranks. A later error is raised on one rank, which aborts the communicator with the
        message.
    MismatchError
        When ranks pass different arguments.
    PeerLostError, TimeoutError, AbortedError
        As for `Communicator.broadcast`. Batches make no calls.

    Examples
    --------
    >>> with parquet("s3://bucket/table", comm, 256, shuffle=True, epochs=5, state=state) as data:
    ...     for epoch in range(data.epoch, 5):
    ...         for batch in data:
    ...             mine = gradient_sum(weights, batch["x"], batch["y"], batch.mask)
    ...             weights -= comm.allreduce(mine) / batch.total
    ...             if batch.step % 1000 == 0:
    ...                 checkpoint.save((weights, data.state()))
    """
    arguments = {
        "batch_size": batch_size,
        "columns": columns,
        "dtype": dtype,
        "missing": missing,
        "shuffle": shuffle,
        "seed": seed,
        "epochs": epochs,
        "state": state,
        "equalize": equalize,
        "as_": as_,
        "cache": cache,
        "filesystem": filesystem,
        "version": version,
    }
    comm = check_communicator(comm)
    return Loader(comm, discovery.find(path_or_frame, comm, lambda: _checked(arguments)))


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """Check the arguments, and return the options."""
    shuffle, epochs, version = given["shuffle"], given["epochs"], given["version"]
    options = {
        **given,
        "batch_size": check_whole("batch_size", given["batch_size"], 1),
        "columns": source.select(given["columns"]),
        "dtype": check_dtypes(given["dtype"]),
        "missing": check_missing(given["missing"], texts=True),
        "shuffle": WINDOW if shuffle is True else check_whole("shuffle", shuffle, 0),
        "seed": check_whole("seed", given["seed"], 0),
        "epochs": None if epochs is None else check_whole("epochs", epochs, 1),
        "state": _check_state(given["state"]),
        "equalize": check_choice("equalize", given["equalize"], WAYS),
        "as_": check_choice("as_", given["as_"], KINDS),
        "version": None if version is None else check_whole("version", version, 0),
    }
    _check_arrow(options)
    try:
        importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise UnsupportedError(
            f"pyarrow cannot be imported ({error}): pip install 'sparkring[data]'"
        ) from error
    return options


def _check_state(state: Any) -> Any:
    """Accept what can be sent to the other ranks."""
    try:
        return json.loads(json.dumps(dict(state))) if state is not None else None
    except (TypeError, ValueError):
        raise InvalidError(
            f"state is of type {type(state).__name__}: pass what state() of a loader has returned"
        ) from None


def _check_arrow(options: dict[str, Any]) -> None:
    if options["as_"] != "arrow":
        return
    stacked = [column.name for column in options["columns"] or () if column.stacked]
    for name, given in (("dtype", options["dtype"]), ("missing", options["missing"])):
        if given is not None:
            raise InvalidError(f'{name} is for arrays of numbers: leave it out with as_="arrow"')
    if stacked:
        raise InvalidError(
            f'columns joins several columns in {stacked[0]!r}: as_="arrow" takes single columns'
        )
