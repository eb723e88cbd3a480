# SPDX-License-Identifier: Apache-2.0
"""What a rank does: form the ring, call the function, and tell how it ended.

A rank that fails aborts the communicator, so that the others fail in their next call, and then
returns its failure like a value: the driver gets what every rank raised, and finds who was at
fault. In a Spark task the rank is a child of Spark's worker (`child`), so that the task also
reports how a killed rank ended. Before the task ends it waits until all have got there (`settle`).

A task never reads its partition. That tells PySpark not to use the process again, so every attempt
begins in one that no earlier attempt has touched.
"""

from __future__ import annotations

import base64
import contextlib
import faulthandler
import os
import pickle
import re
import secrets
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import sparkring
from sparkring import running
from sparkring.processes import describe
from sparkring.spark import child, pickling, script
from sparkring.spark.capture import Capture, flush
from sparkring.spark.outcome import Failure, Outcome, advise
from sparkring.spark.results import hand_over
from sparkring.spark.settle import Others, RankFailed, Tasks

if TYPE_CHECKING:
    from sparkring.spark.output import Address
    from sparkring.spark.results import Route

BUSY = 5.0  # seconds for a call of another thread to end
PATIENCE = 1e9  # seconds: whatever others do without this ring may take
LARGEST = 1 << 18  # bytes of an exception in a text


@dataclass(frozen=True)
class Job:
    """What all ranks of an attempt are told."""

    work: pickling.Work = field(repr=False)
    options: dict[str, Any] = field(repr=False)  # of sparkring.init
    attempt: int
    address: Address | None  # of the driver that shows their output
    echo: bool | None  # whether their output is in their own log, too; None: never
    gpus: int = 0  # that each of them was promised
    # By which they know each other in the end.
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    folder: str | None = None  # the driver's, where all ranks run on its host
    route: Route | None = None  # of large results; None: all travel with the outcome

    @property
    def here(self) -> bool:
        """Whether the ranks run on the driver's host, so that no executor has a memory limit."""
        return self.folder is not None

    def __repr__(self) -> str:
        """Tell nothing of the keys, one of which is in the address."""
        return f"Job(attempt={self.attempt})"


class Printer(Protocol):
    """Takes care of what a rank prints and reports."""

    def report(self, step: float, total: float | None, metrics: dict[str, Any]) -> None:
        """Send a report of progress."""

    def log(self, text: str) -> None:
        """Write to the log alone."""


def play(job: Job, rank: int, others: Others, printer: Printer) -> Outcome:
    """Be a rank, until only the others are to be waited for."""
    comm = None
    value = failure = receipt = None
    kind = ""
    faulthandler.enable(file=2)  # the last lines of a rank that crashes say where
    try:
        running.begin(job.attempt, printer.report, job.folder)
        comm = sparkring.init(**job.options)
        others.meet(comm)
        if job.gpus:  # before the function is read, which imports what it uses
            comm.gpus(job.gpus)
        job.work.sources.install()
        result = call(job.work.data, comm)
        kind = type(result).__name__
        value = pickling.dumps_value(result, rank)
        finish(comm)
        if job.route:
            value, receipt = hand_over(job.route, rank, job.attempt, value, kind)
    except BaseException as error:
        job.work.sources.advise(error)
        explain_close(error)
        value, failure = None, Failure.of(error, beyond_us(error))
        if comm is not None:
            with contextlib.suppress(sparkring.RingError):  # a thread of f may be in a call
                comm.abort(f"rank {rank} {failure.what}")
    finally:
        running.begin(0, None)
    if failure:  # on the driver, the traceback of the rank at fault is enough
        printer.log(failure.traceback)
    return Outcome(rank, value, failure, kind=kind, receipt=receipt)


def call(work: bytes, comm: sparkring.Communicator) -> Any:
    """Call the function; a process that it forked, and that comes out of it, ends here."""
    f, args, kwargs = pickling.loads(work)
    process = os.getpid()
    try:
        result = f(comm, *args, **kwargs)
    except BaseException as error:
        if os.getpid() != process:
            leave(error)
        raise
    if os.getpid() != process:
        leave(None)
    return result


def finish(comm: sparkring.Communicator) -> None:
    """Close, which tells ranks that want more of this one, and wait as long as the others take.

    Only what ranks have called differently is a failure of this one: when another has failed or is
    lost, that one's counts.
    """
    until = time.monotonic() + BUSY
    while True:
        try:
            comm.close(timeout=PATIENCE)
            return
        except sparkring.MismatchError:
            raise
        except sparkring.BusyError:  # a thread of f is in a call; one that stays there is left
            if time.monotonic() > until:
                return
            time.sleep(0.01)
        except sparkring.RingError:
            return


def explain_close(error: BaseException) -> None:
    """Say in the text of a mismatch what close() is, which the user has not called."""
    if isinstance(error, sparkring.MismatchError) and " called close() " in str(error):
        error.args = (f"{error}. A rank calls close() when its function has returned",)


def leave(error: BaseException | None) -> NoReturn:
    """End a forked process; the rank is the one that forked it."""
    code = 0
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        code = error.code or 0
    elif error is not None:
        traceback.print_exception(type(error), error, beyond_us(error))
        code = 1
    flush()
    os._exit(code & 0xFF)


def beyond_us(error: BaseException) -> Any:
    """Find where a traceback leaves this file and that of scripts, if it does."""
    ours = (__file__, script.__file__)
    entry = error.__traceback__
    while entry is not None and entry.tb_frame.f_code.co_filename in ours:
        entry = entry.tb_next
    return entry


# ---- In a Spark task -----------------------------------------------------------------------------


def task(job: Job, _: Iterable[Any]) -> Iterator[Outcome]:
    """Be the rank of this Spark task; for ``mapPartitions``."""
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    rank = context.partitionId()
    with Capture(rank, job.attempt, job.address, job.echo) as capture:
        others, unsettled = Tasks(context, job.key), ""
        with job.work.sources.folder():
            ended = child.call(lambda: play(job, rank, others, capture), others.adopt)
        outcome = lost(rank, ended, job) if isinstance(ended, int) else ended
        try:
            others.settle(outcome)
        except RankFailed as error:
            unsettled = str(error)
        outcome = replace(outcome, log=capture.finish())
    if unsettled:
        raise RankFailed(to_text(outcome, outcome.failure) if outcome.failure else unsettled)
    yield outcome


def lost(rank: int, status: int, job: Job) -> Outcome:
    """Describe the end of a rank whose process ended without an outcome."""
    how = describe(status) if status else "ended without a result, with exit code 0"
    return Outcome(rank, failure=Failure.lost(advise(how, here=job.here)))


def to_text(outcome: Outcome, failure: Failure) -> str:
    """Put an outcome into the text of an exception, which is all that Spark carries."""
    if len(failure.error or b"") > LARGEST:
        outcome = replace(outcome, failure=replace(failure, error=None))
    data = base64.b64encode(pickle.dumps(outcome)).decode()
    return f"rank {outcome.rank} {failure.what} <sparkring {data}>"


def from_text(text: str) -> Outcome | None:
    """Find an outcome in what Spark says about a failed job."""
    found = re.search(r"<sparkring ([A-Za-z0-9+/=]+)>", text)
    outcome = pickle.loads(base64.b64decode(found[1])) if found else None
    return outcome if isinstance(outcome, Outcome) else None
