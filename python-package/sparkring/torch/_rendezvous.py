# SPDX-License-Identifier: Apache-2.0
"""Open communicators over a store of PyTorch.

The store carries the host of every rank and the public keys of the exchange: no secret.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

from sparkring import _core
from sparkring import _options as options
from sparkring import _spark_encryption as spark_encryption
from sparkring._core import Communicator

OPENING = 300.0  # seconds at most until all ranks are connected, as for init()
_NEVER = 9e8  # seconds; the core takes less than 1e9
_SHORTEST, _LONGEST = 0.5e-3, 20e-3  # seconds between two looks into a store


def open_group(store: Any, rank: int, size: int, seconds: float) -> Communicator:
    """Open the communicator of a group; `seconds` is the timeout of its calls."""

    def exchange(kind: str, mine: str) -> list[str]:
        store.set(f"{kind}/{rank}", mine)
        return [store.get(f"{kind}/{peer}").decode() for peer in range(size)]

    hosts = exchange("host", own_host(store))
    return _open(rank, hosts, None, seconds, lambda key: exchange("key", key))


def open_pair(
    store: Any,
    name: str,
    hosts: Sequence[str],
    sends: bool,
    seconds: float,
    check: Callable[[], None],
) -> Communicator:
    """Open the communicator of a sender, rank 0, and a receiver, rank 1.

    It waits for the peer as long as `check` returns. The calls of the sender have the timeout;
    those of the receiver, which waits for messages that nobody may send, have none.
    """
    me = 0 if sends else 1

    def exchange(mine: str) -> list[str]:
        theirs = f"{name}/key/{1 - me}"
        store.set(f"{name}/key/{me}", mine)
        await_key(store, theirs, check, seconds if sends else _NEVER)
        keys = [mine, store.get(theirs).decode()]
        return keys if sends else keys[::-1]

    return _open(me, hosts, name, seconds if sends else _NEVER, exchange)


def await_key(store: Any, key: str, check: Callable[[], None], seconds: float = _NEVER) -> None:
    """Wait for a key without holding the store, which serves one call at a time."""
    pause, end = _SHORTEST, time.monotonic() + seconds
    while not store.check([key]):
        check()
        if time.monotonic() > end:
            raise TimeoutError(f"the receiver has posted no receive in {seconds:g} s")
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST)


def _open(
    rank: int,
    hosts: Sequence[str],
    job: str | None,
    seconds: float,
    exchange: Callable[[str], Sequence[str]],
) -> Communicator:
    token = os.environ.get("SPARKRING_TOKEN")
    encrypts = spark_encryption.by_default(False)
    return _core.open(
        rank,
        len(hosts),
        tuple(hosts),
        None,
        options.check_token(token),
        job,
        options.check_ports(None),
        min(seconds, OPENING),
        seconds,
        options.check_warn_after(0 if seconds == _NEVER else None),
        None,
        exchange,
        True,
        options.check_count("connections", None),
        options.check_encryption(True if encrypts else None),
        False,
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
