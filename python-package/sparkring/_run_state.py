# SPDX-License-Identifier: Apache-2.0
"""State of the run that a communicator belongs to: the attempt, the reporter, the folder.

`sparkring.spark.run` sets the state before it calls the function. Elsewhere there is one attempt
and no reporter, and relative paths are those of this process.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparkring._core import Communicator, InvalidError
from sparkring._method import attribute, method

Reporter = Callable[[float, "float | None", "dict[str, Any]"], None]

OFTEN = 0.1  # seconds between two reports; those that come sooner are left out

_attempt = 0
_reporter: Reporter | None = None
_last = 0.0
_folder: str | None = "."
_lent: Communicator | None = None


def begin(attempt: int, reporter: Reporter | None, folder: str | None = ".") -> None:
    """Note what run this process belongs to from now on, and its folder, if it has one."""
    global _attempt, _reporter, _last, _folder, _lent
    _attempt, _reporter, _last, _folder, _lent = attempt, reporter, 0.0, folder, None


def folder() -> Path | None:
    """Where relative paths begin, on all ranks and in all attempts; None if there is no such."""
    return None if _folder is None else Path(_folder).absolute()


def spark_folder() -> str | None:
    """Find the first of the folders that Spark has given its tasks; None for that of the system."""
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return next((folder for folder in folders if folder and os.path.isdir(folder)), None)


def lend(comm: Communicator) -> None:
    """Let `sparkring.init` give the communicator of the run, as long as it is open."""
    global _lent
    _lent = comm


def lent() -> Communicator | None:
    """Give the open communicator that a script of this run is to get, if there is one."""
    return _lent if _lent is not None and _lent.usable else None


@attribute
def attempt(self: Communicator) -> int:
    """How often `sparkring.spark.run` has launched the ranks before this time: 0 at first."""
    return _attempt


@method
def progress(self: Communicator, step: float, total: float | None = None, **metrics: float) -> None:
    """Tell the driver of `sparkring.spark.run` how far this rank is.

    The driver shows one bar: the least step of the ranks that report, and the metrics of the lowest
    of them. Not a collective: any ranks may call it, as often as they like, one alone suffices. It
    waits for nobody, and of reports less than 0.1 s apart only the first and the last step are
    sent. Outside of `sparkring.spark.run` it does nothing.

    Parameters
    ----------
    step : float
        How much is done.
    total : float, optional
        How much there is to do.
    **metrics : float
        What else to show, by name, such as ``loss``.

    Raises
    ------
    InvalidError
        When one of these is no number that a float can hold, step or total is not finite, or all of
        them take more than 32 KiB.

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
    if now - _last < OFTEN and step != total:
        return
    _last = now
    numbers = {name: _number(name, value) for name, value in metrics.items()}
    reporter(_bound("step", step), None if total is None else _bound("total", total), numbers)


def _bound(name: str, value: Any) -> float:
    number = _number(name, value)
    if not math.isfinite(number):
        raise InvalidError(f"{name} is {number}: progress takes what can be reached")
    return number


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
        return value if type(value) is int else number
    except OverflowError:
        raise InvalidError(f"{name} is too large: progress takes what a float can hold") from None
    except (TypeError, ValueError):
        raise InvalidError(
            f"{name} is of type {type(value).__name__}: progress takes numbers"
        ) from None
