# SPDX-License-Identifier: Apache-2.0
"""The functions of the ranks: where the rows come from, and where checkpoints go."""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sparkring._communicator import Communicator
from sparkring.spark import Checkpoint
from sparkring.spark import _checkpoint as checkpoints
from sparkring.spark.ml import _feed as feeds
from sparkring.spark.ml._training import Progress, Training

if TYPE_CHECKING:
    from sparkring.spark.ml._plan import Plan


def train_on_rows(comm: Communicator, rows: Iterable[Any], plan: Plan) -> Progress | None:
    """Train on rows that are kept in files."""
    with checkpoint_of(comm, plan) as (checkpoint, progress):
        feed, valid = feeds.spill(comm, rows, plan)
        if progress.step and progress.feed != feed.state():
            warnings.warn(
                "after the restart Spark has computed other rows, or another order: this epoch"
                " begins again. Sort the table, or write it to files first",
                RuntimeWarning,
                stacklevel=2,
            )
            progress = replace(progress, step=0, sums={})
        return train(comm, plan, feed, valid, progress, checkpoint)


def train_on_files(
    comm: Communicator, plan: Plan, paths: tuple[str, str | None]
) -> Progress | None:
    """Train on Parquet files."""
    with checkpoint_of(comm, plan) as (checkpoint, progress):
        feed, valid = feeds.files(comm, paths, plan, progress.feed)
        return train(comm, plan, feed, valid, progress, checkpoint)


def train_an_epoch(
    comm: Communicator, rows: Iterable[Any], plan: Plan, progress: Progress
) -> Progress | None:
    """Train on rows as they come, for one epoch. Progress comes from the driver, and goes back."""
    with checkpoint_of(comm, plan, progress) as (checkpoint, progress):
        feed, shard = feeds.stream(comm, rows, plan, progress.epoch)
        training = Training(comm, plan, progress, checkpoint)
        training.begin(feed)
        if not training.progress.is_over:
            training.run_epoch(lambda: feeds.held(comm, shard, plan))
        return training.end()


def train(
    comm: Communicator,
    plan: Plan,
    feed: feeds.Feed,
    valid: feeds.Feed | None,
    progress: Progress,
    checkpoint: Checkpoint | None,
) -> Progress | None:
    """Train for all epochs."""
    training = Training(comm, plan, progress, checkpoint)
    training.begin(feed)
    while not training.progress.is_over:
        training.run_epoch(lambda: valid)
    return training.end()


@contextlib.contextmanager
def checkpoint_of(
    comm: Communicator, plan: Plan, progress: Progress | None = None
) -> Iterator[tuple[Checkpoint | None, Progress]]:
    """Find the place of checkpoints, and the last progress. The last attempt removes them."""
    progress = progress or Progress()
    if not plan.maxRestarts:
        yield None, progress
        return
    path = path_of(plan, progress.epoch)
    checkpoint = Checkpoint(comm, path)
    is_last = comm.attempt == plan.maxRestarts
    try:
        yield checkpoint, checkpoint.restore(progress)
        comm.barrier()
        is_last = True
    finally:
        if is_last:
            remove(path)


def path_of(plan: Plan, epoch: int) -> str:
    """Return the directory of checkpoints of ranks that are launched at an epoch."""
    return f"{plan.directory or tempfile.gettempdir()}/sparkring-{plan.run}-{epoch}"


def remove(path: str) -> None:
    """Remove checkpoints, where this host has them; other ranks may do the same."""
    store = checkpoints.find(path)
    for name in store.names():
        store.remove(name)
    with contextlib.suppress(OSError, NotImplementedError):  # object stores have no directories
        if isinstance(store, checkpoints.Disk):
            store.path.rmdir()
        elif isinstance(store, checkpoints.Remote):
            store.files.rmdir(store.path)
