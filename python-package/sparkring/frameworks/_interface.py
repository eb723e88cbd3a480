# SPDX-License-Identifier: Apache-2.0
"""The network interface by which this host reaches the other hosts.

Frameworks that resolve the host's own name get a loopback address on many systems (127.0.1.1 in
/etc/hosts), and then send it to other hosts. The kernel's table of routes has the right interface.
IPv4 on Linux only; elsewhere the interface is unknown.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkring._communicator import Communicator

ROUTES = Path("/proc/net/route")
USABLE, REFUSED = 0x1, 0x200  # flags of a route, RTF_UP and RTF_REJECT


def interface(comm: Communicator) -> str | None:
    """Name the interface to the next host of the ring; None for a ring of one host."""
    own = comm.hosts[comm.rank]
    others = [host for host in comm.hosts[comm.rank :] + comm.hosts[: comm.rank] if host != own]
    with contextlib.suppress(OSError):  # no such table, or no such address
        return route(socket.gethostbyname(others[0]), ROUTES.read_text()) if others else None
    return None


def route(address: str, routes: str) -> str | None:
    """Find the route to an IPv4 address: the first of the most specific routes in the table."""
    wanted = int.from_bytes(socket.inet_aton(address), sys.byteorder)  # as in the table
    found, longest = None, -1
    for line in routes.splitlines()[1:]:
        name, target, _, flags, _, _, _, mask, *_ = line.split()
        usable = int(flags, 16) & (USABLE | REFUSED) == USABLE
        length = bin(int(mask, 16)).count("1")
        if usable and wanted & int(mask, 16) == int(target, 16) and length > longest:
            found, longest = name, length
    return None if address.startswith("127.") else found
