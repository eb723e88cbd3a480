# SPDX-License-Identifier: Apache-2.0
"""Training on a rank: epochs, validation, the best epoch, callbacks and checkpoints.

A learner takes the steps, with PyTorch or Keras. All ranks see the same numbers, so all of them
take the same decisions. A training goes on from its `Progress`: after a restart all ranks read the
last `Progress` from the checkpoint, and with a stream the driver passes it from epoch to epoch.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._communicator import Communicator
from sparkring._core import InvalidError

if TYPE_CHECKING:
    from sparkring.spark import Checkpoint
    from sparkring.spark.ml._batch import Batch
    from sparkring.spark.ml._feed import Feed
    from sparkring.spark.ml._plan import Plan


@dataclass
class Progress:
    """How far a training got."""

    epoch: int = 0
    step: int = 0  # steps of this epoch
    sums: dict[str, float] = field(default_factory=dict)  # over the rows of these steps
    learner: Any = None  # its state
    feed: Any = None  # its state
    history: list[dict[str, Any]] = field(default_factory=list)
    best: float | None = None
    best_weights: bytes | None = None
    waited: int = 0  # epochs since the best
    is_over: bool = False
    shapes: Any = None  # of a row of the input columns
    outputs: Any = None  # of the network


class Training:
    """Training on a rank.

    Parameters
    ----------
    comm : Communicator
        The communicator.
    plan : Plan
        The settings.
    progress : Progress
        How far the training got.
    checkpoint : Checkpoint or None
        The place of progress.
    """

    def __init__(
        self, comm: Communicator, plan: Plan, progress: Progress, checkpoint: Checkpoint | None
    ) -> None:
        self.comm, self.plan, self.progress = comm, plan, progress
        self.checkpoint = checkpoint

    def begin(self, feed: Feed) -> None:
        """Make the network and the optimizer."""
        self.feed = feed
        self.learner = self.plan.module.Learner(self.comm, self.plan, feed.sample())
        self.learner.callbacks.on_train_begin()  # which may make the objects that have a state
        if self.progress.learner is not None:
            self.learner.restore(self.progress.learner)

    def end(self) -> Progress | None:
        """Return the last progress, on rank 0, with the weights of the chosen epoch."""
        now, learner = self.progress, self.learner
        learner.callbacks.on_train_end()
        learner.close()
        self.feed.close()
        shapes = self.comm.gather_object(self.plan.shapes)
        if shapes is None:  # on all ranks except 0
            return None
        if self.plan.restore == "last" or now.best is None:
            now.best_weights = learner.weights()
        now.shapes = next(found for found in shapes if found is not None)
        now.outputs = learner.outputs
        now.learner = learner.state() if self.plan.data == "stream" and not now.is_over else None
        return now

    def run_epoch(self, find_valid: Any) -> None:
        """Take the steps of an epoch that remain; `find_valid` returns the rows for validation."""
        start, now = time.monotonic(), self.progress
        self.learner.begin_epoch(now.epoch, now.step)
        self.learner.callbacks.on_epoch_begin(now.epoch)
        sums = dict(now.sums) if self.comm.rank == 0 else {}
        for batch in self.feed.epoch(now.epoch, now.step):
            self.learner.callbacks.on_train_batch_begin(now.step)
            found = checked(self.learner.train(batch))
            add(sums, found, batch)
            self.learner.callbacks.on_train_batch_end(now.step, means(add({}, found, batch)))
            now.step += 1
            self.report()
            if self.plan.checkpointSteps and now.step % self.plan.checkpointSteps == 0:
                now.sums = reduce(self.comm, sums)
                sums = dict(now.sums) if self.comm.rank == 0 else {}
                self.save()
        logs = means(reduce(self.comm, sums))
        self.learner.synchronize()
        valid = find_valid()
        if valid is not None:
            logs.update({f"val_{name}": number for name, number in self.validate(valid).items()})
        self.end_epoch(logs, time.monotonic() - start)

    def validate(self, valid: Feed) -> dict[str, float]:
        """Return the means over the rows for validation."""
        sums: dict[str, float] = {}
        for batch in valid.epoch(self.progress.epoch, 0):
            add(sums, self.learner.evaluate(batch), batch)
        return means(reduce(self.comm, sums))

    def end_epoch(self, logs: dict[str, float], seconds: float) -> None:
        """Note the numbers of an epoch, and decide whether it is the best, and the last."""
        now = self.progress
        rate = self.learner.learning_rate()
        now.history.append({"epoch": now.epoch, **logs, "learning_rate": rate, "seconds": seconds})
        self.choose(logs)
        self.learner.callbacks.on_epoch_end(now.epoch, dict(logs))
        is_stopped = self.comm.allreduce(np.array(self.learner.is_stopped()), op="lor")
        now.epoch, now.step, now.sums = now.epoch + 1, 0, {}
        now.is_over |= bool(is_stopped) or now.epoch >= self.plan.epochs
        self.save()

    def choose(self, logs: dict[str, float]) -> None:
        """Keep the weights of the best epoch."""
        now, plan = self.progress, self.plan
        name = plan.monitor or ("val_loss" if "val_loss" in logs else "loss")
        if name not in logs:
            raise InvalidError(
                f"monitor is {name!r}, and the history has {', '.join(map(repr, logs))}: name one"
                " of these, and set validation for a name with val_"
            )
        value = logs[name] if plan.monitorMode == "min" else -logs[name]
        if not math.isnan(value) and (now.best is None or value < now.best):
            now.best, now.waited = value, 0
            if plan.restore == "best" and self.comm.rank == 0:
                now.best_weights = self.learner.weights()
        else:
            now.waited += 1
            now.is_over = plan.patience is not None and now.waited >= plan.patience

    def report(self) -> None:
        """Show the progress."""
        now, steps = self.progress, self.feed.steps
        if self.comm.rank == 0 and steps:
            done = now.epoch * steps + now.step
            last = now.history[-1] if now.history else {}
            shown = {name: last[name] for name in ("loss", "val_loss") if name in last}
            self.comm.progress(done, self.plan.epochs * steps, **shown)

    def save(self) -> None:
        """Write the progress. Every rank calls it, because ranks average statistics first."""
        if self.checkpoint is None:
            return
        self.learner.synchronize()
        now = self.progress
        if self.comm.rank == 0:
            state, feed = self.learner.state(), self.feed.state()
            self.checkpoint.save(replace(now, learner=state, feed=feed))


def checked(found: Any) -> dict[str, Any]:
    """Refuse the result of a trainStep without a loss."""
    if not isinstance(found, dict) or "loss" not in found:
        raise InvalidError(
            f"trainStep returned {found!r}: return a dict with 'loss', the sum over the rows of the"
            " rank, as training.sums() makes it"
        )
    return found


def add(sums: dict[str, float], found: dict[str, Any], batch: Batch) -> dict[str, float]:
    """Add the sums of a step."""
    weight = float(batch.weight.sum())
    for name, number in {**found, "rows": batch.rows, "weight": weight}.items():
        sums[name] = sums.get(name, 0.0) + float(number)
    return sums


def reduce(comm: Communicator, sums: dict[str, float]) -> dict[str, float]:
    """Add up the sums of all ranks."""
    names = sorted(set().union(*comm.allgather_object(sorted(sums))))
    mine = np.array([sums.get(name, 0.0) for name in names])
    return dict(zip(names, comm.allreduce(mine).tolist()))


def means(sums: dict[str, float]) -> dict[str, float]:
    """Divide the loss by the rows, and metrics by the weights."""
    rows, weight = sums.pop("rows"), sums.pop("weight")
    return {
        name: number / ((rows if name == "loss" else weight) or math.nan)
        for name, number in sorted(sums.items())
    }
