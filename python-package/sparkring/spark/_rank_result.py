# SPDX-License-Identifier: Apache-2.0
"""The result of a rank, and which rank is at fault when one has failed.

A failure breaks the communicator, so all ranks fail soon after the first failure. The weights of
core/bindings/blame.h identify the first failure.
"""

from __future__ import annotations

import re
import socket
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sparkring import _core
from sparkring._core import RingError
from sparkring.spark import _closure_codec as closure_codec
from sparkring.spark import _preflight as preflight

if TYPE_CHECKING:
    from sparkring.spark._results import Receipt

LONGEST = 1 << 16  # characters of a traceback
LINE = 120  # characters of a line of Spark's error
KILLED = r"SIGKILL|(?:code|status)\W{1,3}137\b|memory limits?|OOMKilled"
ENDED = r"SIGTERM|(?:code|status)(?: is|\W)\W{0,2}143\b"
MEMORY = "probably out of memory: raise spark.executor.memoryOverhead"
MEMORY_HERE = "probably out of memory: start fewer ranks, or add memory to this machine"
OUTSIDE = "preempted, or over a memory limit: see the cluster manager's log"


class RankError(RuntimeError):
    """A rank of `sparkring.spark.run` failed.

    `run` raises the exception of the rank, with the `RankError` as its ``__cause__``. Where the
    rank was killed, or its exception cannot be raised here, `run` raises the `RankError` itself.

    Attributes
    ----------
    rank : int or None
        The rank at fault; None if it is unknown.
    host : str
        The host of the rank; empty if it is unknown.
    attempt : int
        The number of the launch, from 0.
    remote_traceback : str
        The traceback of the rank; empty for a rank that was killed.
    log : list of str
        The last lines of the rank's output.
    what : str
        How the rank failed, in words that follow the name of the rank.

    The ``__cause__`` is a `SparkError` where Spark reported the failure.
    """

    __module__ = "sparkring.spark"  # the package from which users import it

    rank: int | None = None
    host: str = ""
    attempt: int = 0
    remote_traceback: str = ""
    log: list[str] = []  # noqa: RUF012 (of the instance, when there are lines)
    what: str = ""


class SparkError(RuntimeError):
    """An error of Spark in one line.

    Attributes
    ----------
    text : str
        The full message of Spark, with the stack trace of its JVM.
    error : Exception
        Spark's own exception.
    """

    def __init__(self, error: Exception) -> None:
        self.error, self.text = error, str(error)
        first = preflight.text_of(error).strip().partition("\n")[0]
        super().__init__(f"{first[:LINE]} ... (its attribute text has the whole message)")


@dataclass(frozen=True)
class Failure:
    """The exception of a rank, or the end of its process."""

    name: str
    error: bytes | None = field(repr=False)  # a pickle, where one is possible
    traceback: str = field(repr=False)
    weight: float
    when: float
    how: str = ""  # the end of a rank without an exception

    @property
    def what(self) -> str:
        """The failure in words, to follow the name of the rank."""
        return self.how or f"failed with {self.name}"

    @classmethod
    def lost(cls, how: str) -> Failure:
        """Describe the end of a process. Errors of the ring on other ranks weigh less."""
        return cls("", None, "", _core.blame_weight(["ENDED"]), time.time(), how)

    @classmethod
    def of(cls, error: BaseException, first: TracebackType | None) -> Failure:
        """Describe an exception; the traceback begins at `first`."""
        lines = traceback.format_exception(type(error), error, first)
        return cls(
            name=type(error).__name__,
            error=closure_codec.dumps_error(error),
            traceback="".join(lines)[-LONGEST:],
            weight=_core.blame_weight([str(ring.status) for ring in chain(error)]),
            when=time.time(),
        )


@dataclass(frozen=True)
class RankResult:
    """How a rank ended: with a value, or a failure."""

    rank: int
    value: bytes | bytearray | None = field(default=None, repr=False)
    failure: Failure | None = None
    log: tuple[str, ...] = ()
    host: str = field(default_factory=socket.gethostname)
    kind: str = ""  # the type of the value
    receipt: Receipt | None = None  # of a value that is sent separately
    rows: bytes | None = field(default=None, repr=False)  # of schema=, which stay in Spark


def chain(error: BaseException) -> Iterator[RingError]:
    """List the errors of the ring in the chain of an exception."""
    seen: set[int] = set()
    next_error: BaseException | None = error
    while next_error is not None and id(next_error) not in seen:
        seen.add(id(next_error))
        if isinstance(next_error, RingError):
            yield next_error
        next_error = next_error.__cause__ or next_error.__context__


def culprit(rank_results: Iterable[RankResult]) -> RankResult | None:
    """Find the rank at fault; None when no rank has failed."""
    failed = [
        (rank_result.failure, rank_result)
        for rank_result in rank_results
        if rank_result.failure is not None
    ]
    if not failed:
        return None
    blames = [(failure.weight, failure.when, rank_result.rank) for failure, rank_result in failed]
    return failed[_core.blame_first(blames)][1]


def advise(what: str, *, here: bool = False) -> str:
    """Add the probable reason to the end of a process, and the remedy."""
    if re.search(KILLED, what):
        return f"{what} ({MEMORY_HERE if here else MEMORY})"
    if re.search(ENDED, what) and not here:
        return f"{what} ({OUTSIDE})"
    return what


def rank_error(
    what: str,
    *,
    rank: int | None = None,
    host: str = "",
    attempt: int = 0,
    remote_traceback: str = "",
    log: Iterable[str] = (),
) -> RankError:
    """Make the error of a rank, with all known details in its text."""
    lines = list(log)
    name = "a rank" if rank is None else f"rank {rank}"
    text = f"{name}{f' on {host}' if host else ''} {what}"
    if attempt:
        text += f" (attempt {attempt})"
    if remote_traceback:
        text += f"\n\n{remote_traceback.rstrip()}"
    if lines:
        text += "\n\nThe last lines of its log:\n" + "\n".join(f"  {line}" for line in lines)
    error = RankError(text)
    error.rank, error.host, error.attempt = rank, host, attempt
    error.remote_traceback, error.log, error.what = remote_traceback, lines, what
    return error


def to_raise(rank_result: RankResult, attempt: int) -> BaseException:
    """Make the exception that `run` raises for a rank that failed."""
    failure = rank_result.failure
    assert failure is not None
    cause = rank_error(
        failure.what,
        rank=rank_result.rank,
        host=rank_result.host,
        attempt=attempt,
        remote_traceback=failure.traceback,
        log=rank_result.log,
    )
    error = closure_codec.loads_error(failure.error)
    if error is None:
        return cause
    error.__cause__ = cause
    return error


def values(rank_results: Iterable[RankResult], attempt: int = 0) -> list[Any]:
    """Read the return values of the ranks."""
    return [
        value(rank_result, attempt) for rank_result in rank_results if rank_result.value is not None
    ]


def value(rank_result: RankResult, attempt: int) -> Any:
    """Read the return value of a rank; raise a `RankError` when it cannot be read here."""
    assert rank_result.value is not None
    try:
        return closure_codec.loads(rank_result.value)
    except Exception as error:
        raise rank_error(
            f"returned a value of type {rank_result.kind} that cannot be read here:"
            f" {type(error).__name__}: {error}. Its modules must be those of this process, too; or"
            " return numbers, arrays, and lists and dictionaries of them",
            rank=rank_result.rank,
            host=rank_result.host,
            attempt=attempt,
        ) from error
