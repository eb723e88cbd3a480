# SPDX-License-Identifier: Apache-2.0
"""The default process group of a rank of a test, by the backend "sparkring"."""

from __future__ import annotations

import contextlib
import os
import threading
from datetime import timedelta
from pathlib import Path

from ranks import open_comm


@contextlib.contextmanager
def group(timeout: float = 60, destroy: bool = True, backend: str = "sparkring"):
    """Make the default group as a program under torchrun does; yield rank and size."""
    with open_comm() as comm:
        comm.torch_env()
    import sparkring.torch  # noqa: F401 (it registers the backend)
    import torch.distributed as dist

    dist.init_process_group(backend, timeout=timedelta(seconds=timeout))
    yield dist.get_rank(), dist.get_world_size()
    if destroy:
        dist.destroy_process_group()


def threads() -> list[str]:
    """List the threads of the backend."""
    return [each.name for each in threading.enumerate() if each.name.startswith("sparkring")]


def sockets() -> int:
    """Count the sockets of this process."""
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            count += os.readlink(link).startswith("socket:")
    return count
