# SPDX-License-Identifier: Apache-2.0
"""The communicator that this process has opened last, and how it is formed again.

A process has one communicator at a time: ranks that used two communicators in different orders
would wait for each other for ever. Spark reuses its Python workers. So a Spark task that opens a
communicator aborts one that an earlier task has left open.

`grow` opens the same communicator again: the processes that live keep their memory, and processes
that took the place of others join them by the rendezvous. It is a rendezvous as the first one,
under new keys or a new epoch, so nothing of the old communicator reaches the new one.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sparkring import _barrier_task as barrier_task
from sparkring import _core
from sparkring import _options as options
from sparkring import _run_state as run_state
from sparkring._core import (
    AbortedError,
    AuthError,
    BusyError,
    InvalidError,
    PeerLostError,
    TimeoutError,  # noqa: A004
    UnsupportedError,
)

if TYPE_CHECKING:
    from sparkring._communicator import Communicator

TIMEOUT = 300.0  # seconds, by default
PATIENCE = 5.0  # seconds of the first try; each further try has twice as long
MISSED = (AbortedError, AuthError, PeerLostError, TimeoutError)  # a rank was lost meanwhile


class Opening(NamedTuple):
    """The arguments of the core's ``open``."""

    rank: int
    size: int
    addresses: tuple[str, ...] | None
    root_address: str | None
    token: bytes | None
    job: str | None
    ports: tuple[int, int]
    timeout: float
    call_timeout: float
    warn_after: float
    algorithms: str | None
    exchange: Callable[[str], Sequence[str]] | None
    shared_memory: bool
    connections: int
    encryption: bool | None
    watch_parent: bool
    backend: str | None


class _Opened(NamedTuple):
    communicator: weakref.ref[Communicator]
    process: int
    attempt: int | None  # of the Spark task
    opening: Opening


_last: _Opened | None = None
_lock = threading.Lock()


def open_first(kind: type[Communicator], opening: Opening, attempt: int | None) -> Communicator:
    """Open the communicator of this process.

    A rank that takes the place of another tries until the others are there, too.
    """
    with _alone("sparkring.init()"):
        _end_previous(attempt)
        recovery = run_state.recovery()
        form = _form_again if recovery and recovery.replaces else _form
        return _note(form(kind, opening), attempt, opening)


def current() -> Communicator | None:
    """Return the open communicator of this process, unless another Spark task has opened it."""
    if _last is None or _last.process != os.getpid():
        return None
    communicator = _last.communicator()
    if communicator is None or not communicator.usable or _last.attempt != barrier_task.attempt():
        return None
    return communicator


