# SPDX-License-Identifier: Apache-2.0
"""The one call for the whole: slots, barrier job, ring, output, results or the first error."""

from __future__ import annotations

import contextlib
import inspect
import math
import operator
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from sparkring import _communicator as communicator
from sparkring import _spark_encryption as spark_encryption
from sparkring._core import InvalidError
from sparkring.spark import _closure_codec as closure_codec
from sparkring.spark import _rank_result as rank_result
from sparkring.spark import _slot_check as slot_check
from sparkring.spark._local import Processes
from sparkring.spark._log_server import LogServer
from sparkring.spark._progress_bar import Display
from sparkring.spark._results import Results, folder_of
from sparkring.spark._session import find
from sparkring.spark._task_main import Job

if TYPE_CHECKING:
    from typing_extensions import Concatenate, TypeVarTuple, Unpack

    from sparkring import Communicator
    from sparkring.spark._options import Options
    from sparkring.spark._rank_result import RankResult
    from sparkring.spark._session import Spark

    R = TypeVar("R")
    Ts = TypeVarTuple("Ts")

OURS = ("rank", "size", "addresses", "root_address", "token", "exchange", "timeout", "encryption")


# Type checkers compare a tuple of args with the parameters of f. A list has no type for each of its
# elements, nor kwargs for each of its names: with these only the result has a type.
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


