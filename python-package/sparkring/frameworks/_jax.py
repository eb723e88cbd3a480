# SPDX-License-Identifier: Apache-2.0
"""JAX: the arguments of jax.distributed.initialize.

The coordinator of rank 0 is a gRPC server, which can bind a reserved port.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkring.frameworks._exchange import address, communicator, of_root

if TYPE_CHECKING:
    from sparkring.frameworks._exchange import Ring


def jax_config(comm: Ring = None, /) -> dict[str, Any]:
    """Return the arguments of ``jax.distributed.initialize``.

    Collective. The port of rank 0 stays reserved until JAX has bound it.

    Parameters
    ----------
    comm : Communicator or BarrierTaskContext, optional
        As for `torch_env`.

    Returns
    -------
    dict
        ``coordinator_address``, ``num_processes`` and ``process_id``.

    Raises
    ------
    InvalidError, SystemCallError, MismatchError, PeerLostError, TimeoutError, AbortedError
        As for `torch_env`.

    Examples
    --------
    >>> with sparkring.init() as comm:
    ...     jax.distributed.initialize(**comm.jax_config())
    """
    with communicator(comm) as ring:
        port = of_root(ring, ring.port_reserve)
        return {
            "coordinator_address": address(ring.hosts[0], port),
            "num_processes": ring.size,
            "process_id": ring.rank,
        }
