# SPDX-License-Identifier: Apache-2.0
"""Open communicators over a store of PyTorch.

The store carries the host of every rank and the public keys of the exchange: no secret.
"""

from __future__ import annotations

import os
import socket
from typing import Any

from sparkring import _core
from sparkring import _options as options
from sparkring import _spark_encryption as spark_encryption
from sparkring._communicator import Communicator

OPENING = 300.0  # seconds at most until all ranks are connected, as for init()


def open_group(store: Any, rank: int, size: int, seconds: float) -> Communicator:
    """Open the communicator of a group; `seconds` is the timeout of its calls."""

    def exchange(kind: str, mine: str) -> list[str]:
        store.set(f"{kind}/{rank}", mine)
        return [store.get(f"{kind}/{peer}").decode() for peer in range(size)]

    return _core.open(
        Communicator,
        rank,
        size,
        tuple(exchange("host", own_host(store))),
        None,
        options.check_token(os.environ.get("SPARKRING_TOKEN")),
        None,
        options.check_ports(None),
        min(seconds, OPENING),
        seconds,
        options.check_warn_after(None),
        None,
        lambda key: exchange("key", key),
        True,
        options.check_count("connections", None),
        options.check_encryption(True if spark_encryption.by_default(False) else None),
        False,
        "native",
    )


def own_host(store: Any) -> str:
    """Return the address of this host: SPARKRING_HOST, or that from which the store is reached."""
    given = os.environ.get("SPARKRING_HOST")
    if given:
        return given
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    if hasattr(store, "host"):  # a TCPStore
        return _address_towards(store.host, store.port)
    return _address_of_name()


def _address_towards(host: str, port: int) -> str:
    """Return the address of the interface to another host. No packet is sent."""
    family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])


def _address_of_name() -> str:
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
