# SPDX-License-Identifier: Apache-2.0
"""The context of a process: its communicator, the reducer of all ranks, and the process sets.

A process has one context, as Horovod has. PyTorch's, Keras's and TensorFlow's front ends share it.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import sparkring
from sparkring import _opening, _run_state
from sparkring._communicator import Communicator
from sparkring._core import RingError
from sparkring._horovod.arguments import check_type
from sparkring._horovod.errors import HorovodInternalError, internal_errors
from sparkring._horovod.group import Group
from sparkring._horovod.pending import forget, in_flight
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring._horovod.settings import Settings


class _Context:
    """The open communicator and what was made from it."""

    def __init__(self, comm: Communicator, owns: bool, settings: Settings) -> None:
        self.comm, self.owns, self.settings = comm, owns, settings
        everyone = list(range(comm.size))
        with internal_errors():
            table = comm.allgather(np.array([comm.local_rank, comm.local_size]))
        self.cross = [r for r in everyone if table[r][0] == comm.local_rank]
        self.homogeneous = len({int(row[1]) for row in table}) == 1
        self.sets: list[ProcessSet] = []
        self.numbers = 0
        group = Group(comm, tuple(everyone), settings)
        global_process_set.open(0, everyone, group)
        if settings.timeline:
            comm.start_timeline(settings.timeline, settings.mark_cycles)


_context: _Context | None = None
_changing = threading.RLock()


def context() -> _Context:
    """Return the context. Raise ValueError before `init`."""
    if _context is None:
        raise ValueError("Horovod's API has not been initialized: call init() first")
    return _context


def group(process_set: ProcessSet = global_process_set) -> Group:
    """Return the group of a process set. Raise ValueError outside it and before `init`."""
    context()
    check_type("process_set", process_set, ProcessSet, "what add_process_set() has returned")
    return process_set.group()


def process_set_of(process_set_id: int) -> ProcessSet:
    """Return a process set by its number. Raise ValueError when none in use has it."""
    for each in [global_process_set, *context().sets]:
        if each.process_set_id == process_set_id:
            return each
    raise ValueError(f"no process set in use has the number {process_set_id}")


# ---- Life ----------------------------------------------------------------------------------------


def init(
    comm: Communicator | None = None,
    process_sets: Sequence[ProcessSet] | str | None = None,
    **options: Any,
) -> None:
    """Find the other ranks. Collective; without effect while initialized.

    Parameters
    ----------
    comm : Communicator
        An open communicator, which `shutdown` leaves open. By default the communicator that is open
        in this process, as in a function of `sparkring.spark.run`, else a new one of
        `sparkring.init`.
    process_sets : list of ProcessSet, or "dynamic"
        Sets to add at once. "dynamic" adds none.
    **options
        Arguments of `sparkring.init` for a new communicator.

    Raises
    ------
    ValueError
        For invalid arguments and variables.
    HorovodInternalError
        When ranks are missing or fail.
    """
    global _context
    with _changing:
        if _context is not None:
            return
        if comm is not None and not isinstance(comm, Communicator):
            raise ValueError(
                f"comm is of type {type(comm).__name__}: pass an open sparkring.Communicator; for"
                " a part of the ranks, Communicator.split makes it"
            )
        settings = Settings.read()
        opened = comm if comm is not None else _opening.current()
        owns = opened is None
        if opened is None:
            if settings.warn_after is not None:
                options.setdefault("warn_after", settings.warn_after)
            with internal_errors():
                opened = sparkring.init(**options)
        _context = _Context(opened, owns, settings)
        if process_sets is not None and not isinstance(process_sets, str):
            for each in process_sets:
                _add(each)


def shutdown() -> None:
    """Wait for the other ranks, and end. Collective.

    Operations in flight, whose handles were not waited for, fail on all ranks. Operations of other
    ranks that wait for this rank fail at once. The communicator that `init` has opened is closed.
    `init` may follow.
    """
    global _context
    with _changing:
        ending, _context = _context, None
        if ending is None:
            return
        if count := in_flight():
            for each in [*ending.sets, global_process_set]:
                if each._group is not None:
                    each._group.reducer.abort(f"shutdown() with {count} operations in flight")
        forget()
        for each in [*ending.sets, global_process_set]:
            if each._group is not None:
                with contextlib.suppress(RingError):  # close() tells
                    each._group.reducer.leave()
        for each in [*ending.sets, global_process_set]:
            _close(each)
        if ending.owns:
            try:
                ending.comm.close()
            except RingError as error:
                ending.comm.abort(str(error))


def _close(process_set: ProcessSet) -> None:
    ended = process_set._group
    process_set.close()
    if ended is None:
        return
    ended.close()
    if process_set is not global_process_set:
        with contextlib.suppress(RingError):
            ended.comm.close()


def abandon(reason: str) -> None:
    """End from this rank alone: operations of all ranks fail with the reason."""
    global _context
    with _changing:
        ending, _context = _context, None
        if ending is None:
            return
        forget()
        for each in [*ending.sets, global_process_set]:
            if each._group is not None:
                each._group.reducer.abort(reason)
            each.close()
        if ending.owns:
            ending.comm.abort(reason)


def begin_anew(error: Exception) -> None:
    """Make new reducers after a failed operation, without what was in flight. Collective.

    Where the communicator has failed, too, all ranks form it again (`Communicator.grow`). Process
    sets are added again, in the same order. After an error the call can be repeated.

    Raises
    ------
    Exception
        ``error``, when the communicator has failed and the caller's run does not replace ranks:
        only the caller can open another.
    HorovodInternalError
        When ranks are missing or fail.
    """
    global _context
    with _changing:
        now = context()
        if not now.comm.usable and not now.owns and _run_state.recovery() is None:
            raise error
        for each in [*now.sets, global_process_set]:
            if each._group is not None:
                each._group.reducer.abort(str(error))
            each.close()
        forget()
        with internal_errors():
            if not now.comm.usable:
                now.comm = now.comm.grow()
        anew = _Context(now.comm, now.owns, now.settings)
        _context = anew
        try:
            for each in now.sets:
                _add(each)
        except HorovodInternalError:
            _context = now
            raise


def _end_with_process() -> None:
    """Shut down, as a script expects that does not; after an exception abort instead."""
    error = getattr(sys, "last_value", None)
    if error is not None:
        abandon(f"{type(error).__name__}: {error}")
    else:
        shutdown()


atexit.register(_end_with_process)  # after that of _init, so it runs before


def is_initialized() -> bool:
    """Tell whether `init` was called, and `shutdown` was not.

    Returns
    -------
    bool
    """
    return _context is not None


# ---- Process sets --------------------------------------------------------------------------------


def add_process_set(process_set: ProcessSet | Iterable[int]) -> ProcessSet:
    """Add a process set. Collective: all ranks call it with the same ranks, in the same order.

    Parameters
    ----------
    process_set : ProcessSet or iterable of int
        The set, or its ranks.

    Returns
    -------
    ProcessSet

    Raises
    ------
    ValueError
        For ranks that do not exist, for a set of the same ranks as an earlier one, and when
        HOROVOD_DYNAMIC_PROCESS_SETS is 0.
    HorovodInternalError
        When ranks pass different sets or fail.
    """
    with _changing:
        if not context().settings.dynamic_process_sets:
            raise ValueError(
                "HOROVOD_DYNAMIC_PROCESS_SETS is 0: pass the process sets to init(process_sets=)"
            )
        return _add(process_set)


def _add(given: ProcessSet | Iterable[int]) -> ProcessSet:
    now = context()
    process_set = given if isinstance(given, ProcessSet) else ProcessSet(given)
    ranks = process_set.ranks or []
    with internal_errors():
        everywhere = now.comm._allgather_strings([str(ranks)])
        if any(texts != everywhere[0] for texts in everywhere):
            sets = ", ".join(f"rank {r}: {texts[0]}" for r, texts in enumerate(everywhere))
            raise HorovodInternalError(f"ranks add different process sets: {sets}")
    if process_set.process_set_id is not None:
        raise ValueError(f"{process_set!r} has been added already")
    if not ranks or ranks[0] < 0 or ranks[-1] >= now.comm.size:
        raise ValueError(f"a process set has the ranks {ranks}: pass ranks below {now.comm.size}")
    if any(each.ranks == ranks for each in [global_process_set, *now.sets]):
        raise ValueError(f"a process set of the ranks {ranks} exists already")
    with internal_errors():
        part = now.comm.split(0 if now.comm.rank in ranks else None)
    now.numbers += 1
    members = None if part is None else Group(part, tuple(ranks), now.settings, now.numbers)
    process_set.open(now.numbers, ranks, members)
    now.sets.append(process_set)
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Remove a process set. Collective: all ranks call it.

    Parameters
    ----------
    process_set : ProcessSet
        The set to remove.

    Returns
    -------
    bool
        False for the global set and for a set that is not in use.
    """
    with _changing:
        now = context()
        if not any(each is process_set for each in now.sets):
            return False
        now.sets = [each for each in now.sets if each is not process_set]
        _close(process_set)
        return True
