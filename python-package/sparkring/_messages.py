# SPDX-License-Identifier: Apache-2.0
"""Messages: sends and receives outside the order of collectives, with tags, from any rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

from sparkring import _core
from sparkring._calls.objects import check_token
from sparkring._closing import Closing
from sparkring._core import MessagesHandle, TransferHandle
from sparkring._objects.codec import pack, unpack
from sparkring._options import check_argument

if TYPE_CHECKING:
    from sparkring._communicator import Communicator


def _any(name: str, source_or_tag: int | None) -> int:
    """Return the core's number for any source and any tag in place of None."""
    if source_or_tag is None:
        return -1
    return check_argument(name, source_or_tag, f", or None for any {name}")


def _to(peer: int, tag: int) -> tuple[int, int]:
    return check_argument("peer", peer), check_argument("tag", tag)


@dataclass(frozen=True)
class MessageStatus:
    """Where a message comes from, and what it is.

    Attributes
    ----------
    source : int
        The rank that has sent the message.
    tag : int
        Its tag.
    dtype : str
        The dtype of its elements, such as ``"int64"``.
    count : int
        The number of its elements.
    """

    source: int
    tag: int
    dtype: str
    count: int


class Transfer:
    """A started send or receive, which `Messages.send_start` or `Messages.recv_start` returns.

    A receive that is dropped before a message has matched it is cancelled.
    """

    def __init__(self, handle: TransferHandle) -> None:
        self._handle = handle

    def wait(self) -> Any:
        """Wait until the transfer is done.

        Returns
        -------
        array or None
            What a receive has got; ``None`` of a send.

        Raises
        ------
        MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `Messages.recv`.
        """
        return self._handle.wait()

    def test(self) -> bool:
        """Return whether the transfer is done, without waiting.

        Returns
        -------
        bool

        Raises
        ------
        MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `wait`.
        """
        return self._handle.test()

    def cancel(self) -> None:
        """Cancel a receive that no message has matched: its ``wait()`` raises `AbortedError`."""
        self._handle.cancel()

    @property
    def status(self) -> MessageStatus | None:
        """The message that a receive has got, once ``wait()`` or ``test()`` has found it done."""
        info = self._handle.info()
        return None if info is None else MessageStatus(*info)


