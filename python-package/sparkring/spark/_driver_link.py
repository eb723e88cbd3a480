# SPDX-License-Identifier: Apache-2.0
"""The link of a Spark task to the driver: a ring of two, in which the driver is rank 0.

Each task has a ring of its own, so the loss of a task ends no other link. The ring is always
encrypted, whatever the ranks do. The task sends frames: a kind, a length, and as many bytes. The
driver sends a byte when it is connected, and when it has a result. The driver shows lines as text
and reads reports as JSON, and unpickles a result only after its rank has reported it through Spark.
"""

from __future__ import annotations

import array
from typing import TYPE_CHECKING, NamedTuple

from sparkring import Communicator, _core
from sparkring._core import InvalidError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DRIVER, TASK = 0, 1  # ranks of a link
LINES, DROPPED, PROGRESS, RESULT, GONE, END = range(6)  # kinds of frames
PAYLOAD = 1 << 16  # bytes of a frame, unless it is a result
CHUNK = 1 << 22  # bytes of a result that are sent at once
FOREVER = 1e8  # seconds


class Address(NamedTuple):
    """The address of the driver, for the ranks. The key permits to write to its output."""

    host: str
    key: str


def open_ring(
    rank: int,
    size: int,
    job: str,
    timeout: float,
    *,
    encryption: bool,
    watch_parent: bool,
    addresses: Sequence[str] | None = None,
    root_address: str | None = None,
    token: bytes | None = None,
    exchange: Callable[[str], Sequence[str]] | None = None,
    ports: tuple[int, int] | None = None,
) -> Communicator:
    """Open a communicator besides that of the user; the arguments are those of `sparkring.init`.

    It gives no warnings, and uses no shared memory. With ``watch_parent`` its waits end when the
    parent of this process has ended.
    """
    return _core.open(
        Communicator,
        rank,
        size,
        None if addresses is None else tuple(addresses),
        root_address,
        token,
        job,
        ports or (0, 0),
        timeout,
        FOREVER,  # call_timeout
        -1.0,  # warn_after
        None,  # algorithms
        exchange,
        False,  # shared_memory
        1,  # connections
        encryption,
        watch_parent,
        "native",
    )


class DriverLink:
    """One end of the link between the task of a rank and the driver."""

    def __init__(self, address: Address, rank: int, side: int, timeout: float) -> None:
        self.peer = DRIVER + TASK - side
        self.ring = open_ring(
            side,
            2,
            f"sparkring driver {rank}",
            timeout,
            encryption=True,
            watch_parent=False,  # the task may be killed before its last lines are sent
            root_address=address.host,
            token=bytes.fromhex(address.key),
        )

    def send(self, kind: int, payload: bytes) -> None:
        """Send a frame."""
        self.ring.send(array.array("q", [kind, len(payload)]), self.peer)
        if payload:
            self.ring.send(payload, self.peer)

    def receive(self) -> tuple[int, bytes | bytearray]:
        """Receive a frame."""
        head = array.array("q", [0, 0])
        self.ring.recv(head, self.peer, out=head)
        kind, length = head
        if length < 0 or (length > PAYLOAD and kind != RESULT):
            raise InvalidError(f"the peer has sent a frame of {length} bytes")
        payload = bytearray(length)
        with memoryview(payload) as view:
            for begin in range(0, length, CHUNK):
                piece = view[begin : begin + CHUNK]
                self.ring.recv(piece, self.peer, out=piece)
        return kind, payload

    def send_result(self, value: memoryview, moved: Callable[[], None]) -> None:
        """Send a result, and wait until the peer has it. Call `moved` after each chunk."""
        self.ring.send(array.array("q", [RESULT, len(value)]), self.peer)
        for begin in range(0, len(value), CHUNK):
            self.ring.send(value[begin : begin + CHUNK], self.peer)
            moved()
        self.await_confirmation()

    def confirm(self) -> None:
        """Confirm the connection or a result."""
        self.ring.send(b"\1", self.peer)

    def await_confirmation(self) -> None:
        """Wait until the peer confirms."""
        confirmed = bytearray(1)
        self.ring.recv(confirmed, self.peer, out=confirmed)