def grow(self: Communicator, timeout: float | None = None) -> Communicator:
    """Form the communicator again, with all ranks: those that live, and those started anew.

    A process that takes the place of a lost rank calls `sparkring.init` as the lost one did. The
    other ranks call `grow`, and keep their memory. Both return when all ranks are there. This
    communicator ends: use the returned one, whose ranks and options are those of `sparkring.init`.
    `Communicator.shrink` makes one of the living ranks alone.

    What was made from this one (`split`, `messages`, `reducer`, `device`) must be made again, and a
    timeline started again.

    `sparkring.spark.run` with ``recovery="replace"`` starts lost ranks anew. Elsewhere whoever has
    started the ranks must do so.

    Parameters
    ----------
    timeout : float, optional
        Seconds until all ranks must be there; by default the ``timeout`` of `sparkring.init`. A
        rank that is lost meanwhile, too, is awaited again.

    Returns
    -------
    Communicator

    Raises
    ------
    InvalidError
        Where this is not the last communicator that `sparkring.init`, `grow` or
        `Communicator.shrink` has returned in this process.
    TimeoutError
        When ranks are missing.
    PeerLostError
        When a rank has ended for good, so that the ring cannot form again.
    BusyError
        While another thread is in a call of the communicator.
    UnsupportedError
        In `sparkring.spark.run` without ``recovery="replace"``. Where the communicator has failed,
        its error.

    Notes
    -----
    A rank that takes the place of another begins anew, so ranks must share what they know. Begin
    each part of the work with the state of the rank that has advanced farthest. What a function
    does before, the new process does alone: calls of all ranks belong behind this beginning.

    Examples
    --------
    >>> def train(comm):
    ...     step, weights = 0, numpy.zeros(3)
    ...     while True:
    ...         try:
    ...             farthest = int(comm.allgather(step).argmax())
    ...             step, weights = comm.broadcast_object((step, weights), farthest)
    ...             while step < 100:
    ...                 weights = weights + comm.allreduce(gradient(weights))
    ...                 step += 1
    ...             return weights
    ...         except sparkring.RingError:
    ...             comm = comm.grow()
    >>> run(train, num_proc=4, max_restarts=3, recovery="replace")
    """
    seconds = options.check_seconds("timeout", timeout)
    with _alone("sparkring.init() or grow()"):
        if _last is not None and _last.process != os.getpid():
            raise InvalidError("this communicator belongs to the process that forked this one")
        if _last is None or _last.communicator() is not self:
            raise InvalidError(
                "grow() is for the last communicator that init(), grow() or shrink() has returned"
                f" in this process, which {self!r} is not"
            )
        if run_state.tags_lines() and run_state.recovery() is None:
            if not self.usable:
                self.barrier()  # raises the error that has ended the communicator
            raise UnsupportedError(
                "this run launches all ranks again after a failure: to replace lost ranks, pass"
                " recovery='replace' to run()"
            )
        self.abort("it called grow()")
        opening = _last.opening
        if seconds:
            opening = opening._replace(timeout=seconds)
        grown = _note(_form_again(type(self), opening), _last.attempt, _last.opening)
    run_state.set_grown(grown)
    return grown


def follow(old: Communicator, new: Communicator) -> None:
    """Let the communicator that `old` was shrunk to take its place, if it was the last one."""
    global _last
    if _last is not None and _last.communicator() is old:
        _last = _last._replace(communicator=weakref.ref(new))
        run_state.set_grown(new)


@contextlib.contextmanager
def _alone(where: str) -> Iterator[None]:
    if not _lock.acquire(blocking=False):
        raise BusyError(f"another thread of this process is in {where}")
    try:
        yield
    finally:
        _lock.release()


def _note(communicator: Communicator, attempt: int | None, opening: Opening) -> Communicator:
    """Make this the last communicator, which nothing here keeps alive."""
    global _last
    _last = _Opened(weakref.ref(communicator), os.getpid(), attempt, opening)
    return communicator


def _form(kind: type[Communicator], opening: Opening) -> Communicator:
    return _core.open(kind, *opening)


def _form_again(kind: type[Communicator], opening: Opening) -> Communicator:
    """Try until all ranks are there.

    With the exchange of a run a rank that is lost after it may be noticed only at the end of a try.
    """
    deadline, patience = time.monotonic() + (opening.timeout or TIMEOUT), PATIENCE
    recovery = run_state.recovery()
    exchange = recovery and recovery.exchange
    if exchange:
        exchange.deadline = deadline
        opening = opening._replace(exchange=exchange)
    while True:
        left = max(deadline - time.monotonic(), 0.1)
        if exchange:
            opening = opening._replace(timeout=min(patience, left))
        try:
            return _form(kind, opening)
        except MISSED:
            if time.monotonic() >= deadline or (exchange and exchange.closed):
                raise
        patience *= 2


def _end_previous(attempt: int | None) -> None:
    """Refuse a second communicator, unless another Spark task has left the first one open."""
    if _last is None or _last.process != os.getpid():
        return
    communicator = _last.communicator()
    if communicator is None or not communicator.usable:
        return
    if attempt == _last.attempt:
        raise InvalidError(
            f"this process has an open communicator, {communicator!r}: use it, or close it"
            " before the next init()"
        )
    communicator.abort("its Spark task ended without closing it")
