# SPDX-License-Identifier: Apache-2.0
"""By which interface this host reaches the others.

Frameworks that ask the host for its own name get an address of the loopback for it on many systems
(127.0.1.1 in /etc/hosts), and then tell that to other hosts. The kernel's table of routes knows
better. Of IPv4 only, and on Linux only; elsewhere nothing is known.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkring._core import Communicator

ROUTES = Path("/proc/net/route")
USABLE, REFUSED = 0x1, 0x200  # flags of a route, RTF_UP and RTF_REJECT


def interface(comm: Communicator) -> str | None:
    """Name the interface to the next host of the ring; None for a ring of one host."""
    own = comm.hosts[comm.rank]
    others = [host for host in comm.hosts[comm.rank :] + comm.hosts[: comm.rank] if host != own]
    with contextlib.suppress(OSError):  # there is no such table, or the host has no such address
        return route(socket.gethostbyname(others[0]), ROUTES.read_text()) if others else None
    return None


def route(address: str, routes: str) -> str | None:
    """Find the way to an IPv4 address: of the most specific routes the first in the table."""
    wanted = int.from_bytes(socket.inet_aton(address), sys.byteorder)  # as the table has them
    found, longest = None, -1
    for line in routes.splitlines()[1:]:
        name, target, _, flags, _, _, _, mask, *_ = line.split()
        usable = int(flags, 16) & (USABLE | REFUSED) == USABLE
        length = bin(int(mask, 16)).count("1")
        if usable and wanted & int(mask, 16) == int(target, 16) and length > longest:
            found, longest = name, length
    return None if address.startswith("127.") else found
