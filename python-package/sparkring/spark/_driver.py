# SPDX-License-Identifier: Apache-2.0
"""`run`: slots, barrier job, communicator, output, and results or the first error."""

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
from sparkring._trace import merge
from sparkring.spark import _closure_codec as closure_codec
from sparkring.spark import _rank_result as rank_result
from sparkring.spark import _slot_check as slot_check
from sparkring.spark._local import LocalJob
from sparkring.spark._log_server import LogServer
from sparkring.spark._progress_bar import Display
from sparkring.spark._results import Results, directory_of
from sparkring.spark._session import find
from sparkring.spark._task_main import Attempt

if TYPE_CHECKING:
    from typing_extensions import Concatenate, TypeVarTuple, Unpack

    from sparkring import Communicator
    from sparkring.spark._options import Options
    from sparkring.spark._rank_result import RankResult
    from sparkring.spark._session import Spark

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

    Each rank calls ``f(comm, *args, **kwargs)`` with its open `Communicator`, and closes it
    afterwards. ``f`` does not call `sparkring.init`. ``f`` runs in a child process of Spark's
    Python worker. The Python processes end with the run.

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
        The number of ranks; by default the number of slots. A negative number runs that many
        processes of this machine, without Spark, for trying and debugging.
    spark : pyspark.sql.SparkSession or pyspark.SparkContext, optional
        The Spark; by default the active session. The ranks also work through a session of Spark
        Connect, with three limits, because only the configuration of its cluster is known.
        ``timeout`` counts from the start of the tasks, unless server and client are of Spark 4.
        ``resources`` needs server and client of Spark 4. Output is shown only if executors can
        reach this process at the address that the server would use.
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
    max_restarts : int
        How often all ranks are launched again after a rank has failed. ``comm.attempt`` is the
        number of the launch. `Checkpoint` restores the state of an earlier launch.
    verbose : int
        1 shows the output of the ranks, line by line with the rank before it, and their progress
        (`Communicator.progress`). 2 also shows the steps of `run`. 0 shows nothing. In each case
        the output is also in the executors' logs, except with a local master, which has no logs.
        Spark's own bar of stages is off during the run. If executors cannot reach this process,
        the output is in the logs only. The ranks never wait for this process. The connection for
        the output is encrypted where the ranks encrypt.
    encryption : bool, optional
        As for `sparkring.init`.
    **options : object
        Further arguments of `sparkring.init`, such as ``call_timeout`` or ``ports``. With
        ``timeline`` each rank writes its timeline into this directory on its host. Where this
        process sees the files of all ranks, as in a directory that the hosts share, ``run`` merges
        the files into ``timeline.json`` there, also after a failure.

    Returns
    -------
    list
        The return values of the ranks, in rank order; None for each rank of a script.

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
        When there are too few slots, and for invalid arguments. Nothing was started.
    UnsupportedError
        When Spark cannot run barrier stages: with dynamic allocation, or in Spark Connect 3.4. Also
        when a result is too large for every way to this process.
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
    if options.get("timeline"):
        options["timeline"] = os.path.abspath(options["timeline"])
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
                    Attempt(work.here(), options, number, None, echo=False, directory=here)
                ),
                max_restarts,
                display,
            )
        found = find(spark)
        directory = directory_of(results, found.here)
        return on_spark(work, options, num_proc, found, resources, directory, max_restarts, display)
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
        raise InvalidError("num_proc is 0: pass the number of ranks, or nothing for all slots")
    seconds("timeout", timeout)
    if options.get("call_timeout") is not None:
        seconds("call_timeout", options["call_timeout"])
    if whole("max_restarts", max_restarts) < 0:
        raise InvalidError(f"max_restarts is {max_restarts}: it must be 0 or more")


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


def attempts(
    launch: Callable[[int], list[RankResult] | BaseException], max_restarts: int, display: Display
) -> list[Any]:
    """Launch the ranks until they succeed, or no restart is left."""
    for attempt in range(max_restarts + 1):
        start = time.monotonic()
        rank_results = launch(attempt)
        error = (
            rank_results
            if isinstance(rank_results, BaseException)
            else error_of(rank_results, attempt)
        )
        if isinstance(rank_results, list) and error is None:
            display.detail(f"all ranks ended after {time.monotonic() - start:.1f} s")
            return rank_result.values(rank_results, attempt)
        assert error is not None
        if attempt == max_restarts:
            raise error
        cause = error if isinstance(error, rank_result.RankError) else error.__cause__
        first = str(cause).partition("\n")[0]
        display.notify(
            f"{first}; launching all ranks again ({attempt + 1} of {max_restarts} times)"
        )
        display.restart()
    raise AssertionError("one attempt is the last")


def error_of(rank_results: list[RankResult], attempt: int) -> BaseException | None:
    """Find the error to raise for the rank at fault; None when no rank has failed."""
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
    here = os.getcwd() if spark.here else None
    size = num_proc  # by default, all attempts have the size of the first

    def launch(number: int) -> list[RankResult] | BaseException:
        nonlocal size
        size = slot_check.wait_for(spark, resources, size, timeout, number)
        display.detail(f"{size} ranks, {slot_check.arithmetic(slot_check.read(spark, resources))}")
        large = Results(spark, size, results)
        with large, listening(spark, size, options, display) as log_server:
            address = log_server.address if log_server else None
            job = spark.job_type(spark, size, resources, timeout, display.notify, log_server)
            echo = (None if not display.verbose else not address) if spark.here else True
            attempt = Attempt(
                work, options, number, address, echo, gpus, directory=here, route=large.route
            )
            rank_results = job.run(attempt)
            return large.insert(rank_results) if isinstance(rank_results, list) else rank_results

    return attempts(launch, max_restarts, display)


@contextlib.contextmanager
def listening(
    spark: Spark, size: int, options: dict[str, Any], display: Display
) -> Iterator[LogServer | None]:
    """Listen for the output of the ranks. The error of a lost rank always shows its last lines."""
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
        display.notify(
            "live output is off because no executor has connected to this process; see the executor"
            " logs"
        )


def encrypts(spark: Spark, options: dict[str, Any]) -> bool:
    """Return whether the connections of the ranks to the driver are encrypted."""
    given = options["encryption"]
    if given is not None:
        return bool(given)
    asked = spark.setting("spark.executorEnv.SPARKRING_ENCRYPTION")
    if asked:
        return bool(asked == "1")
    return spark_encryption.asked(spark.setting)
