# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""The process group: a subclass of PyTorch's that calls a communicator.

PyTorch's Python and C++ call the methods by name.
"""

from __future__ import annotations

import functools
import threading
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from sparkring._communicator import Communicator
from sparkring._core import InvalidError, RingError
from sparkring.torch import _streams as streams
from sparkring.torch import _tensor_view as view
from sparkring.torch._calls import check_alone
from sparkring.torch._completions import Completions
from sparkring.torch._device import Device
from sparkring.torch._failure import fail
from sparkring.torch._gpu_moves import GpuMoves
from sparkring.torch._gpu_reductions import GpuReductions
from sparkring.torch._messages import Messages
from sparkring.torch._rendezvous import open_group
from sparkring.torch._work import ReceiveWork, Work

_PARTING = 60.0  # seconds that the end of a group waits for the other ranks

_adopted: Communicator | None = None  # the communicator of the next default group


class ProcessGroup(GpuReductions, GpuMoves):
    """A group of ranks of ``torch.distributed`` over a `Communicator`.

    ``torch.distributed.init_process_group("sparkring")`` and ``new_group`` make it. A group closes
    the communicator that it has opened. A communicator of the caller (`Communicator.torch_group`)
    stays open.
    """

    def __init__(self, store: Any, comm: Communicator, timeout: timedelta, owns: bool) -> None:
        super().__init__(comm.rank, comm.size)
        self._store, self._opened, self._timeout, self._owns = store, comm, timeout, owns
        self._calling = threading.Lock()
        self._opened_messages = Messages(comm)
        host = comm.hosts[comm.rank]
        self._completions = Completions(f"rank {comm.rank} of {comm.size} on {host}")
        self._device = Device(self)
        self._streams = {}
        self._group_name = self._description = ""
        self._ended = False

    @classmethod
    def create(cls, store: Any, rank: int, size: int, timeout: timedelta) -> ProcessGroup:
        """Open a group; PyTorch calls this on every rank of the group.

        Parameters
        ----------
        store : torch.distributed.Store
            The store of the group, where the ranks find each other.
        rank, size : int
            The rank of this process in the group, and the number of its ranks.
        timeout : datetime.timedelta
            The longest time that a call waits for other ranks.

        Returns
        -------
        ProcessGroup

        Raises
        ------
        torch.distributed.DistBackendError
            When ranks are missing or fail.
        """
        global _adopted
        comm, _adopted = _adopted, None
        owns = comm is None
        try:
            if comm is None:
                comm = open_group(store, rank, size, timeout.total_seconds())
            return cls(store, comm, timeout, owns)
        except RingError as error:
            fail(f"rank {rank} of {size}", error)

    @functools.cached_property
    def _messages(self) -> Messages:
        check_alone(self)
        return self._opened_messages

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

    # -- end ----------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """bool: whether the group can still make calls."""
        return not self._ended and self._opened.usable

    def shutdown(self) -> None:
        """End the group with the other ranks: close what it has opened and end its threads."""
        if self._ended:
            return
        self._ended = True
        orderly = self._opened.usable
        if self._owns and orderly:
            try:
                with self._calling:
                    self._opened.close(min(_PARTING, self._timeout.total_seconds()))
            except RingError:
                orderly = False
        self._end_threads(orderly)

    def abort(self) -> None:
        """End the group at once, from this rank alone."""
        self._ended = True
        self._opened.abort("its process group was aborted")
        self._end_threads(False)

    def _end_threads(self, orderly: bool) -> None:
        self._opened_messages.close(orderly)
        self._completions.close(_PARTING)

    # -- what PyTorch asks of a group -----------------------------------------------------------

    def allocate(self, size: int, dtype: torch.dtype) -> torch.Tensor:
        """Return a tensor in memory that the ranks of a host share.

        Parameters
        ----------
        size : int
            The number of elements.
        dtype : torch.dtype
            Their type.

        Returns
        -------
        Tensor of shape (size,)
            On the CPU; its elements have no defined values.
        """
        room = self._comm.empty(size * dtype.itemsize, "uint8")
        return torch.from_numpy(room).view(dtype)

    def getBackendName(self) -> str:  # noqa: N802
        """Return the name of the backend.

        Returns
        -------
        str
        """
        return "sparkring"

    name = _get_backend_name = getBackendName

    def _get_backend(self, device: Any) -> Device:
        return self._device

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device(each) for each in device_types()]

    def rank(self) -> int:
        """Return the rank in the group.

        Returns
        -------
        int
        """
        return self._opened.rank

    def size(self) -> int:
        """Return the size of the group.

        Returns
        -------
        int
        """
        return self._opened.size

    getRank, getSize = rank, size  # noqa: N815

    @property
    def group_name(self) -> str:
        """str: the name in PyTorch's table of groups."""
        return self._group_name

    @property
    def group_desc(self) -> str:
        """str: the description that the caller of ``new_group`` gave."""
        return self._description

    def getGroupName(self) -> str:  # noqa: N802
        """Return the name in PyTorch's table of groups.

        Returns
        -------
        str
        """
        return self._group_name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """Set the name in PyTorch's table of groups.

        Parameters
        ----------
        name : str
            The name; it opens the messages of errors.
        """
        self._group_name = name
        self._completions.where = f"group {name}, {self._completions.where}"

    def getGroupDesc(self) -> str:  # noqa: N802
        """Return the description.

        Returns
        -------
        str
        """
        return self._description

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        """Set the description.

        Parameters
        ----------
        description : str
            Any text.
        """
        self._description = description

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc

    def get_group_store(self) -> Any:
        """Return the store of the group.

        Returns
        -------
        torch.distributed.Store
        """
        return self._store

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the longest time that `shutdown` waits for the other ranks.

        Parameters
        ----------
        timeout : datetime.timedelta
            The longest time; 60 seconds at most.
        """
        self._timeout = timeout

    def _set_sequence_number_for_group(self) -> None:
        """Do nothing: the core numbers the calls."""


def device_types() -> list[str]:
    """Return the types of devices that the backend serves with this PyTorch."""
    return ["cpu", "cuda"] if torch.backends.cuda.is_built() else ["cpu"]


def register() -> None:
    """Register the backend. From 2.14 on, PyTorch calls this by its entry point."""
    if "SPARKRING" not in dist.Backend._plugins:
        dist.Backend.register_backend("sparkring", ProcessGroup.create, devices=device_types())


def default_group_of(comm: Communicator) -> ProcessGroup | None:
    """Return PyTorch's default group if it calls a communicator, or None if there is no group."""
    if not dist.is_initialized():
        return None
    group = dist.group.WORLD
    if isinstance(group, ProcessGroup) and group._opened is comm:
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
