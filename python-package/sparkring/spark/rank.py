# SPDX-License-Identifier: Apache-2.0
"""What a rank does: form the ring, call the function, and tell how it ended.

A rank that fails aborts the communicator, so that the others fail in their next call, and then
returns its failure like a value: the driver gets what every rank raised, and finds who was at
fault. Before it ends it waits until all ranks have got there (they *settle*). Those who have
succeeded wait as long as it takes. One that has failed waits `GRACE` seconds, and then fails its
Spark task, so that Spark ends the ranks that do not come.

A task never reads its partition. That tells PySpark not to use the process again, so every attempt
begins in one that no earlier attempt has touched.
"""

from __future__ import annotations

import base64
import contextlib
import pickle
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import sparkring
from sparkring import running
from sparkring.spark import pickling
from sparkring.spark.capture import Capture
from sparkring.spark.outcome import Failure, Outcome

if TYPE_CHECKING:
    from sparkring.spark.output import Address

GRACE = 5.0  # seconds from a failure until Spark ends ranks that are still at work
LARGEST = 1 << 18  # bytes of an exception in a text
COURTESY = 1.0  # seconds that those wait longer who only know of another's failure

Settle = Callable[[Outcome], None]


class RankFailed(Exception):  # noqa: N818 (nobody catches it)
    """Fails the Spark task of a rank, when others do not settle; carries how it ended."""


@dataclass(frozen=True)
class Job:
    """What all ranks of an attempt are told."""

    work: bytes = field(repr=False)  # (f, args, kwargs)
    options: dict[str, Any] = field(repr=False)  # of sparkring.init
    attempt: int
    address: Address | None  # of the driver that shows their output
    echo: bool  # whether their output is in their own log, too
    gpus: int = 0  # that each of them was promised

    def __repr__(self) -> str:
        """Tell nothing of the key in the address."""
        return f"Job(attempt={self.attempt})"


class Printer(Protocol):
    """Takes care of what a rank prints and reports."""

    def report(self, step: float, total: float | None, metrics: dict[str, Any]) -> None:
        """Send a report of progress."""

    def finish(self) -> tuple[str, ...]:
        """Give the last lines."""


def play(job: Job, rank: int, settle: Settle, printer: Printer) -> Outcome:
    """Be a rank."""
    comm = None
    value = failure = None
    try:
        running.begin(job.attempt, printer.report)
        comm = sparkring.init(**job.options)
        if job.gpus:  # before the function is read, which imports what it uses
            comm.gpus(job.gpus)
        value = pickling.dumps(call(job.work, comm))
    except BaseException as error:
        failure = Failure.of(error, beyond_us(error))
        if comm is not None:
            with contextlib.suppress(sparkring.RingError):  # a thread of f may be stuck in a call
                comm.abort(f"rank {rank} failed with {failure.name}")
    finally:
        running.begin(0, None)
    outcome = Outcome(rank, value, failure, printer.finish())
    if failure and job.echo:  # in the log; on the driver, that of the rank at fault is enough
        print(failure.traceback, file=sys.stderr, end="", flush=True)
    try:
        settle(outcome)
    except RankFailed:
        raise RankFailed(
            to_text(outcome, failure) if failure else f"rank {rank} was left"
        ) from None
    with contextlib.suppress(sparkring.RingError):
        if comm is not None:
            comm.close()  # all are here: it waits for nobody, unless another has failed
    return outcome


def call(work: bytes, comm: sparkring.Communicator) -> Any:
    """Call the function."""
    f, args, kwargs = pickling.loads(work)
    return f(comm, *args, **kwargs)


def beyond_us(error: BaseException) -> Any:
    """Find where a traceback leaves this file, if it does."""
    entry = error.__traceback__
    while entry is not None and entry.tb_frame.f_code.co_filename == __file__:
        entry = entry.tb_next
    return entry


# ---- In a Spark task -----------------------------------------------------------------------------


def task(job: Job, _: Iterable[Any]) -> Iterator[Outcome]:
    """Be the rank of this Spark task; for ``mapPartitions``."""
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    rank = context.partitionId()
    with Capture(rank, job.attempt, job.address, job.echo) as capture:
        yield play(job, rank, lambda outcome: settle_task(context, outcome), capture)


def settle_task(context: Any, outcome: Outcome) -> None:
    """Wait until the tasks of all ranks get here. Spark may end this one meanwhile."""
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            context.barrier()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=wait, name="sparkring settle", daemon=True)
    thread.start()
    if outcome.failure is None:
        thread.join()
        for error in errors:
            raise error
        return
    thread.join(GRACE)
    if thread.is_alive() or errors:
        time.sleep(COURTESY if outcome.failure.weight else 0)
        raise RankFailed


def to_text(outcome: Outcome, failure: Failure) -> str:
    """Put an outcome into the text of an exception, which is all that Spark carries."""
    if len(failure.error or b"") > LARGEST:
        outcome = replace(outcome, failure=replace(failure, error=None))
    data = base64.b64encode(pickle.dumps(outcome)).decode()
    return f"rank {outcome.rank} failed with {failure.name} <sparkring {data}>"


def from_text(text: str) -> Outcome | None:
    """Find an outcome in what Spark says about a failed job."""
    found = re.search(r"<sparkring ([A-Za-z0-9+/=]+)>", text)
    outcome = pickle.loads(base64.b64decode(found[1])) if found else None
    return outcome if isinstance(outcome, Outcome) else None
