# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""The backend "sparkring" of ``torch.distributed``, for tensors of the CPU.

The import registers the backend; ``import sparkring`` alone imports no PyTorch. The backend is
written in Python against the public classes of PyTorch, so it needs no compiler and fits any build
of PyTorch.

Examples
--------
If the environment names the ranks, as under torchrun or after `Communicator.torch_env`:

>>> import sparkring.torch, torch
>>> torch.distributed.init_process_group("sparkring")
>>> model = torch.nn.parallel.DistributedDataParallel(model)

Over a communicator that is open, for example in `sparkring.spark.run`:

>>> group = comm.torch_group()
"""

from __future__ import annotations

import torch.distributed as dist

from sparkring.torch._process_group import ProcessGroup

__all__ = ["ProcessGroup"]

if not dist.is_available():
    raise ImportError("this PyTorch has no torch.distributed: install a build that has it")
if "SPARKRING" not in dist.Backend._plugins:
    dist.Backend.register_backend("sparkring", ProcessGroup.create, devices=["cpu"])


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)
