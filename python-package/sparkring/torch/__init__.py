# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Training with PyTorch: a backend of ``torch.distributed``, and Horovod's API.

Both take tensors of the CPU and of NVIDIA's GPUs, and carry collectives on a GPU out there
(`Communicator.device`). The import registers the backend "sparkring"; PyTorch 2.14 and later finds
it without the import. ``import sparkring`` alone imports no PyTorch. All is written in Python
against the public classes of PyTorch, so it needs no compiler and fits any build of PyTorch.

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

from sparkring._horovod import names
from sparkring._horovod.names import *  # noqa: F403 (listed once)
from sparkring._horovod.pending import poll, synchronize
from sparkring.torch import elastic
from sparkring.torch._horovod.allreduce import (
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    sparse_allreduce_async,
)
from sparkring.torch._horovod.compression import Compression
from sparkring.torch._horovod.hook import allreduce_hook
from sparkring.torch._horovod.join import join
from sparkring.torch._horovod.moves import (
    allgather,
    allgather_async,
    alltoall,
    alltoall_async,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    grouped_allgather,
    grouped_allgather_async,
)
from sparkring.torch._horovod.optimizer import DistributedOptimizer
from sparkring.torch._horovod.parameters import broadcast_optimizer_state, broadcast_parameters
from sparkring.torch._horovod.reducescatter import (
    grouped_reducescatter,
    grouped_reducescatter_async,
    reducescatter,
    reducescatter_async,
)
from sparkring.torch._horovod.sync_batch_norm import SyncBatchNorm
from sparkring.torch._process_group import ProcessGroup
from sparkring.torch._registration import register

__all__ = [
    "Compression",
    "DistributedOptimizer",
    "ProcessGroup",
    "SyncBatchNorm",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "allreduce_hook",
    "alltoall",
    "alltoall_async",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "elastic",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "join",
    "poll",
    "reducescatter",
    "reducescatter_async",
    "sparse_allreduce_async",
    "synchronize",
]
__all__ += names.__all__

if not dist.is_available():
    raise ImportError("this PyTorch has no torch.distributed: install a build that has it")
register()


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)
