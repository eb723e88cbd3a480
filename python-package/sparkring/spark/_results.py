# SPDX-License-Identifier: Apache-2.0
"""Results that are too large for Spark, which collects results in the memory of the driver's JVM.

Up to `LARGEST` bytes, and `TOTAL` of all ranks, a result is part of the rank's `RankResult`, which
Spark carries. A rank writes a larger result to a file in memory, and its task sends the file to the
driver on its link (`_driver_link`), when the rank has ended. The driver confirms the last byte. Or
the result goes through a directory of the user: the rank writes a file, and the driver reads and
removes it. Both ways leave a `Receipt` in the `RankResult`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any

from sparkring._core import InvalidError, UnsupportedError
from sparkring.spark import _checkpoint as checkpoint
from sparkring.spark._rank_result import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import Self

    from sparkring.spark._checkpoint import Store
    from sparkring.spark._driver_link import Address
    from sparkring.spark._log_server import LogServer
    from sparkring.spark._rank_result import RankResult
    from sparkring.spark._session import Spark

LARGEST = 1 << 24  # bytes of a result that Spark carries
TOTAL = 1 << 27  # bytes of the results of all ranks together
SPARE = 1 << 16  # bytes of a `RankResult` besides the result
MAXIMUM = "spark.driver.maxResultSize"
UNITS = "bkmgtp"
REACH = "let executors reach it (spark.driver.host, firewalls)"
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
    route: Route, rank: int, value: bytes, kind: str, file: IO[bytes]
) -> tuple[bytes | None, Receipt | None]:
    """Write a result that is too large for Spark to a file; return the data for Spark."""
    if len(value) <= route.most:
        return value, None
    if route.directory is None:
        file.write(value)
        file.flush()
        return None, Receipt(len(value))
    try:
        checkpoint.find(route.directory).write(file_name(route, rank), value)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise UnsupportedError(refusal(route, rank, len(value), kind, why)) from error
    return None, Receipt(len(value), hashlib.sha256(value).digest())


def deliver(
    route: Route, rank_result: RankResult, file: IO[bytes], send: Callable[[IO[bytes]], str]
) -> RankResult:
    """Send the file of a result to the driver, in the task. In vain, Spark carries it if it can."""
    receipt = rank_result.receipt
    if receipt is None or receipt.digest:
        return rank_result
    why = send(file) if route.address else f"the driver does not listen: {route.reason}"
    if not why:
        return rank_result
    rank_result = replace(rank_result, receipt=None)
    if receipt.size <= LARGEST:
        file.seek(0)
        return replace(rank_result, value=file.read())
    text = refusal(route, rank_result.rank, receipt.size, rank_result.kind, why)
    return replace(rank_result, failure=Failure.of(UnsupportedError(text), None))


def refusal(route: Route, rank: int, size: int, kind: str, why: str) -> str:
    """Write the error of a result that is too large: the reason, and the remedy."""
    what = (
        f"rank {rank} returned a value of type {kind} that takes {in_units(size)}. Spark"
        f" carries results up to {in_units(LARGEST)}; a larger one"
    )
    if route.directory is not None:
        return f"{what} goes through {route.directory}, where the rank cannot write it ({why})"
    where = f"the driver at {route.address.host}" if route.address else "this run's driver"
    return f"{what} goes to {where}, where it did not arrive ({why}): {REACH}, or {SHARED}"


def file_name(route: Route, rank: int) -> str:
    """Name the file of a rank."""
    return f"{route.name}-{rank:06}"


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
    log_server : LogServer or None
        Receives what the ranks send.
    """

    def __init__(
        self, spark: Spark, size: int, directory: str | None, log_server: LogServer | None
    ) -> None:
        self.server = log_server
        self.store: Store | None = None if directory is None else checkpoint.find(directory)
        address = log_server.address if log_server else None
        reason = ""
        if address is None:
            try:
                spark.reach()
            except OSError as error:
                reason = str(error)
        name = f"result-{secrets.token_hex(8)}"
        self.route = Route(most_of(spark, size), address, reason, directory, name)

    def __enter__(self) -> Self:
        """Start to receive."""
        return self

    def __exit__(self, *_: object) -> None:
        """Drop all received results, also when the attempt has failed."""
        if self.server is not None:
            self.server.results.clear()
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
