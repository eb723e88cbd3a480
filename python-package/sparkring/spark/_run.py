# SPDX-License-Identifier: Apache-2.0
"""`run`: its arguments, and their checks. R's spark-driver.R does the same."""

from __future__ import annotations

import inspect
import math
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from sparkring import _init as communicator
from sparkring._core import InvalidError, UnsupportedError
from sparkring._trace import merge
from sparkring.spark import _closure_codec as closure_codec
from sparkring.spark import _dataframe as dataframes
from sparkring.spark._attempts import OnSpark, attempts
from sparkring.spark._local import LocalJob
from sparkring.spark._progress_bar import Display
from sparkring.spark._results import directory_of
from sparkring.spark._session import find
from sparkring.spark._task_main import Attempt

if TYPE_CHECKING:
    from typing_extensions import Concatenate, TypeVarTuple, Unpack

    from sparkring import Communicator
    from sparkring.spark._options import Options

    R = TypeVar("R")
    Ts = TypeVarTuple("Ts")

OURS = ("rank", "size", "addresses", "root_address", "token", "exchange", "timeout", "encryption")


# Type checkers compare a tuple of args with the parameters of f. Lists and kwargs have no type for
# each element. With a list or kwargs only the result has a type.
if TYPE_CHECKING:

    @overload
    def run(
        f: Callable[[Communicator, Unpack[Ts]], R],
        args: tuple[Unpack[Ts]],
        kwargs: None = ...,
        num_proc: int | None = ...,
        **options: Unpack[Options],
    ) -> list[R]: ...
    @overload
    def run(
        f: Callable[[Communicator], R],
        args: tuple[()] = ...,
        kwargs: None = ...,
        num_proc: int | None = ...,
        **options: Unpack[Options],
    ) -> list[R]: ...
    @overload
    def run(
        f: Callable[Concatenate[Communicator, ...], R],
        args: list[Any],
        kwargs: Mapping[str, Any] | None = ...,
        num_proc: int | None = ...,
        **options: Unpack[Options],
    ) -> list[R]: ...
    @overload
    def run(
        f: Callable[Concatenate[Communicator, ...], R],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        num_proc: int | None = ...,
        **options: Unpack[Options],
    ) -> list[R]: ...
    @overload
    def run(
        f: Callable[Concatenate[Communicator, ...], R],
        *,
        kwargs: Mapping[str, Any],
        num_proc: int | None = ...,
        **options: Unpack[Options],
    ) -> list[R]: ...
    @overload
    def run(
        f: str | os.PathLike[str],
        args: Sequence[str] = ...,
        kwargs: None = ...,
        num_proc: int | None = ...,
        **options: Unpack[Options],
    ) -> list[None]: ...
    @overload
    def run(
        f: Callable[[Communicator, Any], R],
        args: tuple[()] = ...,
        kwargs: None = ...,
        num_proc: int | None = ...,
        *,
        frame: Any,
        rows: Literal["pandas", "arrow", "batches"] = ...,
        schema: None = ...,
        **options: Unpack[Options],
    ) -> list[R]: ...
    @overload
    def run(
        f: Callable[[Communicator, Any, Unpack[Ts]], R],
        args: tuple[Unpack[Ts]],
        kwargs: None = ...,
        num_proc: int | None = ...,
        *,
        frame: Any,
        rows: Literal["pandas", "arrow", "batches"] = ...,
        schema: None = ...,
        **options: Unpack[Options],
    ) -> list[R]: ...
    @overload
    def run(
        f: Callable[[Communicator, Any, Unpack[Ts]], Any],
        args: tuple[Unpack[Ts]] = ...,
        kwargs: None = ...,
        num_proc: int | None = ...,
        *,
        frame: Any,
        rows: Literal["pandas", "arrow", "batches"] = ...,
        schema: Any,
        **options: Unpack[Options],
    ) -> Any: ...
    @overload
    def run(
        f: Callable[Concatenate[Communicator, Any, ...], R],
        args: Sequence[Any] = ...,
        kwargs: Mapping[str, Any] | None = ...,
        num_proc: int | None = ...,
        *,
        frame: Any,
        rows: Literal["pandas", "arrow", "batches"] = ...,
        schema: None = ...,
        **options: Unpack[Options],
    ) -> list[R]: ...
    @overload
    def run(
        f: Callable[Concatenate[Communicator, Any, ...], Any],
        args: Sequence[Any] = ...,
        kwargs: Mapping[str, Any] | None = ...,
        num_proc: int | None = ...,
        *,
        frame: Any,
        rows: Literal["pandas", "arrow", "batches"] = ...,
        schema: Any,
        **options: Unpack[Options],
    ) -> Any: ...


