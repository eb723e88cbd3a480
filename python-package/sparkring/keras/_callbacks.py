# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Callbacks of ``model.fit``: one start for all ranks, and metrics of all ranks."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from sparkring._horovod import operations
from sparkring._horovod.host import reduced, wait_for_all
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring._horovod.reduction import Reduction


def broadcast_model(model: Any, root_rank: int, process_set: ProcessSet) -> None:
    """Give the weights of a model, and the state of its optimizer, the values of the root.

    Random seeds and metrics stay those of the rank.
    """
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not optimizer.built:
        optimizer.build(model.trainable_variables)
    variables = [*model.weights, *(optimizer.variables if optimizer is not None else [])]
    values = [np.asarray(keras.ops.convert_to_numpy(each.value)) for each in variables]
    operations.compare("keras", f"{len(values)} variables", process_set).wait()
    started = [
        operations.broadcast(value, root_rank, f"keras.{i}", process_set)
        for i, value in enumerate(values)
    ]
    for variable, value in zip(variables, wait_for_all(started)):
        variable.assign(value)


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):
    """Send the weights and the state of the optimizer from one rank to all ranks at the start.

    TensorFlow makes the weights of a model without ``keras.Input`` in the first batch. They are
    sent after that batch then, as Horovod does.

    Parameters
    ----------
    root_rank : int
        The global rank that sends.
    device : str
        Ignored; Horovod has it.
    process_set : ProcessSet
    """

    def __init__(
        self,
        root_rank: int,
        device: str = "",
        process_set: ProcessSet = global_process_set,
    ) -> None:
        super().__init__()
        self._root_rank, self._process_set = root_rank, process_set
        self._sent = False

    def on_train_begin(self, logs: Any = None) -> None:
        """Send, in the first ``fit`` of this callback.

        Parameters
        ----------
        logs : dict
            Ignored; Keras passes it.
        """
        if self.model.built:
            self._send()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Send what the first batch has made, unless `on_train_begin` has sent it.

        Parameters
        ----------
        batch : int
            Ignored; Keras passes it.
        logs : dict
            Ignored; Keras passes it.
        """
        self._send()

    def _send(self) -> None:
        if not self._sent:
            broadcast_model(self.model, self._root_rank, self._process_set)
            self._sent = True


class MetricAverageCallback(keras.callbacks.Callback):
    """Replace the metrics of each epoch by their average over all ranks.

    Callbacks after this one, and the history, see the average. All ranks have the same metrics.

    Parameters
    ----------
    device : str
        Ignored; Horovod has it.
    process_set : ProcessSet
    """

    def __init__(self, device: str = "", process_set: ProcessSet = global_process_set) -> None:
        super().__init__()
        self._reduction = Reduction("keras.metrics", process_set=process_set)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Average the numbers among the logs.

        Parameters
        ----------
        epoch : int
            Ignored; Keras passes it.
        logs : dict
            Its numbers are replaced by their averages.

        Raises
        ------
        HorovodInternalError
            When ranks fail, or have different numbers of metrics.
        """
        logs = {} if logs is None else logs
        names = sorted(name for name, value in logs.items() if np.isscalar(value))
        if names:
            mine = np.array([float(logs[name]) for name in names])
            for name, value in zip(names, reduced(self._reduction, mine)[0]):
                logs[name] = float(value)