def run(
    f: Callable[..., Any] | str | os.PathLike[str],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | None = None,
    *,
    spark: Any = None,
    resources: Any = None,
    results: str | os.PathLike[str] | None = None,
    timeout: float = 300.0,
    max_restarts: int = 0,
    verbose: int = 1,
    encryption: bool | None = None,
    **options: Any,
) -> list[Any]:
    """Run a function on all ranks of a ring, as the tasks of a Spark barrier stage.

    Each rank calls ``f(comm, *args, **kwargs)`` with its `Communicator`, which is open, and closed
    afterwards: ``f`` does not call `sparkring.init`. ``f`` runs in a child process of Spark's
    Python worker. The Python processes end with the run.

    Parameters
    ----------
    f : callable or path
        What the ranks do. It and its arguments travel by cloudpickle, which PySpark brings, so it
        may be a lambda or come from a notebook. Modules that it imports and that are not installed,
        such as a file beside the script, travel, too, up to 8 MiB; installed ones must be on the
        executors, as `sparkring` itself. A generator or coroutine function, which a call only
        prepares, is an error. The path of a script (``"train.py"``) runs it on each rank as
        ``__main__``, where `sparkring.init` gives the open communicator, with the options of this
        call.
    args : sequence
        Further arguments of ``f``; type checkers compare a tuple with its parameters. Of a script
        ``sys.argv[1:]``, each of type str.
    kwargs : mapping, optional
        Arguments of ``f`` by name.
    num_proc : int, optional
        How many ranks; by default as many as there are slots. A negative number runs that many
        processes of this machine, without Spark, for trying and debugging.
    spark : pyspark.sql.SparkSession or pyspark.SparkContext, optional
        Which Spark; by default the active one. Through a session of Spark Connect its ranks work
        just so, but of its cluster only the configuration is known: `timeout` counts from when the
        tasks have started unless server and client are of Spark 4, ``resources`` needs both to be,
        too, and output comes only if executors can reach this process as its server would.
    resources : pyspark.resource.ResourceProfile, optional
        What each task needs, such as two cores or a GPU, where that is not what the configuration
        of Spark says. It cannot ask for executors: Spark gives those with dynamic allocation only,
        which excludes barrier stages. Of GPUs a rank sees only those that its task was given, from
        before ``f`` is read (`Communicator.gpus`).
    results : str or path, optional
        The folder through which results above 16 MiB come here, which the hosts share, such as
        ``hdfs://...`` or ``/shared/results`` (as for `Checkpoint`); their files are removed. By
        default the ranks send them to this process, encrypted, which takes that executors can reach
        it. Without either way such a result is an error.
    timeout : float
        Seconds until all tasks must have started, and then until all ranks must have met.
    max_restarts : int
        How often the ranks are launched again, all of them, after one has failed.
        ``comm.attempt`` tells them which time this is; `Checkpoint` helps to go on from there.
    verbose : int
        1 shows what the ranks print, line by line with the rank before it, and their progress
        (`Communicator.progress`); 2 also what `run` does; 0 nothing. In each case the executors'
        logs have what is printed there, but for a local master, which has no logs. Spark's own bar
        of stages is off meanwhile. If executors cannot reach this process, only these have it;
        the ranks never wait for this process. Where they encrypt, so is this connection.
    encryption : bool, optional
        As for `sparkring.init`.
    **options : object
        Further arguments of `sparkring.init`, such as ``call_timeout`` or ``ports``.

    Returns
    -------
    list
        What the ranks have returned, in rank order; None for each of a script.

    Raises
    ------
    Exception
        What ``f`` has raised on the rank at fault, in the last attempt. Its ``__cause__`` is a
        `RankError` with the rank, its host, its traceback and its last lines.
    RankError
        When a rank was killed or lost, or its exception makes no sense here, as that of
        ``sys.exit``, or what it has returned cannot be read here. It names the signal or exit code,
        and has the last lines that the rank has printed. Where Spark reported the failure, the
        attribute ``text`` of ``__cause__`` has all that Spark says.
    InvalidError
        When there are too few slots, and for arguments that make no sense; nothing was started.
    UnsupportedError
        When Spark cannot run barrier stages: with dynamic allocation, or in Spark Connect 3.4. When
        a result is too large for every way to this process.
    TimeoutError
        When the tasks have not started in time.

    Examples
    --------
    >>> from sparkring.spark import run
    >>> def train(comm, rate):
    ...     return comm.allreduce(rate * comm.rank)
    >>> run(train, args=(0.5,), num_proc=4)
    [3.0, 3.0, 3.0, 3.0]
    >>> run(train, args=(0.5,), num_proc=-2)  # here, without Spark
    [0.5, 0.5]
    >>> run("train.py", args=["--rate", "0.5"], num_proc=4)
    [None, None, None, None]
    """
    check(num_proc, timeout, max_restarts, options)
    work = closure_codec.dumps_work(f, args, kwargs)
    options = {**options, "timeout": timeout, "encryption": encryption}
    display = Display(verbose)
    try:
        if num_proc is not None and num_proc < 0:
            if resources is not None:
                raise InvalidError(
                    "resources is for Spark, but num_proc is negative: leave one out"
                )
            processes = Processes(-num_proc, display.line, display.progress)
            here = os.getcwd()
            return attempts(
                lambda attempt: processes.run(
                    Job(work.here(), options, attempt, None, echo=False, folder=here)
                ),
                max_restarts,
                display,
            )
        found = find(spark)
        folder = folder_of(results, found.here)
        return on_spark(work, options, num_proc, found, resources, folder, max_restarts, display)
    finally:
        display.close()


def check(
    num_proc: int | None, timeout: float, max_restarts: int, options: Mapping[str, Any]
) -> None:
    """Refuse arguments that make no sense, before anything starts."""
    known = set(inspect.signature(communicator.init).parameters) - set(OURS)
    for name in options:
        if name not in known:
            raise TypeError(f"run() has no argument {name!r}, nor has sparkring.init() for its use")
    if num_proc is not None and whole("num_proc", num_proc) == 0:
        raise InvalidError("num_proc is 0: pass how many ranks, or nothing for as many as fit")
    seconds("timeout", timeout)
    if options.get("call_timeout") is not None:
        seconds("call_timeout", options["call_timeout"])
    if whole("max_restarts", max_restarts) < 0:
        raise InvalidError(f"max_restarts is {max_restarts}: it must be 0 or more")


