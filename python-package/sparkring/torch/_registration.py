# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""How PyTorch gets a group of sparkring: by the name of the backend, and over a communicator."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from sparkring._communicator import Communicator
from sparkring._core import InvalidError
from sparkring.torch._backend import Backend
from sparkring.torch._group import Group
from sparkring.torch._process_group import ProcessGroup, device_types

_MIXED = (2, 14)  # the first release of PyTorch that takes a backend in Python for one device

_adopted: Communicator | None = None  # the communicator of the next default group


def register() -> None:
    """Register the backend. From 2.14 on, PyTorch calls this by its entry point."""
    if "SPARKRING" not in dist.Backend._plugins:
        dist.Backend.register_backend("sparkring", create, devices=device_types())


def create(store: Any, rank: int, size: int, timeout: timedelta) -> Group:
    """Open the group that PyTorch is making, or its part for the devices of sparkring.

    A process group is faster than a backend, and its works have all their methods.
    """
    config = _config()
    others = [part for part in config.split(",") if part.rpartition(":")[2] != "sparkring"]
    if not others:
        return ProcessGroup.create(store, rank, size, timeout, _adopted)
    if torch.__version__ >= _MIXED:
        return Backend.create(store, rank, size, timeout)
    raise RuntimeError(
        f"backend {config!r}: PyTorch {torch.__version__} would use sparkring for all devices of"
        f" the group, and not {', '.join(others)}: install PyTorch 2.14 or later, or pass"
        ' "sparkring" alone, and make a group of its own for the other backend with'
        " torch.distributed.new_group()"
    )


def _config() -> str:
    """Return the backends of the group that PyTorch is making, such as ``cpu:gloo,cuda:sparkring``.

    PyTorch does not pass them to `create`. The function of PyTorch that calls it has them.
    """
    helper = inspect.unwrap(distributed_c10d._new_process_group_helper).__code__
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not helper:
        frame = frame.f_back
    return "sparkring" if frame is None else str(frame.f_locals["backend"]).lower()


def default_group_of(comm: Communicator) -> ProcessGroup | None:
    """Return PyTorch's default group if it calls a communicator, or None if there is no group."""
    if not dist.is_initialized():
        return None
    group = dist.group.WORLD
    if isinstance(group, ProcessGroup) and group._comm is comm:
        return group
    raise InvalidError(
        "torch.distributed has a default process group: destroy it first, or pass"
        ' backend="sparkring" to torch.distributed.new_group()'
    )


def make_default_group(comm: Communicator, port: int, timeout: timedelta) -> Any:
    """Make the default group of PyTorch over a communicator; rank 0 binds the port."""
    global _adopted
    store = dist.TCPStore(comm.hosts[0], port, comm.size, comm.rank == 0, timeout)
    _adopted = comm
    try:
        dist.init_process_group(
            "sparkring", store=store, rank=comm.rank, world_size=comm.size, timeout=timeout
        )
    finally:
        _adopted = None
    return dist.group.WORLD
