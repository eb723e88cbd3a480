# SPDX-License-Identifier: Apache-2.0
"""Ray: a cluster of the ranks, with its head on rank 0.

The head's server (GCS, by gRPC) can bind a reserved port. Ray's other servers choose their ports.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sparkring.frameworks._exchange import address, communicator, gather

if TYPE_CHECKING:
    from sparkring._communicator import Communicator
    from sparkring.frameworks._exchange import Ring

TOKEN = 32  # bytes of Ray's token, sent as numbers, as R does
QUIET = ("--include-dashboard=false", "--disable-usage-stats")


def ray_config(comm: Ring = None, /) -> dict[str, Any]:
    """Set the variables that ``ray.init`` reads, and return the command of this rank's Ray node.

    Collective. It starts nothing. Rank 0 must start the head first. The port of the head stays
    reserved until Ray has bound it. Then the other ranks start their nodes, which join the head.
    The commands stay in the foreground: the end of such a process ends its node only.

    Processes of Ray 2.52 or later accept only peers with Ray's token, which this function makes.
    Earlier versions ask for no token, so every program that reaches their ports can run code there.
    No version encrypts its traffic, the token included, unless Ray is set up for TLS. Ray's other
    ports are not within ``ports``.

    Parameters
    ----------
    comm : Communicator or BarrierTaskContext, optional
        As for `torch_env`.

    Returns
    -------
    dict
        ``address``, the address of the head, which is also in ``RAY_ADDRESS``; and ``start``, the
        command of this rank as a list. More options may be added to the command. With several ranks
        on a host, add ``--num-cpus`` and ``--object-store-memory``, because by default each node
        uses all of both. The variables ``RAY_AUTH_MODE`` and ``RAY_AUTH_TOKEN`` are set as well.

    Raises
    ------
    InvalidError, SystemCallError, MismatchError, PeerLostError, TimeoutError, AbortedError
        As for `torch_env`.

    Examples
    --------
    >>> config = comm.ray_config()
    >>> node = subprocess.Popen(config["start"]) if comm.rank == 0 else None
    >>> comm.barrier()
    >>> node = node or subprocess.Popen(config["start"])  # it waits for the head
    >>> ray.init()
    """
    with communicator(comm) as ring:

        def row() -> Sequence[int]:
            if ring.rank:
                return [0] * (1 + TOKEN)
            return [ring.port_reserve(), *secrets.token_bytes(TOKEN)]

        port, *token = gather(ring, row, 1 + TOKEN)[0]
        head = address(ring.hosts[0], port)
        start = [
            _ray(),
            "start",
            "--block",
            *_place(ring, head, int(port)),
            *QUIET[ring.rank > 0 :],
        ]
    os.environ.update(
        RAY_ADDRESS=head,
        RAY_AUTH_MODE="token",
        RAY_AUTH_TOKEN=bytes(int(byte) for byte in token).hex(),
    )
    return {"address": head, "start": start}


def _ray() -> str:
    """Find Ray's command. The command of an environment need not be on the path."""
    return shutil.which("ray", path=os.path.dirname(sys.executable)) or "ray"


def _place(comm: Communicator, head: str, port: int) -> list[str]:
    """Make the address options of this rank's node. A name or a loopback address is left out."""
    place = [f"--address={head}"] if comm.rank else ["--head", f"--port={port}"]
    host = comm.hosts[comm.rank]
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, which Ray resolves
        return place
    return place if loopback else [*place, f"--node-ip-address={host}"]
