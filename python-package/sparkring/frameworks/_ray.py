# SPDX-License-Identifier: Apache-2.0
"""Ray: a cluster of the ranks, with its head on rank 0.

The head's server (GCS, by gRPC) takes a port that is held. Ray's other servers choose their own.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sparkring._core import Communicator
from sparkring._method import method
from sparkring.frameworks._exchange import address, communicator, gather

if TYPE_CHECKING:
    from sparkring.frameworks._exchange import Ring

TOKEN = 32  # bytes of Ray's token, which travel as numbers: R has the same
QUIET = ("--include-dashboard=false", "--disable-usage-stats")


@method
def ray_config(comm: Ring = None, /) -> dict[str, Any]:
    """Set the variables that ``ray.init`` reads, and tell how to start this rank's Ray node.

    Collective; it starts nothing. Rank 0 is to start the head, whose port is reserved for it and
    held until Ray has bound it, and then the others their nodes, which join it. The commands stay
    in the foreground: whoever ends such a process ends its node, and no other.

    Ray's processes accept only those that know its token, which is made here, if they are of
    Ray 2.52 or later; earlier ones ask for none, so that whoever reaches their ports can run code
    there. In no version is what they send encrypted, the token included, unless Ray is set up for
    TLS. Ray's other ports are not within ``ports``.

    Parameters
    ----------
    comm : Communicator or BarrierTaskContext, optional
        As for `torch_env`.

    Returns
    -------
    dict
        ``address``, that of the head, which is in ``RAY_ADDRESS``, too; and ``start``, the command
        of this rank as a list, to which more options may be added: with several ranks on a host,
        such as ``--num-cpus`` and ``--object-store-memory``, as each would take all of both. The
        variables ``RAY_AUTH_MODE`` and ``RAY_AUTH_TOKEN`` are set as well.

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
    """Name the command; that of an environment need not be on the path."""
    return shutil.which("ray", path=os.path.dirname(sys.executable)) or "ray"


def _place(comm: Communicator, head: str, port: int) -> list[str]:
    """Say where this rank's node is in the cluster; its own address only where that is one."""
    place = [f"--address={head}"] if comm.rank else ["--head", f"--port={port}"]
    host = comm.hosts[comm.rank]
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, for which Ray finds an address
        return place
    return place if loopback else [*place, f"--node-ip-address={host}"]
