# SPDX-License-Identifier: Apache-2.0
"""The main function of a rank: open the communicator, call the function, and return the result.

A rank that fails aborts the communicator, so that the other ranks fail in their next call. Then the
rank returns its failure like a value: the driver gets the failures of all ranks, and finds the rank
at fault. In a Spark task the rank is a child of Spark's worker (`child`), so the task also reports
the end of a killed rank. Before a task ends it waits in the exit barrier (`exit_barrier`).

Without frame= a task never reads its partition, so PySpark does not reuse the process. With frame=
the task sends its rows to the rank (`_rows`). In both cases a rank is a new process.
"""

from __future__ import annotations

import base64
import contextlib
import faulthandler
import functools
import os
import pickle
import re
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any, NoReturn, Protocol

import sparkring
from sparkring import _run_state as run_state
from sparkring._launch.child_process import describe
from sparkring._launch.nameless_file import nameless_file
from sparkring.frameworks import _gpu as gpu
from sparkring.spark import _arrow as arrow
from sparkring.spark import _child as child
from sparkring.spark import _closure_codec as closure_codec
from sparkring.spark import _script as script
from sparkring.spark._exit_barrier import LOST, ExitBarrier, RankFailed, RingBarrier
from sparkring.spark._rank_result import Failure, RankResult, advise
from sparkring.spark._replacement import TaskReplacement
from sparkring.spark._results import deliver, hand_over
from sparkring.spark._rows import Feed
from sparkring.spark._stdio_redirect import StdioRedirect, flush

if TYPE_CHECKING:
    from sparkring.spark._driver_link import Address
    from sparkring.spark._replacement import Replacement
    from sparkring.spark._results import Route
    from sparkring.spark._rows import Rows

BUSY = 5.0  # seconds for a call of another thread to end
PATIENCE = 1e9  # seconds: the other ranks may work this long without the communicator
LARGEST = 1 << 18  # bytes of a pickled exception in an error message


@dataclass(frozen=True)
class Table:
    """The schema of rows that stay in Spark."""

    fields: tuple[Any, ...] = field(repr=False)  # of Spark; vectors are arrays until the end
    schema: bytes = field(repr=False)  # of Arrow
    vectors: frozenset[int] = field(repr=False)  # places of the vectors of MLlib
    zone: str  # of the session


@dataclass(frozen=True)
class Attempt:
    """The data of an attempt that all ranks receive."""

    work: closure_codec.Work = field(repr=False)
    options: dict[str, Any] = field(repr=False)  # arguments of sparkring.init
    number: int
    address: Address | None  # of the driver, which shows the output of the ranks
    echo: bool | None  # whether the output is in the executor's log, too; None: never
    gpus: int = 0  # GPUs of each rank
    directory: str | None = None  # the driver's working directory, where all ranks run on its host
    route: Route | None = None  # of large results; None: all are part of the `RankResult`
    rows: Rows | None = None  # of frame=
    table: Table | None = None  # of schema=
    size: int | None = None  # the number of tasks that Spark has to start
    replacements: int | None = None  # how often a lost rank gets a new process; None: it fails

    @property
    def here(self) -> bool:
        """Return whether all ranks run on the driver's host, without memory limits of executors."""
        return self.directory is not None

    def __repr__(self) -> str:
        """Hide the key of the address."""
        return f"Attempt({self.number})"


class Printer(Protocol):
    """Receives the output and the reports of a rank."""

    def report(self, step: float, total: float | None, metrics: dict[str, Any]) -> None:
        """Send a report of progress."""

    def log(self, text: str) -> None:
        """Write to the log alone."""


