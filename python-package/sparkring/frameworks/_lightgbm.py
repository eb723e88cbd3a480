# SPDX-License-Identifier: Apache-2.0
"""LightGBM: its network parameters.

LightGBM binds its port without any option, and cannot bind a reserved port. So the port is released
when all ranks have all ports. LightGBM finds its rank by an IPv4 address of its host in the list.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from sparkring.frameworks._exchange import address, communicator, gather

if TYPE_CHECKING:
    from sparkring._communicator import Communicator
    from sparkring.frameworks._exchange import Ring


def lightgbm_config(comm: Ring = None, /) -> dict[str, Any]:
    """Return LightGBM's network parameters.

    Collective. LightGBM's ranks become those of the communicator. Every rank listens on a port that
    is reserved until all ranks have all ports. LightGBM cannot bind a reserved port, so the port is
    then released: train soon.

    Parameters
    ----------
    comm : Communicator or BarrierTaskContext, optional
        As for `torch_env`.

    Returns
    -------
    dict
        ``machines``, ``local_listen_port`` and ``num_machines``. ``tree_learner`` and
        ``pre_partition`` are left to the caller.

    Raises
    ------
    OSError
        When a host has no IPv4 address.
    InvalidError, SystemCallError, MismatchError, PeerLostError, TimeoutError, AbortedError
        As for `torch_env`.

    Examples
    --------
    >>> with sparkring.init() as comm:
    ...     network = comm.lightgbm_config()
    ...     parameters = {"tree_learner": "data", "pre_partition": True, **network}
    ...     booster = lightgbm.train(parameters, lightgbm.Dataset(x, y))
    """
    with communicator(comm) as ring:
        hosts: list[str] = []

        def row() -> list[int]:
            hosts.extend(_numeric(ring))
            return [ring.port_reserve()]

        ports = gather(ring, row, 1)[:, 0]
        mine = int(ports[ring.rank])
        ring.port_release(mine)
        return {
            "machines": ",".join(map(address, hosts, ports)),
            "local_listen_port": mine,
            "num_machines": ring.size,
        }


def _numeric(comm: Communicator) -> list[str]:
    """Return the IPv4 address of every rank. The error names a host that cannot be resolved."""
    addresses = {}
    for host in dict.fromkeys(comm.hosts):
        try:
            addresses[host] = socket.gethostbyname(host)
        except OSError as error:
            raise OSError(f"LightGBM needs an IPv4 address of the host {host}: {error}") from error
    return [addresses[host] for host in comm.hosts]
