# SPDX-License-Identifier: Apache-2.0
"""PyTorch: the variables that torchrun would set.

The store of rank 0 (TCPStore) sets SO_REUSEADDR before it binds, so it can bind a reserved port. By
default Gloo and TensorPipe use the address of the host's own name.

Lightning computes ranks from its own arguments unless TORCHELASTIC_RUN_ID is set. Accelerate and
the Trainer of Transformers make one world of each rank without a GPU unless ACCELERATE_USE_CPU is
set. Under torchrun the agent serves the store at its own port, and the variable
TORCHELASTIC_USE_AGENT_STORE keeps rank 0 from serving one at the port of MASTER_PORT.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from sparkring.frameworks import _device as device
from sparkring.frameworks._exchange import communicator, of_root
from sparkring.frameworks._interface import interface

if TYPE_CHECKING:
    from sparkring.frameworks._exchange import Ring

INTERFACES = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")


def torch_env(comm: Ring = None, /) -> dict[str, str]:
    """Set the variables that ``torch.distributed.init_process_group`` reads.

    Collective. Call it before the process group is made. The port of rank 0 stays reserved until
    PyTorch has bound it. In a Spark task with GPUs the rank sees only the GPUs of the task, as
    after `Communicator.gpus`: its first GPU is ``cuda:0``, whatever ``LOCAL_RANK`` is.

    Parameters
    ----------
    comm : Communicator or BarrierTaskContext, optional
        The ranks. By default `init` opens a communicator for the call.

    Returns
    -------
    dict
        The variables, with torchrun's names: ``MASTER_ADDR``, ``MASTER_PORT``, ``RANK``,
        ``WORLD_SIZE``; ``LOCAL_RANK`` and ``LOCAL_WORLD_SIZE`` among the ranks of this host;
        ``GROUP_RANK`` and ``GROUP_WORLD_SIZE`` of this host among the hosts;
        ``TORCHELASTIC_RUN_ID``, by which Lightning reads the ranks from these variables, and
        ``TORCHELASTIC_USE_AGENT_STORE``, by which rank 0 serves the store. If PyTorch has only the
        CPU, ``ACCELERATE_USE_CPU``, by which Accelerate uses all ranks. On several hosts also
        ``GLOO_SOCKET_IFNAME`` and ``TP_SOCKET_IFNAME``, the interface to the other hosts, where it
        is known (Linux, IPv4). By default Gloo and TensorPipe use the address of the host's name,
        often 127.0.1.1, which other hosts cannot reach. Interfaces that are set already are not
        changed.

    Raises
    ------
    SystemCallError
        When no port is free on this rank.
    InvalidError
        When another rank fails, for example finds no port. ``rank`` is the failed rank, and the
        message has the reason.
    MismatchError, PeerLostError, TimeoutError, AbortedError
        As for `Communicator.allreduce`.

    Examples
    --------
    >>> with sparkring.init() as comm:
    ...     comm.torch_env()
    ...     torch.distributed.init_process_group("gloo")
    """
    with communicator(comm) as ring:
        return set_variables(ring, of_root(ring, ring.port_reserve))


def set_variables(ring: Any, port: int) -> dict[str, str]:
    """Set the variables of the ranks of a ring; rank 0 binds the port. Collective."""
    hosts = list(dict.fromkeys(ring.hosts))
    values = {
        "MASTER_ADDR": hosts[0],
        "MASTER_PORT": port,
        "RANK": ring.rank,
        "WORLD_SIZE": ring.size,
        "LOCAL_RANK": ring.local_rank,
        "LOCAL_WORLD_SIZE": ring.local_size,
        "GROUP_RANK": hosts.index(ring.hosts[ring.rank]),
        "GROUP_WORLD_SIZE": len(hosts),
        "TORCHELASTIC_RUN_ID": os.environ.get("TORCHELASTIC_RUN_ID", "sparkring"),
        "TORCHELASTIC_USE_AGENT_STORE": False,
    }
    if _has_only_cpu():
        values["ACCELERATE_USE_CPU"] = os.environ.get("ACCELERATE_USE_CPU", "true")
    to_others = interface(ring)
    if to_others is not None:
        values.update((name, os.environ.get(name, to_others)) for name in INTERFACES)
    variables = {name: str(value) for name, value in values.items()}
    os.environ.update(variables)
    return variables


def _has_only_cpu() -> bool:
    """Return whether PyTorch is there and has no accelerator. CUDA is not initialized."""
    if device.names_in(os.environ.get(device.VISIBLE)):
        return False
    try:
        import torch
    except ImportError:
        return False
    return not getattr(torch, "accelerator", torch.cuda).is_available()