def run(
    f: Callable[..., Any] | str | os.PathLike[str],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    *,
    frame: Any = None,
    rows: str = "pandas",
    schema: Any = None,
    spark: Any = None,
    resources: Any = None,
    results: str | os.PathLike[str] | None = None,
    timeout: float = 300.0,
    max_restarts: int = 0,
    recovery: str = "relaunch",
    verbose: int = 1,
    encryption: bool | None = None,
    **options: Any,
) -> Any:
    """Run a function on all ranks of a ring, as the tasks of a Spark barrier stage.

    Each rank calls ``f(comm, *args, **kwargs)`` with its open `Communicator`, and closes it
    afterwards. With ``frame`` each rank calls ``f(comm, rows, *args, **kwargs)``, also without
    rows. ``f`` does not call `sparkring.init`. ``f`` runs in a child process of Spark's Python
    worker. The child ends with the run.

    Parameters
    ----------
    f : callable or path
        The function of the ranks. ``f`` and its arguments are sent by cloudpickle, which PySpark
        brings, so ``f`` may be a lambda or come from a notebook. Modules that ``f`` imports and
        that are not installed, such as a file beside the script, are sent, too, up to 8 MiB.
        Installed modules, such as `sparkring` itself, must be on the executors. A generator or
        coroutine function is an error, because a call does not run its body. The path of a script
        (``"train.py"``) runs the script on each rank as ``__main__``. In a script
        `sparkring.init` returns the open communicator, with the options of this call.
    args : sequence
        Further arguments of ``f``. Type checkers compare a tuple with the parameters of ``f``. For
        a script, ``sys.argv[1:]``, each of type str.
    kwargs : mapping, optional
        Arguments of ``f`` by name.
    num_proc : int, optional
        The number of ranks; by default the number of slots, or of the partitions of ``frame``. A
        negative number runs that many processes of this machine, without Spark, for trying and
        debugging.
    frame : pyspark.sql.DataFrame, optional
        A table whose rows the ranks get, on Spark 3.5 or later. Without ``num_proc`` each
        partition is the rows of a rank, in their order, so the rank is the number of the
        partition. With ``num_proc`` the rows are distributed evenly, in their
        order, so rank 0 gets the first rows. Spark counts the rows first, and so computes twice
        what it has neither cached nor shuffled. A restart computes the same once more without
        ``num_proc``, and nothing with it. Spark refuses partitions of ``union()`` and
        ``coalesce()`` in a barrier stage, so these are shuffled first.
    rows : str
        The rows as ``f`` gets them: ``"pandas"``, a DataFrame of pandas as ``toPandas`` makes it by
        Arrow; ``"arrow"``, a table of pyarrow as ``toArrow`` makes it; or ``"batches"``, an
        iterator of record batches of pyarrow, which takes the memory of one batch, so the partition
        may be larger than the memory. The dtypes of pandas are those of the rows of all ranks:
        where one rank has nulls in a column of whole numbers, all ranks have floats. A batch has up
        to ``spark.sql.execution.arrow.maxRecordsPerBatch`` rows. `sparkring.data.batches` takes the
        iterator, and gives all ranks the same number of batches. A rank that leaves the iterator
        early waits at its end until Spark has made the next batch. Vectors of MLlib become arrays
        of doubles. Lists may have any lengths; in pandas each is an array in a column of objects.
    schema : str or pyspark.sql.types.StructType, optional
        The columns of the result, as for ``mapInPandas``: ``"loss double"``. Then ``f`` returns
        rows with these columns: a DataFrame of pandas, a table or record batch of pyarrow, a list
        of them, or None. Timestamps without a zone are in the zone of the session. Vectors of MLlib
        may be arrays, and become dense. ``run`` returns a DataFrame of the rows of all ranks, in
        rank order, a partition for each rank. Its rows stay in the executors, as those of
        ``localCheckpoint``: ``f`` runs once, and the rows are lost with their executor. A rank
        holds the rows that ``f`` returns in memory, several times for a while. On Spark Connect it
        needs Spark 4.
    spark : pyspark.sql.SparkSession or pyspark.SparkContext, optional
        The Spark; by default the active session. With ``frame`` it is the frame's. The ranks also
        work through a session of Spark Connect, with four limits, because only the configuration of
        its cluster is known. ``timeout`` counts from the start of the tasks, unless server and
        client are of Spark 4. ``resources`` needs server and client of Spark 4. Output is shown
        only if executors can reach this process at the address that the server would use. Each
        attempt computes the ``frame`` with its shuffles, and one job more counts its partitions or
        rows. So a rank may get other rows in each attempt where the order of rows is random.
    resources : pyspark.resource.ResourceProfile, optional
        The resources of each task, such as two cores or a GPU, where they differ from the
        configuration of Spark. It cannot ask for executors: Spark starts such executors with
        dynamic allocation only, which excludes barrier stages. A rank sees only the GPUs of its
        task, already when ``f`` is read (`Communicator.gpus`).
    results : str or path, optional
        A directory that the hosts share, such as ``hdfs://...`` or ``/shared/results`` (as for
        `Checkpoint`). Results above 16 MiB go through it, and their files are removed. By default
        the ranks send such results to this process, encrypted, which requires that executors can
        reach this process. If neither way works, such a result is an error.
    timeout : float
        Seconds until all tasks must have started, and then until the rendezvous must be complete.
        With ``frame``, which Spark may have to compute before, only from the start of the tasks.
    max_restarts : int
        How often all ranks are launched again after a rank has failed. ``comm.attempt`` is the
        number of the launch. `Checkpoint` restores the state of an earlier launch.
    recovery : str
        What follows the end of a rank's process, as when it is killed or out of memory.
        ``"relaunch"``: all ranks are launched again. ``"replace"``: the task of the rank starts a
        new process, at most ``max_restarts`` times for each rank. The new process calls ``f`` from
        its beginning. The other ranks keep their memory: their calls raise `PeerLostError`, and
        `Communicator.grow` waits for the new process. `sparkring.torch.elastic.run` calls it. All
        ranks are launched again nevertheless where a rank does not call it, where ``f`` raises an
        exception, and where Spark loses a task, as with an executor.
    verbose : int
        1 shows the output of the ranks, line by line with the rank before it, and their progress
        (`Communicator.progress`). 2 also shows the steps of `run`. 0 shows nothing. In each case
        the output is also in the executors' logs, except with a local master, which has no logs;
        only there if executors cannot reach this process. Spark's own bar of stages is off during
        the run. The ranks never wait for this process. The connection for the output is encrypted.
    encryption : bool, optional
        As for `sparkring.init`.
    **options : object
        Further arguments of `sparkring.init`, such as ``call_timeout`` or ``ports``. With
        ``timeline`` each rank writes its timeline into this directory on its host. Where this
        process sees the files of all ranks, as in a directory that the hosts share, ``run`` merges
        the files into ``timeline.json`` there, also after a failure.

    Returns
    -------
    list or pyspark.sql.DataFrame
        The return values of the ranks, in rank order; None for each rank of a script. With
        ``schema`` a DataFrame.

    Raises
    ------
    Exception
        The exception of ``f`` on the rank at fault, in the last attempt. Its ``__cause__`` is a
        `RankError` with the rank, its host, its traceback and its last lines.
    RankError
        When a rank was killed or lost. Also when its exception cannot be raised here, as that of
        ``sys.exit``, or its return value cannot be read here. The error names the signal or exit
        code, and has the last lines of the rank's output. Where Spark reported the failure, the
        attribute ``text`` of ``__cause__`` has the full message of Spark.
    InvalidError
        When there are too few slots, and for invalid arguments. No rank was started. Without
        ``num_proc`` Spark may have run the shuffles of the ``frame``, to count its partitions.
    UnsupportedError
        When Spark cannot run barrier stages: with dynamic allocation, or in Spark Connect 3.4. Also
        when a result is too large for every way to this process, or when Spark starts another
        number of tasks than the partitions of the ``frame`` that it has reported.
    TimeoutError
        When the tasks have not started in time.

    Examples
    --------
    >>> from sparkring.spark import run
    >>> def train(comm, rate):
    ...     return float(comm.allreduce(rate * comm.rank))
    >>> run(train, args=(0.5,), num_proc=4)
    [3.0, 3.0, 3.0, 3.0]
    >>> run(train, args=(0.5,), num_proc=-2)  # here, without Spark
    [0.5, 0.5]
    >>> run("train.py", args=["--rate", "0.5"], num_proc=4)
    [None, None, None, None]
    >>> def mean(comm, rows):
    ...     total, count = comm.allreduce(numpy.array([rows["id"].sum(), len(rows)]))
    ...     return float(total / count)
    >>> run(mean, frame=spark.range(1000).repartition(4))
    [499.5, 499.5, 499.5, 499.5]
    """
    check(num_proc, timeout, max_restarts, options)
    check_recovery(recovery, frame)
    if frame is not None:
        dataframes.check(frame, rows, num_proc)
        spark = frame.sparkSession
    elif schema is not None or rows != "pandas":
        raise InvalidError("rows and schema are for the rows of a frame: pass frame=")
    work = closure_codec.dumps_work(f, args, kwargs, rows=frame is not None)
    options = {**options, "timeout": timeout, "encryption": encryption}
    if options.get("timeline"):
        options["timeline"] = os.path.abspath(options["timeline"])
    replacements = max_restarts if recovery == "replace" else None
    display = Display(verbose)
    try:
        if num_proc is not None and num_proc < 0:
            if resources is not None:
                raise InvalidError(
                    "resources is for Spark, but num_proc is negative: leave one out"
                )
            job = LocalJob(-num_proc, display.line, display.progress)
            here = os.getcwd()
            return attempts(
                lambda number: job.run(
                    Attempt(
                        work.here(),
                        options,
                        number,
                        None,
                        echo=False,
                        directory=here,
                        replacements=replacements,
                    )
                ),
                max_restarts,
                display,
            )
        found = find(spark)
        directory = directory_of(results, found.here)
        run_on_spark = OnSpark(work, options, found, resources, directory, display, replacements)
        if frame is not None:
            run_on_spark.take(frame, rows, schema)
        return run_on_spark.run(num_proc, max_restarts)
    finally:
        merge_timeline(options.get("timeline"), display)
        display.close()


