# SPDX-License-Identifier: Apache-2.0
"""The names of Horovod's API that all front ends share."""

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
    init,
    is_initialized,
    remove_process_set,
    shutdown,
)
from sparkring._horovod.errors import HorovodInternalError
from sparkring._horovod.objects import allgather_object, broadcast_object
from sparkring._horovod.operations import barrier
from sparkring._horovod.ops import Adasum, Average, Max, Min, Product, ReduceOp, Sum
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring._horovod.ranks import (
    cross_rank,
    cross_size,
    is_homogeneous,
    local_rank,
    local_size,
    rank,
    size,
)
from sparkring._horovod.timeline import start_timeline, stop_timeline

__all__ = [
    "Adasum",
    "Average",
    "HorovodInternalError",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "ReduceOp",
    "Sum",
    "add_process_set",
    "allgather_object",
    "barrier",
    "broadcast_object",
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
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]
