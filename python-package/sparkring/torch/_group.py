# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""A group of ranks over a communicator: its life, its messages and its state.

PyTorch's Python and C++ call the methods by name, of a `ProcessGroup` or of a `Backend`.
"""

from __future__ import annotations

import functools
import threading
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch._C import _distributed_c10d as c10d

from sparkring._communicator import Communicator
from sparkring._core import RingError
from sparkring.torch import _streams as streams
from sparkring.torch import _tensor_view as view
from sparkring.torch._completions import Completions
from sparkring.torch._failure import fail
from sparkring.torch._gpu_moves import GpuMoves
from sparkring.torch._gpu_reductions import GpuReductions
from sparkring.torch._messages import Messages
from sparkring.torch._monitored_barrier import MonitoredBarrier
from sparkring.torch._rendezvous import open_group
from sparkring.torch._work import ReceiveWork, Work

_PARTING = 60.0  # seconds that the end of a group waits for the other ranks

Self = TypeVar("Self", bound="Group")


class Group(GpuReductions, GpuMoves):
    """What PyTorch asks of a group, whether it is a `ProcessGroup` or a `Backend`.

    A group closes the communicator that it has opened. A communicator of the caller stays open.
    """

    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False
    supports_shrinking = False

    def __init__(self, store: Any, comm: Communicator, timeout: timedelta, owns: bool) -> None:
        super().__init__(comm.rank, comm.size)  # type: ignore[call-arg] # of the class of PyTorch
        self._store, self._comm, self._timeout, self._owns = store, comm, timeout, owns
        self._calling = threading.Lock()
        self._messages = Messages(comm)
        self._monitored = MonitoredBarrier(store, comm.rank, comm.size)
        host = comm.hosts[comm.rank]
        self._completions = Completions(f"rank {comm.rank} of {comm.size} on {host}")
        self._streams = {}
        self._ended = False

    @classmethod
    def create(
        cls: type[Self],
        store: Any,
        rank: int,
        size: int,
        timeout: timedelta,
        comm: Communicator | None = None,
    ) -> Self:
        """Open a group, on every rank of the group.

        Parameters
        ----------
        store : torch.distributed.Store
            The store of the group, where the ranks find each other.
        rank, size : int
            The rank of this process in the group, and the number of its ranks.
        timeout : datetime.timedelta
            The longest time that a call waits for other ranks.
        comm : Communicator, optional
            The communicator of the group. By default the group opens one.

        Returns
        -------
        ProcessGroup

        Raises
        ------
        torch.distributed.DistBackendError
            When ranks are missing or fail.
        """
        try:
            opened = comm or open_group(store, rank, size, timeout.total_seconds())
            return cls(store, opened, timeout, comm is None)
        except RingError as error:
            fail(f"rank {rank} of {size}", error)

    # -- messages -----------------------------------------------------------------------------

    def send(self, tensors: list[torch.Tensor], dstRank: int, tag: int = 0) -> Work:  # noqa: N803
        """Send a tensor to a rank.

        Parameters
        ----------
        tensors : list of one Tensor
            Must not be changed until the work is done.
        dstRank : int
            The rank in the group that receives.
        tag : int
            Meets a receive with the same tag.

        Returns
        -------
        torch.distributed.Work
        """
        (tensor,) = tensors
        host = streams.fetch(tensor) if streams.is_here(tensor) else tensor
        payload = view.octets(view.plain(host))
        return Work(self._completions, tensors, self._messages.send(payload, dstRank, tag))

    def recv(self, tensors: list[torch.Tensor], srcRank: int, tag: int = 0) -> Work:  # noqa: N803
        """Receive a tensor from a rank.

        Parameters
        ----------
        tensors : list of one Tensor
            Is overwritten; of the size that the other rank sends.
        srcRank : int
            The rank in the group that sends.
        tag : int
            The tag of the message.

        Returns
        -------
        torch.distributed.Work
        """
        return self._recv(tensors, srcRank, tag)

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> Work:
        """Receive a tensor from any rank; ``_source_rank`` of the work tells which.

        Parameters
        ----------
        tensors, tag
            As for `recv`.

        Returns
        -------
        torch.distributed.Work
        """
        return self._recv(tensors, None, tag)

    def _recv(self, tensors: list[torch.Tensor], peer: int | None, tag: int) -> Work:
        (tensor,) = tensors
        if streams.is_here(tensor):
            target = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
            receive = self._messages.recv(view.octets(target), peer, tag)
            store = functools.partial(streams.store, tensor, target)
            return ReceiveWork(self._completions, tensors, receive, store)
        target = view.plain(tensor)
        receive = self._messages.recv(view.octets(target), peer, tag)
        after = None if target is tensor else lambda: tensor.detach().copy_(target)
        return ReceiveWork(self._completions, tensors, receive, after)

    # -- monitored barrier --------------------------------------------------------------------

    def monitored_barrier(self, timeout: timedelta, wait_all_ranks: bool = False) -> None:
        """Wait for all ranks; ``torch.distributed.monitored_barrier`` calls it from 2.14 on.

        Parameters
        ----------
        timeout : datetime.timedelta
            The longest time that this rank waits.
        wait_all_ranks : bool
            Whether the error names all missing ranks, and not the first alone.

        Raises
        ------
        torch.distributed.DistBackendError
            On every rank that has called it, when a rank does not arrive in time. The group can
            still be used.
        """
        try:
            self._monitored.wait(timeout.total_seconds(), wait_all_ranks)
        except TimeoutError as error:
            fail(self._completions.where, error)

    # -- end ----------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """bool: whether the group can still make calls."""
        return not self._ended and self._comm.usable

    def shutdown(self) -> None:
        """End the group with the other ranks: close what it has opened and end its threads."""
        if self._ended:
            return
        self._ended = True
        orderly = self._comm.usable
        if self._owns and orderly:
            try:
                with self._calling:
                    self._comm.close(min(_PARTING, self._timeout.total_seconds()))
            except RingError:
                orderly = False
        self._end_threads(orderly)

    def abort(self) -> None:
        """End the group at once, from this rank alone."""
        self._ended = True
        self._comm.abort("its process group was aborted")
        self._end_threads(False)

    def _end_threads(self, orderly: bool) -> None:
        self._messages.close(orderly)
        self._completions.close(_PARTING)

    # -- what PyTorch asks of a group -----------------------------------------------------------

    def supports_tensor_alloc(self, device: Any) -> bool:
        """Return whether `allocate_tensor` serves a device.

        Parameters
        ----------
        device : torch.device or str
            The device.

        Returns
        -------
        bool
        """
        return bool(torch.device(device).type == "cpu")

    def allocate_tensor(self, size: int, *, dtype: torch.dtype, device: Any) -> torch.Tensor:
        """Return a tensor in memory that the ranks of a host share; FSDP sends it without a copy.

        Parameters
        ----------
        size : int
            The number of elements.
        dtype : torch.dtype
            Their type.
        device : torch.device or str
            The CPU.

        Returns
        -------
        Tensor of shape (size,)
            Its elements have no defined values.
        """
        room = self._comm.empty(size * dtype.itemsize, "uint8")
        return torch.from_numpy(room).view(dtype)

    def get_error(self) -> Any:
        """Return the state of the group.

        Returns
        -------
        torch._C._distributed_c10d.ErrorType
        """
        return c10d.ErrorType.SUCCESS if self.usable else c10d.ErrorType.COMM_ERROR

    def getBackendName(self) -> str:  # noqa: N802
        """Return the name of the backend.

        Returns
        -------
        str
        """
        return "sparkring"

    name = _get_backend_name = getBackendName

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the longest time that `shutdown` waits for the other ranks.

        Parameters
        ----------
        timeout : datetime.timedelta
            The longest time; 60 seconds at most.
        """
        self._timeout = timeout

    _set_default_timeout = set_timeout

    def _set_group_uid(self, name: str) -> None:
        """Take the name in PyTorch's table of groups, which opens the messages of errors."""
        self._completions.where = f"group {name}, {self._completions.where}"

    def _set_sequence_number_for_group(self) -> None:
        """Do nothing: the core numbers the calls."""

    def _get_sequence_number_for_group(self) -> int:
        """Return the number of collectives so far, which is that of the other ranks."""
        return self._collectives
