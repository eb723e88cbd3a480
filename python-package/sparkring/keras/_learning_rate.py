# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Callbacks of ``model.fit`` that change the learning rate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from sparkring._horovod.ranks import size


class LearningRateScheduleCallback(keras.callbacks.Callback):
    """Multiply the learning rate by a factor of the epoch.

    Parameters
    ----------
    initial_lr : float
        The learning rate that is multiplied.
    multiplier : float or callable
        The factor; a function gets the epoch, with the share of its batches that are done unless
        ``staircase``.
    start_epoch, end_epoch : int
        Epochs from ``start_epoch`` on, before ``end_epoch``, are changed.
    staircase : bool
        Whether the rate changes at the beginning of epochs only, else with every batch.
    momentum_correction : bool
        Whether the velocity of an optimizer with momentum is scaled with the learning rate.
    steps_per_epoch : int
        Batches of an epoch; by default what ``fit`` knows.
    """

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        self.initial_lr, self.staircase = initial_lr, staircase
        self.start_epoch, self.end_epoch = start_epoch, end_epoch
        self.momentum_correction, self.steps_per_epoch = momentum_correction, steps_per_epoch
        if callable(multiplier):
            self.multiplier = multiplier
        else:
            self.staircase = True
            self.multiplier = lambda epoch: multiplier
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Change the rate for the epoch.

        Parameters
        ----------
        epoch : int
            The number of the epoch, from 0 on.
        logs : dict
            Ignored; Keras passes it.
        """
        self._epoch = epoch
        if self.staircase:
            self._change(epoch)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Change the rate for the batch.

        Parameters
        ----------
        batch : int
            The number of the batch in its epoch, from 0 on.
        logs : dict
            Ignored; Keras passes it.

        Raises
        ------
        ValueError
            When the number of batches of an epoch is unknown, and the rate changes with every
            batch.
        """
        if not self.staircase:
            self._change(self._epoch + batch / self._steps())

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Log the rate.

        Parameters
        ----------
        epoch : int
            The number of the epoch, from 0 on.
        logs : dict
            Gets the rate as ``lr``.
        """
        if logs is not None:
            logs["lr"] = self._rate()

    def _steps(self) -> int:
        steps = self.steps_per_epoch or (self.params or {}).get("steps")
        if not steps:
            raise ValueError(
                "the number of batches of an epoch is unknown: pass steps_per_epoch to"
                f" {type(self).__name__}"
            )
        return int(steps)

    def _rate(self) -> float:
        return float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))

    def _change(self, epoch: float) -> None:
        if epoch < self.start_epoch or (self.end_epoch is not None and epoch >= self.end_epoch):
            return
        rate = self.initial_lr * self.multiplier(epoch)
        if hasattr(self.model, "jax_state_sync"):
            self.model.jax_state_sync()  # else the train step would not see the change
        before = self._rate()
        self.model.optimizer.learning_rate = rate
        if self.momentum_correction and before > 0 and rate != before:
            self._scale_velocity(rate / before)

    def _scale_velocity(self, factor: float) -> None:
        """Scale the steps that SGD remembers, which hold the rate of their time."""
        if isinstance(self.model.optimizer, keras.optimizers.SGD):
            for velocity in getattr(self.model.optimizer, "momentums", None) or ():
                velocity.assign(velocity * factor)


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raise the learning rate, with every batch, from ``initial_lr / size`` to ``initial_lr``.

    Parameters
    ----------
    initial_lr : float
        The learning rate after the warm-up.
    warmup_epochs : int
        Epochs of the warm-up.
    momentum_correction, steps_per_epoch
        As for `LearningRateScheduleCallback`.
    verbose : int
        Whether the end of the warm-up is printed.
    """

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            done = (epoch + 1.0 / self._steps()) / warmup_epochs
            return (1.0 + (size() - 1.0) * done) / size()

        super().__init__(
            initial_lr,
            multiplier,
            end_epoch=warmup_epochs,
            staircase=False,
            momentum_correction=momentum_correction,
            steps_per_epoch=steps_per_epoch,
        )
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Log the rate; print it at the end of the warm-up.

        Parameters
        ----------
        epoch : int
            The number of the epoch, from 0 on.
        logs : dict
            Gets the rate as ``lr``.
        """
        super().on_epoch_end(epoch, logs)
        if self.verbose > 0 and self.end_epoch is not None and epoch == self.end_epoch - 1:
            print(f"Epoch {epoch + 1}: the learning rate is {self._rate():g} after the warm-up")
