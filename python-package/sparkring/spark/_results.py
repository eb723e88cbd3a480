# SPDX-License-Identifier: Apache-2.0
"""Results that are too large for Spark, which collects results in the memory of the driver's JVM.

Up to `LARGEST` bytes, and `TOTAL` of all ranks, a result is part of the rank's `RankResult`, which
Spark carries. A larger result goes to the driver on a connection of its own, in the protocol of
`log_forwarder`: a frame with the length, then the bytes. The connection always uses TLS, which is
faster than an HMAC. The driver confirms the last byte. A connection that fails is opened again, up
to three times in all. Or the result goes through a directory of the user: the rank writes a file,
and the driver reads and removes it. Drivers of remote storage repeat what fails themselves. Both
ways leave a `Receipt` in the `RankResult`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import selectors
import socket
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sparkring import _core
from sparkring._core import InvalidError, UnsupportedError
from sparkring.spark import _checkpoint as checkpoint
from sparkring.spark import _log_forwarder as log_forwarder
from sparkring.spark._log_server import LACKING, LogServer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

    from sparkring.spark._checkpoint import Store
    from sparkring.spark._log_server import Address
    from sparkring.spark._rank_result import RankResult
    from sparkring.spark._session import Spark

LARGEST = 1 << 24  # bytes of a result that Spark carries
TOTAL = 1 << 27  # bytes of the results of all ranks together
SPARE = 1 << 16  # bytes of a `RankResult` besides the result
CHUNK = 1 << 20  # bytes that are sent at once
STALL = 60.0  # seconds in which the driver must take something
PAUSES = (0.1, 1.0)  # seconds between two tries to send a result
MAXIMUM = "spark.driver.maxResultSize"
UNITS = "bkmgtp"
REACH = "let executors reach it (spark.driver.host, spark.driver.bindAddress, firewalls)"
SHARED = "pass results= with a directory that the hosts share, or its URL"


@dataclass(frozen=True)
class Route:
    """The way of large results to the driver, for the ranks of an attempt."""

    most: int  # bytes of a result that Spark carries
    address: Address | None  # of the driver
    reason: str  # why there is no address
    directory: str | None  # of the user
    name: str  # prefix of the names of this attempt's files


@dataclass(frozen=True)
class Receipt:
    """Marks a result that has arrived, or was written to a file."""

    size: int
    digest: bytes = b""  # of the file


# ---- On a rank -----------------------------------------------------------------------------------


def hand_over(
    route: Route, rank: int, attempt: int, value: bytes, kind: str
) -> tuple[bytes | None, Receipt | None]:
    """Send a result to the driver if it is too large for Spark; return the data for Spark."""
    if len(value) <= route.most:
        return value, None
    try:
        if route.directory is not None:
            checkpoint.find(route.directory).write(file_name(route, rank), value)
            return None, Receipt(len(value), hashlib.sha256(value).digest())
        if route.address is None:
            raise ConnectionError(route.reason)
        transmit(route.address, rank, attempt, value)
        return None, Receipt(len(value))
    except Exception as error:
        if len(value) <= LARGEST and route.directory is None:
            return value, None
        raise UnsupportedError(refusal(route, rank, value, kind, error)) from error


def refusal(route: Route, rank: int, value: bytes, kind: str, error: Exception) -> str:
    """Write the error of a result that is too large: the reason, and the remedy."""
    what = (
        f"rank {rank} returned a value of type {kind} that takes {in_units(len(value))}. Spark"
        f" carries results up to {in_units(LARGEST)}; a larger one"
    )
    why = f"{type(error).__name__}: {error}"
    if route.directory is not None:
        return f"{what} goes through {route.directory}, where the rank cannot write it ({why})"
    where = "this run's driver"
    if route.address is not None:
        where = f"the driver at {route.address.host}:{route.address.port}"
    return f"{what} goes to {where}, where it did not arrive ({why}): {REACH}, or {SHARED}"


def file_name(route: Route, rank: int) -> str:
    """Name the file of a rank."""
    return f"{route.name}-{rank:06}"


def transmit(address: Address, rank: int, attempt: int, value: bytes) -> None:
    """Send a result to the driver, and wait until it has arrived; again if a failure may pass."""
    settings = {"key": address.key, "rank": rank, "attempt": attempt, "core": _core.__file__}
    for pause in PAUSES:
        try:
            return Sender(settings, value).run((address.host, address.port))
        except OSError as error:
            if not may_pass(error):
                raise
        time.sleep(pause)
    return Sender(settings, value).run((address.host, address.port))


def may_pass(error: OSError) -> bool:
    """Return whether another try is useful: a broken or refused connection, a busy name server.

    A TimeoutError comes after a wait that is long enough.
    """
    busy = isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN
    return busy or isinstance(error, ConnectionError) or error.errno in LACKING


class Sender(log_forwarder.Driver):
    """A connection to the driver for one result."""

    def __init__(self, settings: dict[str, Any], value: bytes) -> None:
        super().__init__(settings)
        self.rest = memoryview(value)
        self.answer = b""
        self.frame(log_forwarder.RESULT, b"%d" % len(value))

    def run(self, address: tuple[str, int]) -> None:
        """Send the result, and wait for the confirmation."""
        self.open(address)
        self.channel = self.reached
        assert self.channel
        with contextlib.closing(self.channel), selectors.DefaultSelector() as selector:
            selector.register(self.channel.socket, selectors.EVENT_READ)
            while not self.confirmed:
                self.channel.watch(selector, None, bool(self.outgoing or self.rest))
                if not selector.select(STALL):
                    raise TimeoutError(f"the driver has received nothing for {STALL:.0f} s")
                for move in (self.read, self.write):
                    with contextlib.suppress(BlockingIOError):
                        move()

    def write(self) -> None:
        """Send as many bytes as possible of the proofs, the frame and the result."""
        super().write()
        assert self.channel
        while self.session and self.rest:
            self.rest = self.rest[self.channel.send(self.rest[:CHUNK]) :]

    def read(self) -> None:
        """Read the proofs, and then the confirmation."""
        if not self.session:
            super().read()
            return
        assert self.channel
        piece = self.channel.recv(log_forwarder.TAG)
        self.answer += piece
        if not piece or not log_forwarder.received(self.session).startswith(self.answer):
            raise ConnectionError("the driver has closed the connection")

    @property
    def confirmed(self) -> bool:
        """Return whether the driver has the whole result."""
        return not self.rest and self.answer == log_forwarder.received(self.session)


# ---- On the driver -------------------------------------------------------------------------------


class Results:
    """Takes the large results of an attempt, inside a ``with`` block.

    Parameters
    ----------
    spark : sparkring.spark._session.Spark
        The Spark.
    size : int
        The number of ranks.
    directory : str or None
        The directory of results, from `directory_of`.
    """

    def __init__(self, spark: Spark, size: int, directory: str | None) -> None:
        self.server: LogServer | None = None
        self.store: Store | None = None if directory is None else checkpoint.find(directory)
        reason = ""
        if directory is None:
            try:
                host, bind = spark.reach()
                self.server = LogServer(host, bind, size, ignore, ignore, tls=True)
            except OSError as error:
                reason = str(error)
        address = self.server.address if self.server else None
        name = f"result-{secrets.token_hex(8)}"
        self.route = Route(most_of(spark, size), address, reason, directory, name)

    def __enter__(self) -> Self:
        """Start to receive."""
        return self

    def __exit__(self, *_: object) -> None:
        """Drop all received results, also when the attempt has failed."""
        if self.server is not None:
            self.server.results.clear()
            self.server.close(0)
        if self.store is not None:
            with contextlib.suppress(Exception):  # the error of the attempt counts
                for name in self.store.names():
                    if name.startswith((f"{self.route.name}-", f"new-{self.route.name}-")):
                        self.store.remove(name)

    def insert(self, rank_results: Iterable[RankResult]) -> list[RankResult]:
        """Put the large results into the `RankResult` objects from Spark."""
        return [
            replace(
                rank_result, value=self.take(rank_result.rank, rank_result.receipt), receipt=None
            )
            if rank_result.receipt
            else rank_result
            for rank_result in rank_results
        ]

    def take(self, rank: int, receipt: Receipt) -> bytes | bytearray:
        """Take the result that a rank has sent or written."""
        value: bytes | bytearray
        if self.store is None:
            assert self.server
            value = self.server.results.pop(rank, b"")
        else:
            value = self.store.read(file_name(self.route, rank))
            if hashlib.sha256(value).digest() != receipt.digest:
                raise OSError(f"the result of rank {rank} was changed in {self.route.directory}")
        if len(value) != receipt.size:
            raise OSError(f"the result of rank {rank} has {len(value)} of {receipt.size} bytes")
        return value


def ignore(*_: Any) -> None:
    """Show nothing: no log forwarder connects."""


def directory_of(results: Any, here: bool) -> str | None:
    """Check the directory of the user. A relative one needs ranks on the driver's host."""
    if results is None:
        return None
    directory = os.fspath(results) if isinstance(results, os.PathLike) else results
    if not isinstance(directory, str) or not directory:
        raise InvalidError(
            f"results is {results!r}: pass a directory that the hosts share, or its URL"
        )
    store = checkpoint.find(directory)
    if not isinstance(store, checkpoint.Disk):
        return directory
    local = checkpoint.LOCAL.fullmatch(directory)
    if not here and not os.path.isabs(os.path.expanduser(local[1] if local else directory)):
        raise InvalidError(
            f"results is the relative path {directory}, and executors have working directories of"
            " their own: pass an absolute path of a directory that the hosts share, or its URL"
        )
    return str(store.path)


