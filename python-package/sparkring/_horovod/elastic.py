# SPDX-License-Identifier: Apache-2.0
"""Training that goes on after a failure.

The number of ranks does not change during a run. An operation that has failed on all ranks, such as
a stalled one, leaves all processes alive: states go back to the last commit, in memory. So do those
of the other ranks when a rank has died and `sparkring.spark.run` replaces it
(``recovery="replace"``): the new process gets the state of a rank that lives. Elsewhere a rank that
has died ends the job: ``max_restarts``, Spark or the user's scheduler launches all ranks again, and
`run` restores the last commit from its checkpoint.
"""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkring._horovod import context
from sparkring._horovod.errors import HorovodInternalError, internal_errors
from sparkring._horovod.objects import broadcast_object

_MOST_FAILURES = 3  # without a commit between them


class State:
    """The state that training changes, and goes back to after a failure.

    Subclasses say how to `save`, `restore` and `sync`, and how to `dump` and `load` for a
    checkpoint.

    Parameters
    ----------
    **kwargs : object
        Ignored; for subclasses.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._callbacks: list[Callable[[], None]] = []
        self._checkpoint: Any = None
        self._failures = 0
        self._commits = -1  # -1: before the first sync()
        self._root = 0  # the rank whose state all get

    def register_reset_callbacks(self, callbacks: list[Callable[[], None]]) -> None:
        """Have functions called after a failure, before training goes on.

        Parameters
        ----------
        callbacks : list of callable
            Functions without arguments, called in this order.
        """
        self._callbacks.extend(callbacks)

    def commit(self) -> None:
        """Save the state, in memory and in the checkpoint of `run`."""
        self.save()
        self._failures = 0
        self._commits += 1
        if self._checkpoint is not None:
            self._checkpoint.save(self.dump())

    def check_host_updates(self) -> None:
        """Do nothing: hosts do not change during a run."""

    def on_reset(self) -> None:
        """Go on after a failure: call `reset` and the callbacks."""
        self.reset()
        for callback in self._callbacks:
            callback()

    def reset(self) -> None:
        """Do what a subclass must after a failure."""

    def save(self) -> None:
        """Keep a copy of the state in memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Go back to the last copy."""
        raise NotImplementedError

    def sync(self) -> None:
        """Give all ranks the state of rank 0, or of one that lives if a rank was replaced."""
        raise NotImplementedError

    def dump(self) -> Any:
        """Return the last copy, for a checkpoint.

        Returns
        -------
        object
            Anything that can be pickled.
        """
        raise NotImplementedError

    def load(self, saved: Any) -> None:
        """Take a copy out of a checkpoint for the last one, and go back to it.

        Parameters
        ----------
        saved : object
            What `dump` has returned.
        """
        raise NotImplementedError


class ObjectState(State):
    """A state of plain Python objects.

    Parameters
    ----------
    **kwargs
        Attributes of the state, and their first values: ``ObjectState(epoch=0, batch=0)``.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        self._names = list(kwargs)
        for name, value in kwargs.items():
            setattr(self, name, value)
        self._saved: dict[str, Any] = {}
        self._keep()

    def _keep(self) -> None:
        self._saved = {name: copy.deepcopy(getattr(self, name)) for name in self._names}

    def _go_back(self) -> None:
        for name, value in self._saved.items():
            setattr(self, name, copy.deepcopy(value))

    def save(self) -> None:
        """Keep a copy of the attributes in memory."""
        self._keep()

    def restore(self) -> None:
        """Go back to the last copy."""
        self._go_back()

    def sync(self) -> None:
        """Give all ranks the last copy of rank 0, or of one that lives if a rank was replaced."""
        if self._names:
            self._saved = broadcast_object(self._saved, self._root, "elastic")
            self._go_back()

    def dump(self) -> Any:
        """Return the last copy.

        Returns
        -------
        dict
            The attributes by name.
        """
        return self._saved

    def load(self, saved: Any) -> None:
        """Take a copy out of a checkpoint.

        Parameters
        ----------
        saved : dict
            What `dump` has returned. Attributes that it lacks keep their values.
        """
        self._saved = {**self._saved, **saved}
        self._go_back()


def run(
    func: Callable[..., Any] | None = None, *, checkpoint: str | os.PathLike[str] | None = None
) -> Any:
    """Make a function of a state go on after failures; a decorator.

    Before the call, all ranks get the state of rank 0, or of the rank with the most commits if a
    rank was replaced. After a `HorovodInternalError` of an operation, all ranks go back to the last
    commit and call the function again. After three failures without a commit between them, the
    error is raised. It is raised at once where the communicator has failed and `init` has not
    opened it, as in `sparkring.spark.run` without ``recovery="replace"``.

    A process that takes the place of a lost rank runs the script from its beginning. So the script
    calls no operation between `init` and this function, but `add_process_set`.

    Parameters
    ----------
    func : callable
        Takes the state and further arguments.
    checkpoint : str or path
        A directory for commits, as for `sparkring.spark.Checkpoint`, for a restart of all ranks:
        ``@hvd.elastic.run(checkpoint="s3://bucket/job")``. By default commits stay in memory.

    Returns
    -------
    callable
        A function with the arguments of ``func``, which returns what ``func`` returns. With
        ``checkpoint`` alone, the decorator.

    Raises
    ------
    HorovodInternalError
        From the decorated function, after the last failure.

    Examples
    --------
    >>> @hvd.elastic.run
    ... def train(state):
    ...     for state.epoch in range(state.epoch, 20):
    ...         one_epoch(state)
    ...         state.commit()
    >>> train(hvd.elastic.TorchState(model, optimizer, epoch=0))
    """
    if func is None:
        return functools.partial(run, checkpoint=checkpoint)
    function = func

    @functools.wraps(function)
    def going_on(state: State, *args: Any, **kwargs: Any) -> Any:
        failed: HorovodInternalError | None = None
        while True:
            try:
                if failed:
                    context.begin_anew(failed)
                    state.on_reset()
                _share(state, checkpoint)
                return function(state, *args, **kwargs)
            except HorovodInternalError as error:
                state._failures += 1
                if state._failures >= _MOST_FAILURES or error is failed:
                    raise
                state.restore()
                failed = error

    return going_on


def _share(state: State, checkpoint: str | os.PathLike[str] | None) -> None:
    """Give all ranks the state of the first rank with the most commits. Collective."""
    comm = context.context().comm
    with internal_errors():
        commits = comm.allgather(np.array(state._commits))
    if checkpoint is not None:
        _open_checkpoint(state, checkpoint, restores=commits.max() < 0)
    state._root = int(commits.argmax())
    state._commits = max(0, int(commits.max()))
    state.sync()


def _open_checkpoint(state: State, path: str | os.PathLike[str], restores: bool) -> None:
    from sparkring.spark import Checkpoint

    state._checkpoint = Checkpoint(context.context().comm, path)
    with internal_errors():
        saved = state._checkpoint.restore() if restores else None
    if saved is not None:
        state.load(saved)
