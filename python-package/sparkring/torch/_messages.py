# SPDX-License-Identifier: Apache-2.0
"""send and recv of a process group: with tags, from a rank or from any, in any order.

The messages of a communicator have a place in the order of its collectives, and those of PyTorch
have none. So two ranks that send open a communicator of their own for each direction, when the
first message is sent or awaited. A message is a header (tag, bytes) and the bytes.

A sender starts two requests. At the receiver one thread for each sender reads, while a receive is
posted that this sender may serve. A message goes to the first posted receive that matches its tag;
others are kept until a receive asks for them.

At the end each sender says so with the header `_END`, which its receiver awaits.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkring._core import Communicator, RingError
from sparkring.torch._matching import Matching, Receive
from sparkring.torch._rendezvous import await_key, open_pair

_END = -1  # the tag of no message
_CLOSING = 10.0  # seconds for the ends of a pair to part


class StoppedError(RuntimeError):
    """The process group ends while a pair is being opened."""


class Send:
    """A message on its way; a `Waitable`."""

    def __init__(self, header: Any, payload: Any) -> None:
        self.parts = (header, payload)
        self.ready = threading.Event()
        self.requests: list[Any] = []
        self.error: Exception | None = None

    def start(self, comm: Communicator) -> None:
        """Send as soon as the messages before are sent."""
        try:
            self.requests = [comm.send_start(part, 1) for part in self.parts]
        except RingError as error:
            self.error = error
        self.ready.set()

    def wait(self) -> None:
        """Wait until the bytes are sent."""
        self.ready.wait()
        if self.error is not None:
            raise self.error
        for request in self.requests:
            request.wait()

    def test(self) -> bool:
        """Return whether the bytes are sent."""
        if not self.ready.is_set():
            return False
        return self.error is not None or all(request.test() for request in self.requests)


class Sender:
    """The way from this rank to another."""

    def __init__(self, open_comm: Callable[[], Communicator]) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Send] = []
        self._comm: Communicator | None = None
        self._error: Exception | None = None
        self.thread = threading.Thread(
            target=self._open, args=(open_comm,), name="sparkring-sender", daemon=True
        )
        self.thread.start()

    def send(self, tag: int, payload: Any) -> Send:
        """Start a message, or queue it until the pair is open."""
        message = Send(np.array([tag, payload.nbytes], "int64"), payload)
        with self._lock:
            if self._comm is not None:
                message.start(self._comm)
            elif self._error is None:
                self._waiting.append(message)
            else:
                self._refuse(message)
        return message

    def _refuse(self, message: Send) -> None:
        message.error = self._error
        message.ready.set()

    def _open(self, open_comm: Callable[[], Communicator]) -> None:
        comm = error = None
        try:
            comm = open_comm()
        except Exception as failed:
            error = failed
        with self._lock:
            self._comm, self._error = comm, error
            for message in self._waiting:
                message.start(comm) if comm is not None else self._refuse(message)
            self._waiting.clear()

    def close(self, orderly: bool) -> None:
        """Part from the receiver; wait for messages on their way only in an orderly end."""
        self.thread.join(_CLOSING)
        comm = self._comm
        if comm is None or not comm.usable:
            return
        with contextlib.suppress(RingError):
            if orderly:
                comm.send(np.array([_END, 0], "int64"), 1)
                comm.close(_CLOSING)
                return
        comm.abort("the process group has ended")


class Receiver:
    """The way from another rank to this one."""

    def __init__(
        self, peer: int, matching: Matching, open_comm: Callable[[], Communicator]
    ) -> None:
        self._peer, self._matching = peer, matching
        self.comm: Communicator | None = None
        self.thread = threading.Thread(
            target=self._run, args=(open_comm,), name="sparkring-receiver", daemon=True
        )
        self.thread.start()

    def _run(self, open_comm: Callable[[], Communicator]) -> None:
        try:
            self.comm = open_comm()
            while self._matching.await_posted(self._peer) and self._read(self.comm):
                pass
            if self.comm.usable:
                self._drain(self.comm)
        except StoppedError:
            pass
        except Exception as error:
            self._matching.lose(self._peer, error)

    def _read(self, comm: Communicator) -> bool:
        """Read one message; return whether another can follow."""
        tag, size = (int(number) for number in comm.recv(np.empty(2, "int64"), 0))
        if tag == _END:
            self._matching.end(self._peer)
            comm.close(_CLOSING)
            return False
        receive = self._matching.claim(self._peer, tag)
        if receive is None:
            self._matching.keep(self._peer, tag, comm.recv(np.empty(size, "uint8"), 0))
            return True
        try:
            if receive.room.nbytes == size:
                comm.recv(receive.room, 0, out=receive.room)
                receive.finish(self._peer)
            else:
                receive.take(self._peer, comm.recv(np.empty(size, "uint8"), 0))
        except RingError as error:
            receive.fail(error)
            raise
        return True

    def _drain(self, comm: Communicator) -> None:
        """Read what nobody asks for any more, up to the end."""
        with contextlib.suppress(RingError):
            while self._read(comm):
                pass

    def close(self, orderly: bool) -> None:
        """Wait for the end that the sender announces, or abort."""
        if not orderly and self.comm is not None:
            self.comm.abort("the process group has ended")
        self.thread.join(_CLOSING)
        if self.comm is not None and self.comm.usable:
            self.comm.abort("the process group has ended")
            self.thread.join(_CLOSING)


class Messages:
    """The senders and receivers of a rank."""

    def __init__(self, store: Any, comm: Communicator, seconds: float) -> None:
        self._store, self._rank, self._hosts = store, comm.rank, comm.hosts
        self._seconds = seconds
        self._matching = Matching()
        self._lock = threading.Lock()
        self._senders: dict[int, Sender] = {}
        self._receivers: dict[int, Receiver] = {}
        self._doorkeeper: threading.Thread | None = None
        self._stopped = threading.Event()

    def send(self, payload: Any, peer: int, tag: int) -> Send:
        """Start to send bytes to a rank."""
        with self._lock:
            if peer not in self._senders:
                self._knock(peer)
                self._senders[peer] = Sender(lambda: self._open(peer, True))
            return self._senders[peer].send(tag, payload)

    def recv(self, room: Any, peer: int | None, tag: int) -> Receive:
        """Post a receive of bytes from a rank, or from any."""
        if peer is None:
            self._open_to_all()
        else:
            self._open_to(peer)
        return self._matching.post(Receive(room, peer, tag, self._seconds))

    def _open(self, peer: int, sends: bool) -> Communicator:
        ends = (self._rank, peer) if sends else (peer, self._rank)
        hosts = [self._hosts[end] for end in ends]
        name = f"pair/{ends[0]}-{ends[1]}"
        return open_pair(self._store, name, hosts, sends, self._seconds, self._check)

    def _check(self) -> None:
        if self._stopped.is_set():
            raise StoppedError

    def _open_to(self, peer: int) -> None:
        with self._lock:
            if peer not in self._receivers and not self._stopped.is_set():
                self._receivers[peer] = Receiver(
                    peer, self._matching, lambda: self._open(peer, False)
                )

    # A receive from any rank cannot know which ranks will send. So a sender numbers itself among
    # those of its receiver, and the receiver's doorkeeper reads the numbers.

    def _knock(self, peer: int) -> None:
        number = self._store.add(f"knocks/{peer}", 1)
        self._store.set(f"knock/{peer}/{number}", str(self._rank))

    def _open_to_all(self) -> None:
        with self._lock:
            if self._doorkeeper is None:
                self._doorkeeper = threading.Thread(
                    target=self._keep_door, name="sparkring-doorkeeper", daemon=True
                )
                self._doorkeeper.start()

    def _keep_door(self) -> None:
        try:
            for number in range(1, len(self._hosts)):
                key = f"knock/{self._rank}/{number}"
                await_key(self._store, key, self._check)
                self._open_to(int(self._store.get(key)))
        except StoppedError:
            pass
        except Exception as error:  # the store is gone
            self._matching.lose(None, error)

    def close(self, orderly: bool) -> None:
        """End all threads and pairs; only an orderly end waits for messages on their way."""
        self._stopped.set()
        self._matching.stop()
        for sender in self._senders.values():
            sender.close(orderly)
        for receiver in self._receivers.values():
            receiver.close(orderly)
        if self._doorkeeper is not None:
            self._doorkeeper.join(_CLOSING)