def play(
    attempt: Attempt,
    rank: int,
    barrier: ExitBarrier,
    printer: Printer,
    feed: Feed | None = None,
    file: IO[bytes] | None = None,
    recovers: Callable[[], run_state.Recovery] | None = None,
) -> RankResult:
    """Run a rank, up to the exit barrier. `feed` has its rows, and `file` takes a large result.

    `recovers` tells how the ring forms again, if lost ranks are replaced.
    """
    comm = None
    value = failure = receipt = rows = None
    kind = ""
    faulthandler.enable(file=2)  # the last lines of a crashed rank show its stack
    try:
        run_state.begin(attempt.number, printer.report, attempt.directory)
        recovery = recovers() if recovers else None
        if recovery and recovery.replaces:
            run_state.set_recovery(recovery)
        comm = sparkring.init(**attempt.options)
        check_size(comm, attempt)
        if not recovery or not recovery.replaces:
            barrier.connect_all(comm)
        if recovery:
            run_state.set_recovery(recovery)
        if attempt.gpus:  # before unpickling the function, which may import frameworks
            choose = gpu.of_task if recovery and recovery.replaces else gpu.gpus
            choose(comm, attempt.gpus)
        attempt.work.sources.install()
        given = []
        if attempt.rows and feed:
            given.append(attempt.rows.of(feed.read(), functools.partial(comm.allreduce, op="bor")))
        result = call(attempt.work.data, comm, given)
        kind = type(result).__name__
        if attempt.table is None:
            value = closure_codec.dumps_value(result, rank)
        else:
            rows = arrow.pack(result, attempt.table.schema, attempt.table.zone, rank)
        del result
        finish(run_state.grown() or comm)
        if attempt.route and value is not None and file:
            file.seek(0)  # a process that was lost may have written
            file.truncate()
            value, receipt = hand_over(attempt.route, rank, value, kind, file)
    except BaseException as error:
        attempt.work.sources.advise(error)
        explain_close(error)
        value, rows, failure = None, None, Failure.of(error, outside_frames(error))
        for each in (comm, run_state.grown()):
            if each is not None:
                with contextlib.suppress(sparkring.RingError):  # a thread of f may be in a call
                    each.abort(f"rank {rank} {failure.what}")
    finally:
        run_state.begin(0, None)
    if failure:  # the driver shows only the traceback of the rank at fault
        printer.log(failure.traceback)
    return RankResult(rank, value, failure, kind=kind, receipt=receipt, rows=rows)


def check_size(comm: sparkring.Communicator, attempt: Attempt) -> None:
    """Refuse another number of tasks than the driver has counted. Spark Connect plans each job."""
    if attempt.size not in (None, comm.size):
        raise sparkring.UnsupportedError(
            f"Spark started {comm.size} tasks for {attempt.size} ranks: pass num_proc, or cache the"
            " frame"
        )


def call(work: bytes, comm: sparkring.Communicator, given: Sequence[Any]) -> Any:
    """Call the function. A process that the function has forked, and that returns, ends here."""
    f, args, kwargs = closure_codec.loads(work)
    process = os.getpid()
    try:
        result = f(comm, *given, *args, **kwargs)
    except BaseException as error:
        if os.getpid() != process:
            exit_child(error)
        raise
    if os.getpid() != process:
        exit_child(None)
    return result


def finish(comm: sparkring.Communicator) -> None:
    """Close the communicator, and wait for the other ranks without a limit.

    A rank that expects another call of this rank gets a mismatch. Only a mismatch is a failure of
    this rank. When another rank has failed or is lost, the failure of the other rank counts.
    """
    until = time.monotonic() + BUSY
    while True:
        try:
            comm.close(timeout=PATIENCE)
            return
        except sparkring.MismatchError:
            raise
        except sparkring.BusyError:  # a thread of f is in a call, and may stay there
            if time.monotonic() > until:
                return
            time.sleep(0.01)
        except sparkring.RingError:
            return


def explain_close(error: BaseException) -> None:
    """Explain close() in the text of a mismatch, because the user has not called it."""
    if isinstance(error, sparkring.MismatchError) and " called close() " in str(error):
        error.args = (f"{error}. A rank calls close() when its function has returned",)


def exit_child(error: BaseException | None) -> NoReturn:
    """End a forked process. Its parent is the rank."""
    code = 0
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        code = error.code or 0
    elif error is not None:
        with contextlib.suppress(OSError):  # nobody reads the errors of this process
            traceback.print_exception(type(error), error, outside_frames(error))
        code = 1
    flush()
    os._exit(code & 0xFF)


def outside_frames(error: BaseException) -> Any:
    """Find where a traceback leaves this file and `_script`, if it does."""
    ours = (__file__, script.__file__)
    entry = error.__traceback__
    while entry is not None and entry.tb_frame.f_code.co_filename in ours:
        entry = entry.tb_next
    return entry


# ---- In a Spark task -----------------------------------------------------------------------------


