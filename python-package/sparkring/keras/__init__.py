# SPDX-License-Identifier: Apache-2.0
"""Horovod's API for Keras 3: ``import sparkring.keras as hvd``.

It works in ``model.fit`` with the backends TensorFlow, JAX and PyTorch. Import it when the backend
of Keras is chosen.

Examples
--------
>>> import keras, sparkring.keras as hvd
>>> hvd.init()
>>> optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 * hvd.size()))
>>> model.compile(loss="mse", optimizer=optimizer)
>>> model.fit(x, y, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
"""

from __future__ import annotations

from sparkring._horovod import names
from sparkring._horovod.host import Compression
from sparkring._horovod.names import *  # noqa: F403 (listed once)
from sparkring._horovod.operations import join
from sparkring.keras import callbacks
from sparkring.keras._load import load_model
from sparkring.keras._ops import allgather, allreduce, alltoall, broadcast, reducescatter
from sparkring.keras._optimizer import DistributedOptimizer

__all__ = [
    "Compression",
    "DistributedOptimizer",
    "allgather",
    "allreduce",
    "alltoall",
    "broadcast",
    "callbacks",
    "join",
    "load_model",
    "reducescatter",
]
__all__ += names.__all__


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)
