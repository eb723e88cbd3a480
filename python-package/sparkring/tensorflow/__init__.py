# SPDX-License-Identifier: Apache-2.0
"""Horovod's API for TensorFlow: ``import sparkring.tensorflow as hvd``.

Collectives on tensors work eagerly and in a ``tf.function``; XLA cannot compile them. For Keras 3
see `sparkring.keras`.

Examples
--------
>>> import sparkring.tensorflow as hvd
>>> hvd.init()
>>> with tf.GradientTape() as tape:
...     loss = loss_of(model(x), y)
>>> tape = hvd.DistributedGradientTape(tape)
>>> optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
>>> hvd.broadcast_variables(model.variables, root_rank=0)  # after the first step
"""

from __future__ import annotations

from sparkring._horovod import names
from sparkring._horovod.host import Compression
from sparkring._horovod.names import *  # noqa: F403 (listed once)
from sparkring._horovod.operations import join
from sparkring.tensorflow._numbers import (
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    size_op,
)
from sparkring.tensorflow._ops import (
    allgather,
    allreduce,
    alltoall,
    broadcast,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    reducescatter,
)
from sparkring.tensorflow._optimizer import DistributedOptimizer
from sparkring.tensorflow._tape import DistributedGradientTape
from sparkring.tensorflow._variables import broadcast_, broadcast_variables

__all__ = [
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "allgather",
    "allreduce",
    "alltoall",
    "broadcast",
    "broadcast_",
    "broadcast_variables",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "join",
    "local_rank_op",
    "local_size_op",
    "process_set_included_op",
    "rank_op",
    "reducescatter",
    "size_op",
]
__all__ += names.__all__


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)
