# SPDX-License-Identifier: Apache-2.0
"""A process group of PyTorch over an open communicator.

The store of the group, in which later groups and messages exchange public keys, is PyTorch's
TCPStore on rank 0, as after `torch_env`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sparkring._agree import agree
from sparkring._core import InvalidError
from sparkring._method import method
from sparkring.frameworks._exchange import of_root

if TYPE_CHECKING:
    from sparkring._core import Communicator

_made: tuple[Communicator, Any] | None = None


@method
def torch_group(comm: Communicator, /, timeout: float = 600.0) -> Any:
    """Return the default process group of PyTorch, which calls this communicator.

    Collective. The first call imports PyTorch and makes the group, with the backend "sparkring" of
    `sparkring.torch`; later calls return the same group. ``destroy_process_group`` leaves the
    communicator open. While other threads use the group, the communicator returns `BusyError`.

    Parameters
    ----------
    timeout : float
        Seconds for groups that PyTorch makes from this one, and for messages. Collectives of this
        group have the ``call_timeout`` of the communicator.

    Returns
    -------
    torch.distributed.ProcessGroup

    Raises
    ------
    ImportError
        Without PyTorch.
    InvalidError
        When PyTorch has a default process group of another origin, or another rank fails. ``rank``
        is the failed rank, and the message has the reason.
    MismatchError, PeerLostError, TimeoutError, AbortedError
        As for `Communicator.allreduce`.

    Examples
    --------
    >>> group = comm.torch_group()
    >>> model = torch.nn.parallel.DistributedDataParallel(model)
    """
    global _made
    import torch.distributed as dist  # type: ignore[import-not-found,unused-ignore]

    from sparkring.torch._process_group import default_group

    made = (comm, dist.group.WORLD) if dist.is_initialized() else None
    if made is not None and made == _made:
        return made[1]

    def check() -> None:
        if dist.is_initialized():
            raise InvalidError(
                "torch.distributed has a default process group: destroy it first, or pass"
                ' backend="sparkring" to torch.distributed.new_group()'
            )

    agree(comm, check)
    port = of_root(comm, comm.port_reserve)
    store = dist.TCPStore(
        comm.hosts[0], port, comm.size, comm.rank == 0, timedelta(seconds=timeout)
    )
    _made = comm, default_group(comm, store, timedelta(seconds=timeout))
    return _made[1]
