# SPDX-License-Identifier: Apache-2.0
"""send and recv of a process group: bytes, with tags, from a rank or from any, in any order.

Two ranks that send and receive cannot open anything that all ranks open together. So a group opens
messages when it is made. Their links open with the first message between two ranks.
"""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

from sparkring._communicator import Communicator
from sparkring._core import RingError
from sparkring._messages import Transfer


class Receive:
    """A posted receive; a `Waitable`."""

    def __init__(self, transfer: Transfer, size: int) -> None:
        self._transfer, self._size = transfer, size
        self.source = -1

    def wait(self) -> None:
        """Wait for the message, which must be as long as the tensor."""
        self._transfer.wait()
        status = self._transfer.status
        assert status is not None
        if status.count != self._size:
            raise ValueError(
                f"rank {status.source} has sent {status.count} bytes with tag {status.tag}, and the"
                f" tensor to receive holds {self._size}: pass the same size to both"
            )
        self.source = status.source

    def test(self) -> bool:
        """Return whether the message is here."""
        return self._transfer.test()


class Messages:
    """The messages of a group. Collective."""

    def __init__(self, comm: Communicator) -> None:
        self._messages = comm.messages()
        self._receives: weakref.WeakSet[Transfer] = weakref.WeakSet()

    def send(self, payload: Any, peer: int, tag: int) -> Transfer:
        """Start to send bytes to a rank."""
        return self._messages.send_start(payload, peer, tag)

    def recv(self, room: Any, peer: int | None, tag: int) -> Receive:
        """Post a receive of bytes from a rank, or from any."""
        transfer = self._messages.recv_start(peer, tag, out=room)
        self._receives.add(transfer)
        return Receive(transfer, room.nbytes)

    def close(self, orderly: bool) -> None:
        """End the messages; only an orderly end waits for those on their way, and for all ranks."""
        for transfer in list(self._receives):
            transfer.cancel()
        with contextlib.suppress(RingError):
            if orderly:
                self._messages.close()
                return
        self._messages.abort("the process group has ended")
