# SPDX-License-Identifier: Apache-2.0
"""A process group of PyTorch over an open communicator.

The store of the group, in which later groups and messages exchange public keys, is PyTorch's
TCPStore on rank 0, as after `torch_env`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sparkring._agree import agree
from sparkring.frameworks._exchange import of_root
from sparkring.frameworks._torch import set_variables

if TYPE_CHECKING:
    from sparkring._communicator import Communicator


def torch_group(self: Communicator, timeout: float = 600.0) -> Any:
    """Return the default process group of PyTorch, which calls this communicator.

    Collective. The first call imports PyTorch and makes the group, with the backend "sparkring" of
    `sparkring.torch`; later calls return the same group. ``destroy_process_group`` leaves the
    communicator open. While other threads use the group, the communicator returns `BusyError`. The
    call sets the variables of `torch_env`, by which Accelerate, Lightning and the Trainer of
    Transformers find the ranks.

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
        Without PyTorch on this rank.
    InvalidError
        When PyTorch has another default process group, or another rank fails. ``rank`` is the
        failed rank, and the message has the reason.
    MismatchError, PeerLostError, TimeoutError, AbortedError
        As for `Communicator.allreduce`.

    Examples
    --------
    >>> group = comm.torch_group()
    >>> model = torch.nn.parallel.DistributedDataParallel(model)
    """

    def start() -> Any:
        """Import PyTorch; return the group of an earlier call."""
        from sparkring.torch._registration import default_group_of

        return default_group_of(self)

    group = agree(self, start)
    if group is None:
        from sparkring.torch._registration import make_default_group

        port = of_root(self, self.port_reserve)
        set_variables(self, port)
        group = make_default_group(self, port, timedelta(seconds=timeout))
    return group
