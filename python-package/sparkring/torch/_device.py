# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""What PyTorch asks of "the backend of a device" of a group."""

from __future__ import annotations

import weakref
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from sparkring.torch._process_group import ProcessGroup


class Device:
    """The CPU of a group."""

    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False
    supports_shrinking = False

    def __init__(self, group: ProcessGroup) -> None:
        self._group = weakref.ref(group)

    @property
    def _held(self) -> ProcessGroup:
        group = self._group()
        if group is None:
            raise RuntimeError("the process group of this backend is no more")
        return group

    def name(self) -> str:
        """Return the name of the backend."""
        return "sparkring"

    def rank(self) -> int:
        """Return the rank in the group."""
        return self._held.rank()

    def size(self) -> int:
        """Return the size of the group."""
        return self._held.size()

    def supports_tensor_alloc(self, device: Any) -> bool:
        """Return whether the group allocates tensors, which FSDP then sends without a copy."""
        return bool(torch.device(device).type == "cpu")

    def allocate_tensor(self, size: int, *, dtype: torch.dtype, device: Any) -> torch.Tensor:
        """Return a tensor in memory that the ranks of a host share."""
        return self._held.allocate(size, dtype)

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the timeout of communicators that the group opens from now on."""
        self._held.set_timeout(timeout)

    _set_default_timeout = set_timeout

    def get_error(self) -> Any:
        """Return the state of the group."""
        states = torch._C._distributed_c10d.ErrorType
        return states.SUCCESS if self._held.usable else states.COMM_ERROR

    def abort(self) -> None:
        """End the group at once."""
        self._held.abort()

    def shutdown(self) -> None:
        """End the group."""
        self._held.shutdown()
