# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""The backend of one device in a group of PyTorch that has another backend for another device.

PyTorch 2.14 and later call it from C++. They pass the wait and the future of a work on, and hide
its other methods.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torch._C import _distributed_c10d as c10d

from sparkring.torch._group import Group


class Backend(Group, c10d.Backend):
    """Some devices of a group, as in ``cpu:sparkring,cuda:nccl``.

    With TORCH_DISTRIBUTED_DEBUG=DETAIL only C++ holds it, and calls its methods by the Python
    object, which has to stay.
    """

    _alive: ClassVar[set[Backend]] = set()

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._alive.add(self)

    def _end_threads(self, orderly: bool) -> None:
        super()._end_threads(orderly)
        self._alive.discard(self)

    def allreduce_sparse(self, tensors: Any, opts: Any = None) -> Any:
        """Add up a sparse tensor over all ranks."""
        return self.allreduce(tensors, opts)

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        """Wait for all ranks; raise an error that names those that do not arrive."""
        super().monitored_barrier(opts.timeout, wait_all_ranks)

    def start_coalescing(self) -> None:
        """Begin to join calls; C++ does not pass the device."""
        self._start_coalescing(None)

    def end_coalescing(self) -> Any:
        """Return one work for the calls since `start_coalescing`."""
        return self._end_coalescing(next(iter(self._streams), None))
