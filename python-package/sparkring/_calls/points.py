# SPDX-License-Identifier: Apache-2.0
"""Messages between two ranks, in the order of collectives."""
# mypy: allow-untyped-defs

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from sparkring._core import CommunicatorBase

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._types import Array, Library, Number, Operand, Output, Scalar


class Points(CommunicatorBase):
    """A send and its receive. Both have a place in the order of collectives."""

    __slots__ = ()

    def send(self, x: Operand, peer: int, *, dtype: str | None = None) -> None:
        """Send an array to one other rank, which calls `recv`.

        Only the two ranks call. Messages between two ranks arrive in order. `send` may
        return before the peer has received the array.

        A message has a place in the order of collectives. `messages` has messages that have none,
        with tags, from any rank, and with starts.

        Parameters
        ----------
        x : array or number
            The data.
        peer : int
            The rank that receives.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> comm.send(weights, 1)  # on rank 0
        """
        self._send(x, peer, dtype)

    @overload
    def recv(self, x: Operand, peer: int, *, out: Output, dtype: str | None = ...) -> Output: ...
    @overload
    def recv(
        self, x: NDArray[Scalar], peer: int, *, out: None = ..., dtype: str | None = ...
    ) -> NDArray[Scalar]: ...
    @overload
    def recv(self, x: Number, peer: int, *, out: None = ..., dtype: str | None = ...) -> Any: ...
    @overload
    def recv(
        self, x: Array, peer: int, *, out: None = ..., dtype: str | None = ...
    ) -> NDArray[Any]: ...
    @overload
    def recv(
        self, x: Library, peer: int, *, out: None = ..., dtype: str | None = ...
    ) -> Library: ...
    def recv(self, x, peer, *, out=None, dtype=None):
        """Receive the array that one other rank sends with `send`.

        `messages` has receives with tags, from any rank, and with starts.

        Parameters
        ----------
        x : array or number
            Has the dtype and shape of the message. ``comm.recv(x, peer, out=x)``
            receives into ``x``.
        peer : int
            The rank that sends.
        out : array, optional
            Receives the result.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.

        Returns
        -------
        numpy.ndarray or NumPy scalar or out
            Of the shape and dtype of ``x``.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> weights = comm.recv(weights, 0)  # on rank 1
        """
        return self._recv(x, peer, out, dtype)