def whole(name: str, value: Any) -> int:
    """Refuse what is no whole number; True is none."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise InvalidError(f"{name} is {value!r}: pass a whole number") from None


def seconds(name: str, value: Any) -> None:
    """Refuse what is no time that can pass."""
    try:
        fine = 0 < value < math.inf
    except (TypeError, ValueError):  # such as that of an array
        fine = False
    if not fine:
        raise InvalidError(
            f"{name} is {value!r}: it must be a positive number of seconds, and finite: for as long"
            " as it takes pass a large one, such as 1e6"
        )


def attempts(
    launch: Callable[[int], list[RankResult] | BaseException], max_restarts: int, display: Display
) -> list[Any]:
    """Launch the ranks until they succeed, or may not be launched again."""
    for attempt in range(max_restarts + 1):
        start = time.monotonic()
        rank_results = launch(attempt)
        error = (
            rank_results
            if isinstance(rank_results, BaseException)
            else judge(rank_results, attempt)
        )
        if isinstance(rank_results, list) and error is None:
            display.detail(f"all ranks ended after {time.monotonic() - start:.1f} s")
            return rank_result.values(rank_results, attempt)
        assert error is not None
        if attempt == max_restarts:
            raise error
        cause = error if isinstance(error, rank_result.RankError) else error.__cause__
        first = str(cause).partition("\n")[0]
        display.say(f"{first}; launching all ranks again ({attempt + 1} of {max_restarts} times)")
        display.restart()
    raise AssertionError("one attempt is the last")


def judge(rank_results: list[RankResult], attempt: int) -> BaseException | None:
    """Find what to raise for the rank at fault; None when none has failed."""
    failed = rank_result.culprit(rank_results)
    return None if failed is None else rank_result.to_raise(failed, attempt)


def on_spark(
    work: closure_codec.Work,
    options: dict[str, Any],
    num_proc: int | None,
    spark: Spark,
    resources: Any,
    results: str | None,
    max_restarts: int,
    display: Display,
) -> list[Any]:
    """Run the attempts on Spark."""
    slot_check.check_settings(spark, resources)
    timeout = options["timeout"]
    gpus = slot_check.gpus_of_task(spark, resources)
    folder = os.getcwd() if spark.here else None
    size = num_proc  # where it is not given, that of the first attempt is that of all

    def launch(attempt: int) -> list[RankResult] | BaseException:
        nonlocal size
        size = slot_check.wait_for(spark, resources, size, timeout, attempt)
        display.detail(f"{size} ranks, {slot_check.arithmetic(slot_check.read(spark, resources))}")
        large = Results(spark, size, results)
        with large, listening(spark, size, options, display) as log_server:
            address = log_server.address if log_server else None
            stage = spark.stage(spark, size, resources, timeout, display.say, log_server)
            echo = (None if not display.verbose else not address) if spark.here else True
            job = Job(work, options, attempt, address, echo, gpus, folder=folder, route=large.route)
            rank_results = stage.run(job)
            return large.put_in(rank_results) if isinstance(rank_results, list) else rank_results

    return attempts(launch, max_restarts, display)


@contextlib.contextmanager
def listening(
    spark: Spark, size: int, options: dict[str, Any], display: Display
) -> Iterator[LogServer | None]:
    """Listen for what the ranks print, which the error of a lost rank shows in any case."""
    log_server = None
    with contextlib.suppress(OSError):
        host, bind = spark.reach()
        tls = encrypts(spark, options)
        log_server = LogServer(host, bind, size, display.line, display.progress, tls)
    try:
        yield log_server
    finally:
        if log_server is not None:
            log_server.close()
    if log_server is not None and not log_server.hosts:
        display.say(
            "live output is off because no executor has connected to this process; see the executor"
            " logs"
        )


def encrypts(spark: Spark, options: dict[str, Any]) -> bool:
    """Whether what the ranks send to the driver is to be encrypted."""
    given = options["encryption"]
    if given is not None:
        return bool(given)
    asked = spark.setting("spark.executorEnv.SPARKRING_ENCRYPTION")
    if asked:
        return bool(asked == "1")
    return spark_encryption.asked(spark.setting)