def most_of(spark: Spark, size: int) -> int:
    """Find the largest result that Spark may carry, so that the results of all ranks fit."""
    limit = size_of(spark.setting(MAXIMUM, "1g"))
    most = min(LARGEST, TOTAL // size)
    return min(most, limit // 2 // size - SPARE) if limit > 0 else most


def size_of(text: str) -> int:
    """Read a size as Spark does; 0 for an invalid size, which Spark itself reports."""
    found = re.fullmatch(r"\s*(\d+)\s*([bkmgtp])?b?\s*", text.lower())
    return int(found[1]) << 10 * UNITS.index(found[2] or "b") if found else 0


def in_units(size: float) -> str:
    """Format a size for people."""
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"


def explain(text: str) -> UnsupportedError | None:
    """Make the error for results that are too large for Spark; None for other errors."""
    found = re.search(
        r"Total size of serialized results of (\d+) tasks \((.*?)\) is bigger than"
        r" .*?maxResultSize \(?([\d.]+ \w+)",
        text,
    )
    if found is None:
        return None
    return UnsupportedError(
        f"the results of {found[1]} ranks together take {found[2]} in Spark, and {MAXIMUM} allows"
        f" {found[3]}: raise it. Spark carries the results because the ranks could not send them to"
        f" the driver: {REACH}, or {SHARED}"
    )
