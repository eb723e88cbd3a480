# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""Variables of TensorFlow and Keras, sent from one rank to all ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from sparkring._horovod import operations
from sparkring._horovod.host import wait_for_all
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring.tensorflow._host import on_host, same_as


def broadcast_variables(
    variables: Iterable[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    name: str = "variables",
) -> None:
    """Give the variables the values of a global rank, at once or in a ``tf.function``.

    Parameters
    ----------
    variables : iterable of tf.Variable or keras.Variable
        In the same order on all ranks.
    root_rank : int
    process_set : ProcessSet
    name : str
        Names the operation; the same on all ranks.
    """

    def call(*arrays: Any) -> list[Any]:
        operations.compare(name, f"{len(arrays)} variables", process_set).wait()
        return wait_for_all(
            [
                operations.broadcast(x, root_rank, f"{name}.{i}", process_set)
                for i, x in enumerate(arrays)
            ]
        )

    targets = list(variables)
    values = [tf.convert_to_tensor(each) for each in targets]
    if not values:
        return
    for target, value in zip(targets, on_host(call, values, same_as(values))):
        target.assign(value)


def broadcast_(
    variables: Sequence[Any],
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Give the variables the values of a global rank, and return their values.

    Parameters
    ----------
    variables, root_rank, process_set
        As for `broadcast_variables`.
    name : str, optional
        Names the operation; the same on all ranks. ``"variables"`` by default.

    Returns
    -------
    list of tf.Tensor
    """
    broadcast_variables(variables, root_rank, process_set, name or "variables")
    return [tf.convert_to_tensor(each) for each in variables]