def task(attempt: Attempt, batches: Iterable[Any]) -> Iterator[RankResult]:
    """Run the rank of this Spark task; for ``mapPartitions``, or for ``mapInArrow``."""
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    rank = context.partitionId()
    redirect = StdioRedirect(rank, attempt.address, attempt.echo)
    with redirect, nameless_file("sparkring result") as file:
        barrier, incomplete = RingBarrier(context, attempt.options.get("ports")), ""
        with attempt.work.sources.directory(), feeding(attempt, batches) as feed:
            work = functools.partial(play, attempt, rank, barrier, redirect, feed, file)
            if attempt.replacements is not None:
                replacement = TaskReplacement(barrier)
                rank_result = run_rank(work, replacement, attempt.replacements, rank, attempt)
            else:
                ended = run_child(work, barrier.connect, feed)
                rank_result = lost(rank, ended, attempt) if isinstance(ended, int) else ended
        if feed and feed.error and rank_result.failure:  # which it has caused, by missing rows
            raise feed.error
        if attempt.route:
            rank_result = deliver(attempt.route, rank_result, file, redirect.send_result)
        try:
            barrier.wait_for_all(rank_result)
        except RankFailed as error:
            incomplete = str(error)
        rank_result = replace(rank_result, log=redirect.finish())
    if incomplete:
        raise RankFailed(
            to_text(rank_result, rank_result.failure) if rank_result.failure else incomplete
        )
    yield rank_result


@contextlib.contextmanager
def feeding(attempt: Attempt, batches: Iterable[Any]) -> Iterator[Feed | None]:
    """Send the rows to the child that runs in this block, if the run has rows."""
    feed = Feed(batches) if attempt.rows else None
    try:
        yield feed
    finally:
        if feed:
            feed.close()


def run_rank(
    work: Callable[[Callable[[], run_state.Recovery]], RankResult],
    replacement: Replacement,
    most: int,
    rank: int,
    attempt: Attempt,
) -> RankResult:
    """Run the rank in a child, and in `most` further ones, each time that the child is lost.

    A further one that fails because no ring forms again has the failure of the lost one.
    """
    was_lost = None
    for number in range(most + 1):
        more = number < most
        replacement.begin(replaces=number > 0)
        ended = child.call(
            functools.partial(work, replacement.in_rank),
            functools.partial(replacement.in_task, more=more),
        )
        if not isinstance(ended, int):
            gave_up = was_lost and ended.failure and ended.failure.weight in LOST
            return was_lost if was_lost and gave_up else ended
        was_lost = lost(rank, ended, attempt)
        if not more or not replacement.possible():
            break
        assert was_lost.failure is not None
        print(
            f"rank {rank} {was_lost.failure.what}; it is started again ({number + 1} of"
            f" {most} times)",
            flush=True,
        )
    assert was_lost is not None
    return was_lost


def run_child(
    work: Callable[[], RankResult], meanwhile: Callable[[], None], feed: Feed | None
) -> RankResult | int:
    """Run the rank in a child. Return its result, or the wait status without a result."""
    if feed is None:
        return child.call(work, lambda _: meanwhile())

    def in_child() -> RankResult:
        feed.open()
        return work()

    def in_task(_: int) -> None:
        feed.start()
        meanwhile()

    return child.call(in_child, in_task)


def lost(rank: int, status: int, attempt: Attempt) -> RankResult:
    """Describe the end of a rank whose process ended without a result."""
    how = describe(status) if status else "ended without a result, with exit code 0"
    return RankResult(rank, failure=Failure.lost(advise(how, here=attempt.here)))


def to_text(rank_result: RankResult, failure: Failure) -> str:
    """Put the result of a rank into the text of an exception. Spark carries only the text."""
    if len(failure.error or b"") > LARGEST:
        rank_result = replace(rank_result, failure=replace(failure, error=None))
    data = base64.b64encode(pickle.dumps(rank_result)).decode()
    return f"rank {rank_result.rank} {failure.what} <sparkring {data}>"


def from_text(text: str) -> RankResult | None:
    """Find the result of a rank in Spark's message about a failed job."""
    found = re.search(r"<sparkring ([A-Za-z0-9+/=]+)>", text)
    rank_result = pickle.loads(base64.b64decode(found[1])) if found else None
    return rank_result if isinstance(rank_result, RankResult) else None
