# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Training with PyTorch: a backend of ``torch.distributed``, and Horovod's API.

Both take tensors of the CPU and of NVIDIA's GPUs. The backend carries a collective on a GPU out
there (`Communicator.device`); Horovod's API copies gradients of a GPU to the host and back. The
import registers the backend "sparkring"; ``import sparkring`` alone imports no PyTorch. All is
written in Python against the public classes of PyTorch, so it needs no compiler and fits any build
of PyTorch.

Where to go on
--------------
help(sparkring.torch.ProcessGroup)          the backend
help(sparkring.torch.init)                  Horovod's API: how the ranks find each other
help(sparkring.torch.allreduce)             its operations
help(sparkring.torch.DistributedOptimizer)  an optimizer that averages gradients
help(sparkring.torch.elastic)               training that goes on after a failure

Examples
--------
The backend, if the environment names the ranks, as under torchrun or after
`Communicator.torch_env`:

>>> import sparkring.torch, torch
>>> torch.distributed.init_process_group("sparkring")
>>> model = torch.nn.parallel.DistributedDataParallel(model)

The backend over a communicator that is open, for example in `sparkring.spark.run`:

>>> group = comm.torch_group()

A script for Horovod:

>>> import sparkring.torch as hvd
>>> hvd.init()
>>> optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
>>> hvd.broadcast_parameters(model.state_dict(), root_rank=0)
"""

from __future__ import annotations

import torch.distributed as dist

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
from sparkring._horovod.objects import allgather_object, broadcast_object
from sparkring._horovod.operations import barrier
from sparkring._horovod.ops import Adasum, Average, Max, Min, Product, ReduceOp, Sum
from sparkring._horovod.pending import poll, synchronize
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring.torch import elastic
from sparkring.torch._horovod.compression import Compression
from sparkring.torch._horovod.hook import allreduce_hook
from sparkring.torch._horovod.operations import (
    allgather,
    allgather_async,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall,
    alltoall_async,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter,
    grouped_reducescatter_async,
    join,
    reducescatter,
    reducescatter_async,
    sparse_allreduce_async,
)
from sparkring.torch._horovod.optimizer import DistributedOptimizer
from sparkring.torch._horovod.parameters import broadcast_optimizer_state, broadcast_parameters
from sparkring.torch._horovod.sync_batch_norm import SyncBatchNorm
from sparkring.torch._process_group import ProcessGroup, device_types

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "Max",
    "Min",
    "ProcessGroup",
    "ProcessSet",
    "Product",
    "ReduceOp",
    "Sum",
    "SyncBatchNorm",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "allreduce_hook",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "poll",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "sparse_allreduce_async",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]

if not dist.is_available():
    raise ImportError("this PyTorch has no torch.distributed: install a build that has it")
if "SPARKRING" not in dist.Backend._plugins:
    dist.Backend.register_backend("sparkring", ProcessGroup.create, devices=device_types())


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)
