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

from sparkring._horovod.builds import (
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rocm_built,
)
from sparkring._horovod.context import (
    add_process_set,
    cross_rank,
    cross_size,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    rank,
    remove_process_set,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from sparkring._horovod.errors import HorovodInternalError
from sparkring._horovod.host import Compression
from sparkring._horovod.objects import allgather_object, broadcast_object
from sparkring._horovod.operations import barrier, join
from sparkring._horovod.ops import Adasum, Average, Max, Min, Product, ReduceOp, Sum
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring.keras import callbacks
from sparkring.keras._load import load_model
from sparkring.keras._ops import allgather, allreduce, alltoall, broadcast, reducescatter
from sparkring.keras._optimizer import DistributedOptimizer

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "ReduceOp",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_object",
    "callbacks",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "load_model",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)
