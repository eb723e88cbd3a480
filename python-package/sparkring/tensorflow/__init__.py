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
    "Adasum",
    "Average",
    "Compression",
    "DistributedGradientTape",
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
    "broadcast_",
    "broadcast_object",
    "broadcast_variables",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_rank_op",
    "local_size",
    "local_size_op",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "process_set_included_op",
    "rank",
    "rank_op",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "size_op",
    "start_timeline",
    "stop_timeline",
]


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)
