# SPDX-License-Identifier: Apache-2.0
"""State of the run that a communicator belongs to: attempt, reporter, directory, recovery.

`sparkring.spark.run` sets the state before it calls the function. Elsewhere there is one attempt
and no reporter, and relative paths are those of this process.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sparkring._core import InvalidError

if TYPE_CHECKING:
    from sparkring._communicator import Communicator

Reporter = Callable[[float, "float | None", "dict[str, Any]"], None]


class Exchange(Protocol):
    """The exchange of ranks that form their ring again. It works until it is closed."""

    deadline: float  # of time.monotonic
    closed: bool

    def __call__(self, text: str, /) -> list[str]:
        """Return the texts of all ranks, in rank order."""


class Recovery(NamedTuple):
    """How a run whose lost ranks are replaced forms its ring again."""

    exchange: Exchange | None  # instead of that of the task; None where there is none
    replaces: bool  # whether this process takes the place of a lost rank


INTERVAL = 0.1  # seconds between two reports; earlier reports are dropped

_attempt = 0
_reporter: Reporter | None = None
_last = 0.0
_directory: str | None = "."
_communicator: Communicator | None = None
_grown: Communicator | None = None
_recovery: Recovery | None = None


def begin(attempt: int, reporter: Reporter | None, directory: str | None = ".") -> None:
    """Set the run of this process, and its directory, if it has one."""
    global _attempt, _reporter, _last, _directory, _communicator, _grown, _recovery
    _attempt, _reporter, _last, _directory = attempt, reporter, 0.0, directory
    _communicator = _grown = _recovery = None


def working_directory() -> Path | None:
    """Return the base of relative paths, the same on all ranks and in all attempts, or None."""
    return None if _directory is None else Path(_directory).absolute()


def spark_local_directory() -> str | None:
    """Find the first local directory of Spark's tasks; None for that of the system."""
    paths = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return next((path for path in paths if path and os.path.isdir(path)), None)


def tags_lines() -> bool:
    """Return whether the run puts the rank before each line of this process."""
    return _reporter is not None


def set_communicator(comm: Communicator) -> None:
    """Let `sparkring.init` return the communicator of the run, while it is open."""
    global _communicator
    _communicator = comm


def open_communicator() -> Communicator | None:
    """Return the open communicator for the script of this run, if there is one."""
    return _communicator if _communicator is not None and _communicator.usable else None


def set_grown(comm: Communicator) -> None:
    """Keep the communicator that the ranks of a run have formed again, or shrunk to."""
    global _communicator, _grown
    if _reporter is not None:
        _grown = comm
    if _communicator is not None:
        _communicator = comm


def grown() -> Communicator | None:
    """Return the communicator that the ranks of this run have formed again, if they have."""
    return _grown


def set_recovery(found: Recovery) -> None:
    """Let the ranks of this run form their ring again."""
    global _recovery
    _recovery = found


def recovery() -> Recovery | None:
    """Return how the ring forms again; None where lost ranks are not replaced."""
    return _recovery


def attempt() -> int:
    """Return the number of earlier launches of the ranks, from 0."""
    return _attempt


def progress(self: Communicator, step: float, total: float | None = None, **metrics: float) -> None:
    """Report the progress of this rank to the driver of `sparkring.spark.run`.

    The driver shows one bar: the least step of the ranks that report, and the metrics of the lowest
    of these ranks. Not a collective: any rank may call it at any time, and one rank suffices. The
    call never blocks. Of reports less than 0.1 s apart only the first and the last step are sent.
    Outside `sparkring.spark.run` it does nothing.

    Parameters
    ----------
    step : float
        The completed amount of work.
    total : float, optional
        The whole amount of work.
    **metrics : float
        Further numbers to show, by name, such as ``loss``.

    Raises
    ------
    InvalidError
        When an argument is no number that a float can hold, ``step`` or ``total`` is not finite, or
        the report is larger than 32 KiB.

    Examples
    --------
    >>> for step in range(100):
    ...     comm.progress(step + 1, 100, loss=loss)
    """
    global _last
    reporter = _reporter  # a thread may call this while the rank ends
    if reporter is None:
        return
    now = time.monotonic()
    if now - _last < INTERVAL and step != total:
        return
    _last = now
    numbers = {name: _number(name, value) for name, value in metrics.items()}
    reporter(_bound("step", step), None if total is None else _bound("total", total), numbers)


def _bound(name: str, value: Any) -> float:
    number = _number(name, value)
    if not math.isfinite(number):
        raise InvalidError(f"{name} is {number}: progress takes finite numbers")
    return number


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
        return value if type(value) is int else number
    except OverflowError:
        raise InvalidError(
            f"{name} is too large: progress takes numbers that a float can hold"
        ) from None
    except (TypeError, ValueError):
        raise InvalidError(
            f"{name} is of type {type(value).__name__}: progress takes numbers"
        ) from None