class Messages(Closing):
    """Sends and receives outside the order of collectives.

    `Communicator.messages` opens them. A message has a tag, and matches the first receive that
    takes its source and its tag. Messages from one rank to another are received in the order of
    their sends, as far as the receives take them. A rank may send to itself. All methods may be
    called from any thread.

    Short messages, up to 64 KiB, are sent before the peer receives; longer ones when it does. So a
    `send` may wait for its receive: use `sendrecv` or `send_start` where both sides send first.
    """

    def __init__(self, comm: Communicator, handle: MessagesHandle) -> None:
        self._comm = comm
        self._handle = handle

    def send(self, x: Any, peer: int, tag: int = 0, *, dtype: str | None = None) -> None:
        """Send an array to a rank.

        Parameters
        ----------
        x : array, buffer or number
        peer : int
            The rank that receives.
        tag : int
            0 or more.
        dtype : str
            ``"bfloat16"`` for 16-bit words that hold it.

        Raises
        ------
        InvalidError
            For a bad argument.
        MismatchError
            When the peer has closed its messages without receiving.
        PeerLostError, TimeoutError, AbortedError
            When a rank dies, hangs or aborts. Later calls raise the same.

        Examples
        --------
        >>> messages.send(numpy.arange(3), 1, tag=7)  # on rank 0
        """
        self._handle.send(x, *_to(peer, tag), dtype)

    def send_start(self, x: Any, peer: int, tag: int = 0, *, dtype: str | None = None) -> Transfer:
        """Start `send`. The array must not be changed until the transfer is done.

        Parameters
        ----------
        x, peer, tag, dtype
            As for `send`. The array must not be changed until the transfer is done.

        Returns
        -------
        Transfer
            Its ``wait()`` returns None, and raises what `send` raises.

        Raises
        ------
        InvalidError
            For a bad argument.

        Examples
        --------
        >>> sent = messages.send_start(rows, peer)
        >>> received = messages.recv(peer)
        >>> sent.wait()
        """
        return Transfer(self._handle.send_start(x, *_to(peer, tag), dtype))

    def recv_start(
        self,
        source: int | None = None,
        tag: int | None = None,
        *,
        out: Any = None,
        dtype: str | None = None,
    ) -> Transfer:
        """Start `recv`. ``out`` must not be used until the transfer is done.

        Parameters
        ----------
        source, tag, out, dtype
            As for `recv`. ``out`` must not be used until the transfer is done.

        Returns
        -------
        Transfer
            Its ``wait()`` returns the array, and raises what `recv` raises.

        Raises
        ------
        InvalidError
            For a bad argument.
        """
        return Transfer(
            self._handle.recv_start(_any("source", source), _any("tag", tag), out, dtype)
        )

    @overload
    def recv(
        self,
        source: int | None = ...,
        tag: int | None = ...,
        *,
        out: Any = ...,
        dtype: str | None = ...,
        return_status: Literal[False] = ...,
    ) -> Any: ...
    @overload
    def recv(
        self,
        source: int | None = ...,
        tag: int | None = ...,
        *,
        out: Any = ...,
        dtype: str | None = ...,
        return_status: Literal[True],
    ) -> tuple[Any, MessageStatus]: ...
    def recv(
        self,
        source: int | None = None,
        tag: int | None = None,
        *,
        out: Any = None,
        dtype: str | None = None,
        return_status: bool = False,
    ) -> Any:
        """Receive an array.

        Parameters
        ----------
        source : int or None
            The rank that sends; ``None``: any rank.
        tag : int or None
            The tag of the message; ``None``: any tag.
        out : array
            Gets the message, which may be shorter. By default a new array of one dimension.
        dtype : str
            ``"bfloat16"`` for an ``out`` of 16-bit words that hold it.
        return_status : bool
            Whether to return a `MessageStatus`, too.

        Returns
        -------
        array, or tuple of array and MessageStatus

        Raises
        ------
        InvalidError
            For a bad argument.
        MismatchError
            When the message is longer than ``out`` or of another dtype; it is lost then. When the
            source has closed its messages. Later calls work.
        PeerLostError, TimeoutError, AbortedError
            When a rank dies, hangs or aborts. Later calls raise the same.

        Examples
        --------
        >>> messages.recv(tag=7, return_status=True)  # on rank 1
        (array([0, 1, 2]), MessageStatus(source=0, tag=7, dtype='int64', count=3))
        """
        transfer = self.recv_start(source, tag, out=out, dtype=dtype)
        array = transfer.wait()
        return (array, transfer.status) if return_status else array

    def sendrecv(
        self,
        x: Any,
        peer: int,
        tag: int = 0,
        *,
        source: int | None = None,
        source_tag: int | None = None,
        out: Any = None,
    ) -> Any:
        """Send an array and receive another one, at once.

        Parameters
        ----------
        x : array, buffer or number
        peer : int
            The rank that receives ``x``.
        tag : int
            Of ``x``.
        source, source_tag : int or None
            Of the message to be received; ``None``: any.
        out : array
            As for `recv`.

        Returns
        -------
        array

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `recv`.
        """
        receive = self.recv_start(source, source_tag, out=out)
        self.send(x, peer, tag)
        return receive.wait()

    def probe(self, source: int | None = None, tag: int | None = None) -> MessageStatus:
        """Wait for a message that `recv` would get, and leave it there.

        Parameters
        ----------
        source, tag : int or None
            As for `recv`.

        Returns
        -------
        MessageStatus

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `recv`.
        """
        info = self._handle.probe(_any("source", source), _any("tag", tag), True)
        assert info is not None
        return MessageStatus(*info)

    def iprobe(self, source: int | None = None, tag: int | None = None) -> MessageStatus | None:
        """Return what `probe` would, or ``None`` where it would wait.

        Parameters
        ----------
        source, tag : int or None
            As for `recv`.

        Returns
        -------
        MessageStatus or None

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `recv`.
        """
        info = self._handle.probe(_any("source", source), _any("tag", tag), False)
        return None if info is None else MessageStatus(*info)

    def send_object(self, x: Any, peer: int, tag: int = 0) -> None:
        """Send an object, as a pickle, to a rank, which calls `recv_object`.

        Parameters
        ----------
        x : object
            Anything that can be pickled.
        peer, tag : int
            As for `send`.

        Raises
        ------
        InvalidError
            Without a token: reading a pickle can run any code. For a bad argument.
        MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `send`.
        """
        check_token(self._comm)
        memory, _, failure = pack([x], 1)
        self.send(memory, peer, tag)
        if failure is not None:
            raise failure

    def recv_object(self, source: int | None = None, tag: int | None = None) -> Any:
        """Receive an object that a rank sends with `send_object`.

        Parameters
        ----------
        source, tag : int or None
            As for `recv`.

        Returns
        -------
        object

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `recv`, and as for `Communicator.recv_object`.
        """
        check_token(self._comm)
        memory, status = self.recv(source, tag, return_status=True)
        return unpack(memory, [status.source])[0]

    def close(self) -> None:
        """Wait for the transfers of this rank, then until all ranks have closed. Collective.

        Raises
        ------
        MismatchError
            When a message to this rank was never received.
        PeerLostError, TimeoutError, AbortedError
            When a rank dies, hangs or aborts.
        """
        self._handle.close()

    def abort(self, reason: str | None = None) -> None:
        """End the messages from this rank alone: transfers of all ranks raise `AbortedError`.

        Parameters
        ----------
        reason : str, optional
            Text for the errors of all ranks.
        """
        self._handle.abort(reason)


def messages(self: Communicator) -> Messages:
    """Open messages between all ranks, outside the order of collectives. Collective.

    `send` and `recv` of a communicator have a place in the order of its collectives. Messages have
    none: they have tags, come from any rank, and any number may be under way in both directions.

    Returns
    -------
    Messages
        A context manager that closes them.

    Raises
    ------
    PeerLostError, TimeoutError, AbortedError
        When a rank dies, hangs or aborts.

    Examples
    --------
    >>> with comm.messages() as messages:
    ...     right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    ...     theirs = messages.sendrecv(mine, right, source=left)
    """
    return Messages(self, _core.messages_open(self))
