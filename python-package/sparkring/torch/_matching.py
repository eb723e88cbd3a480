# SPDX-License-Identifier: Apache-2.0
"""Match messages with receives, by sender and tag, in the order of both."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np


class Receive:
    """A posted receive; a `Waitable`."""

    def __init__(self, room: Any, peer: int | None, tag: int, seconds: float) -> None:
        self.room, self.peer, self.tag, self._seconds = room, peer, tag, seconds
        self.source = -1
        self.error: Exception | None = None
        self._done = threading.Event()

    def accepts(self, peer: int | None, tag: int | None = None) -> bool:
        """Return whether a message may come here; None is any."""
        from_it = self.peer is None or peer is None or self.peer == peer
        return from_it and (tag is None or tag == self.tag)

    def take(self, peer: int, payload: Any) -> None:
        """Copy a message that was read elsewhere."""
        if payload.nbytes != self.room.nbytes:
            self.fail(
                ValueError(
                    f"rank {peer} has sent {payload.nbytes} bytes with tag {self.tag}, and the"
                    f" tensor to receive holds {self.room.nbytes}: pass the same size to both"
                )
            )
            return
        np.copyto(self.room, payload)
        self.finish(peer)

    def finish(self, peer: int) -> None:
        """Let the waiting thread go on."""
        self.source = peer
        self._done.set()

    def fail(self, error: Exception) -> None:
        """Let the waiting thread raise an error."""
        self.error = error
        self._done.set()

    def wait(self) -> None:
        """Wait for the message."""
        if not self._done.wait(self._seconds):
            sender = "any rank" if self.peer is None else f"rank {self.peer}"
            raise TimeoutError(
                f"no message of {sender} with tag {self.tag} in {self._seconds:g} s: check that the"
                " sender sends it, or raise the timeout of the process group"
            )
        if self.error is not None:
            raise self.error

    def test(self) -> bool:
        """Return whether the message is here."""
        return self._done.is_set()


class Matching:
    """Posted receives, and messages that came before their receive."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._posted: list[Receive] = []
        self._early: list[tuple[int, int, Any]] = []
        self._lost: dict[int | None, Exception] = {}
        self._stopped = False

    def post(self, receive: Receive) -> Receive:
        """Take a message that is here, or wait for one."""
        with self._change:
            for index, (peer, tag, payload) in enumerate(self._early):
                if receive.accepts(peer, tag):
                    del self._early[index]
                    receive.take(peer, payload)
                    return receive
            error = self._lost.get(receive.peer) or self._lost.get(None)
            if error is not None:
                receive.fail(error)
            else:
                self._posted.append(receive)
                self._change.notify_all()
        return receive

    def claim(self, peer: int, tag: int) -> Receive | None:
        """Return the first receive that a message is for, which is then posted no more."""
        with self._change:
            for index, receive in enumerate(self._posted):
                if receive.accepts(peer, tag):
                    return self._posted.pop(index)
        return None

    def keep(self, peer: int, tag: int, payload: Any) -> None:
        """Keep a message whose receive is not posted, or was posted while the message came."""
        with self._change:
            for index, receive in enumerate(self._posted):
                if receive.accepts(peer, tag):
                    self._posted.pop(index).take(peer, payload)
                    return
            self._early.append((peer, tag, payload))

    def await_posted(self, peer: int) -> bool:
        """Wait for a receive that a rank may serve; return False at the end of the group."""
        with self._change:
            self._change.wait_for(
                lambda: self._stopped or any(receive.accepts(peer) for receive in self._posted)
            )
            return not self._stopped

    def end(self, peer: int) -> None:
        """Fail the receives that wait for a rank which has ended its group, now and later."""
        error = ConnectionError(f"rank {peer} has ended its process group, and sends no more")
        with self._change:
            self._lost[peer] = error
            self._fail([one for one in self._posted if one.peer == peer], error)

    def lose(self, peer: int | None, error: Exception) -> None:
        """Fail the receives that a lost rank may serve, and later those that name it."""
        with self._change:
            self._lost[peer] = error
            self._fail([one for one in self._posted if one.accepts(peer)], error)

    def _fail(self, receives: list[Receive], error: Exception) -> None:
        for receive in receives:
            self._posted.remove(receive)
            receive.fail(error)

    def stop(self) -> None:
        """Let the threads of the receivers end."""
        with self._change:
            self._stopped = True
            self._change.notify_all()
