# SPDX-License-Identifier: Apache-2.0
"""LightGBM: its parameters of the network.

It binds its port without any option, and cannot when it is held. So the port is released when all
ranks know all of them. It finds its own rank by looking for an IPv4 address of its own in the list.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from sparkring._core import Communicator
from sparkring._method import method
from sparkring.frameworks._exchange import address, communicator, gather

if TYPE_CHECKING:
    from sparkring.frameworks._exchange import Ring


@method
def lightgbm_config(comm: Ring = None, /) -> dict[str, Any]:
    """Tell LightGBM's parameters of the network.

    Collective. LightGBM's ranks become those of the communicator. Every rank listens, at a port
    that is reserved until the ranks know each other's. LightGBM cannot bind a port that is held, so
    it is released then: train soon.

    Parameters
    ----------
    comm : Communicator or BarrierTaskContext, optional
        As for `torch_env`.

    Returns
    -------
    dict
        ``machines``, ``local_listen_port`` and ``num_machines``. ``tree_learner`` and
        ``pre_partition`` are for you to choose.

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
    """Return the IPv4 address of every rank; of a host that cannot be resolved, say which it is."""
    addresses = {}
    for host in dict.fromkeys(comm.hosts):
        try:
            addresses[host] = socket.gethostbyname(host)
        except OSError as error:
            raise OSError(f"LightGBM needs an IPv4 address of the host {host}: {error}") from error
    return [addresses[host] for host in comm.hosts]
