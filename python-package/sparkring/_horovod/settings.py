# SPDX-License-Identifier: Apache-2.0
"""The variables HOROVOD_*, as arguments of `sparkring.init` and `Communicator.reducer`.

`Settings.read` reads the variables at each `init`, so a script may set them before.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

_LONGEST_CYCLE = 5.0  # milliseconds; a reducer gathers no longer

_warned: set[str] = set()


class Settings(NamedTuple):
    """The settings of the variables; None stands for the default of the core."""

    threshold: int | None
    cycle_time: float | None
    cache_capacity: int | None
    warn_after: float | None
    stall_timeout: float | None
    autotune: bool
    autotune_log: str | None
    timeline: str | None
    mark_cycles: bool
    dynamic_process_sets: bool

    @classmethod
    def read(cls) -> Settings:
        """Read the environment. Raise ValueError for a value that is no number."""
        autotune = bool(_flag("HOROVOD_AUTOTUNE"))
        timeline = os.environ.get("HOROVOD_TIMELINE")
        warn_after = _number("HOROVOD_STALL_CHECK_TIME_SECONDS", float)
        return cls(
            threshold=_at_least_one(_number("HOROVOD_FUSION_THRESHOLD", int)),
            cycle_time=_cycle_time(),
            cache_capacity=_at_least_one(_number("HOROVOD_CACHE_CAPACITY", int)),
            warn_after=0.0 if _flag("HOROVOD_STALL_CHECK_DISABLE") else warn_after,
            stall_timeout=_stall_timeout(),
            autotune=autotune,
            autotune_log=(os.environ.get("HOROVOD_AUTOTUNE_LOG") or None) if autotune else None,
            timeline=None if timeline in (None, "", "DYNAMIC") else timeline,
            mark_cycles=bool(_flag("HOROVOD_TIMELINE_MARK_CYCLES")),
            dynamic_process_sets=_flag("HOROVOD_DYNAMIC_PROCESS_SETS") is not False,
        )


def _stall_timeout() -> float | None:
    """Return Horovod's 0, by which stalled operations wait for ever, as the reducer's infinity."""
    seconds: float | None = _number("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", float)
    return math.inf if seconds == 0 else seconds


def _cycle_time() -> float | None:
    milliseconds: float | None = _number("HOROVOD_CYCLE_TIME", float)
    if milliseconds is None:
        return None
    if milliseconds > _LONGEST_CYCLE:
        _warn(
            f"HOROVOD_CYCLE_TIME is {milliseconds:g} ms, and submissions gather for at most"
            f" {_LONGEST_CYCLE:g} ms: the reducer uses {_LONGEST_CYCLE:g} ms"
        )
    return min(milliseconds, _LONGEST_CYCLE) / 1000


def _at_least_one(number: int | None) -> int | None:
    """Return 1 for Horovod's 0, which turns fusion or the cache off."""
    return None if number is None else max(number, 1)


def _number(name: str, kind: Callable[[str], Any]) -> Any:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    try:
        number = kind(text)
    except ValueError:
        number = -1
    if not number >= 0:
        raise ValueError(f"{name} is {text!r}: set a number that is not negative")
    return number


def _flag(name: str) -> bool | None:
    """Return None for a variable that is not set."""
    text = os.environ.get(name, "").strip().lower()
    return None if not text else text not in ("0", "false", "no", "off")


def _warn(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, RuntimeWarning, stacklevel=2)