def merge_timeline(directory: str | None, display: Display) -> None:
    """Merge the timelines of the ranks where this process sees the directory of all of them."""
    if not directory:
        return
    try:
        path = merge.merge_if_complete(directory)
    except OSError as error:
        display.notify(f"the timelines in {directory} are not merged: {error}")
        return
    display.detail(
        f"the timeline is in {path}"
        if path
        else f"the ranks have their timelines in {directory} on their hosts"
    )


def check(
    num_proc: int | None, timeout: float, max_restarts: int, options: Mapping[str, Any]
) -> None:
    """Refuse invalid arguments, before anything starts."""
    known = set(inspect.signature(communicator.init).parameters) - set(OURS)
    for name in options:
        if name not in known:
            raise TypeError(f"run() has no argument {name!r}, nor has sparkring.init() for its use")
    if num_proc is not None and whole("num_proc", num_proc) == 0:
        raise InvalidError("num_proc is 0: pass the number of ranks, or nothing for the default")
    seconds("timeout", timeout)
    if options.get("call_timeout") is not None:
        seconds("call_timeout", options["call_timeout"])
    if whole("max_restarts", max_restarts) < 0:
        raise InvalidError(f"max_restarts is {max_restarts}: it must be 0 or more")


def check_recovery(recovery: str, frame: Any) -> None:
    """Refuse a recovery that is none, and one that this run cannot have."""
    if recovery not in ("relaunch", "replace"):
        raise InvalidError(f"recovery is {recovery!r}: pass 'relaunch' or 'replace'")
    if recovery == "replace" and frame is not None:
        raise UnsupportedError(
            "recovery='replace' cannot give a new process the rows that a lost one has read: read"
            " the data in f, or pass recovery='relaunch'"
        )


def whole(name: str, value: Any) -> int:
    """Refuse a value that is no whole number. True is no whole number."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise InvalidError(f"{name} is {value!r}: pass a whole number") from None


def seconds(name: str, value: Any) -> None:
    """Refuse a value that is no valid number of seconds."""
    try:
        fine = 0 < value < math.inf
    except (TypeError, ValueError):  # such as the float() of an array
        fine = False
    if not fine:
        raise InvalidError(
            f"{name} is {value!r}: it must be a positive, finite number of seconds; for no limit"
            " pass a large number, such as 1e6"
        )
