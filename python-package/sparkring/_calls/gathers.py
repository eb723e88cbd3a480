# SPDX-License-Identifier: Apache-2.0
"""The arrays of all ranks, on every rank or on one."""
# mypy: allow-untyped-defs

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from sparkring._core import CommunicatorBase
from sparkring._request import KIND, starts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._types import Array, Library, Number, Operand, Output, Scalar


class Gathers(CommunicatorBase):
    """Collectives that join the arrays of all ranks."""

    __slots__ = ()

    @overload
    def allgather(self, x: Operand, *, out: Output, dtype: str | None = ...) -> Output: ...
    @overload
    def allgather(
        self, x: NDArray[Scalar], *, out: None = ..., dtype: str | None = ...
    ) -> NDArray[Scalar]: ...
    @overload
    def allgather(
        self, x: Number | Array, *, out: None = ..., dtype: str | None = ...
    ) -> NDArray[Any]: ...
    @overload
    def allgather(self, x: Library, *, out: None = ..., dtype: str | None = ...) -> Library: ...
    def allgather(self, x, *, out=None, dtype=None):
        """Send the arrays of all ranks to every rank, in rank order.

        Parameters
        ----------
        x : array or number
            Of the same dtype and shape on every rank.
        out : array, optional
            Receives the result: ``size`` times the elements of ``x``. In place when
            ``x`` is ``out[rank]``; any other overlap is an error.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.

        Returns
        -------
        numpy.ndarray or out
            Of the shape ``(size, *x.shape)`` and the dtype of ``x``.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> comm.allgather(comm.rank)  # with 4 ranks
        array([0, 1, 2, 3])
        """
        return self._allgather(KIND, x, out, dtype)

    allgather_start = starts(allgather)

    @overload
    def allgatherv(self, x: NDArray[Scalar], *, dtype: str | None = ...) -> NDArray[Scalar]: ...
    @overload
    def allgatherv(self, x: Array, *, dtype: str | None = ...) -> NDArray[Any]: ...
    @overload
    def allgatherv(self, x: Library, *, dtype: str | None = ...) -> Library: ...
    def allgatherv(self, x, *, dtype=None):
        """Concatenate the arrays of all ranks, of any lengths, on every rank.

        The ranks exchange their lengths first.

        Parameters
        ----------
        x : array
            Of the same dtype and shape on every rank, except for the first dimension.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.

        Returns
        -------
        numpy.ndarray
            The arrays in rank order, concatenated along the first dimension.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> comm.allgatherv(numpy.full(comm.rank, comm.rank))  # with 4 ranks
        array([1, 2, 2, 3, 3, 3])
        """
        return self._allgatherv(KIND, x, dtype)

    allgatherv_start = starts(allgatherv)

    @overload
    def gather(
        self, x: Operand, root: int = ..., *, out: Output, dtype: str | None = ...
    ) -> Output | None: ...
    @overload
    def gather(
        self, x: NDArray[Scalar], root: int = ..., *, out: None = ..., dtype: str | None = ...
    ) -> NDArray[Scalar] | None: ...
    @overload
    def gather(
        self, x: Number | Array, root: int = ..., *, out: None = ..., dtype: str | None = ...
    ) -> NDArray[Any] | None: ...
    @overload
    def gather(
        self, x: Library, root: int = ..., *, out: None = ..., dtype: str | None = ...
    ) -> Library | None: ...
    def gather(self, x, root=0, *, out=None, dtype=None):
        """Send the arrays of all ranks to the root, in rank order.

        Parameters
        ----------
        x : array or number
            Of the same dtype and shape on every rank.
        root : int
            The rank that gets the result.
        out : array, optional
            Receives the result on ``root``; ignored on the other ranks. In place when
            ``x`` is ``out[rank]``; any other overlap is an error.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.

        Returns
        -------
        numpy.ndarray or out or None
            On ``root`` the result of `allgather`, ``None`` on the other ranks.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> comm.gather(comm.rank)  # on rank 0 of 4
        array([0, 1, 2, 3])
        """
        return self._gather(KIND, x, root, out, dtype)

    gather_start = starts(gather)

    @overload
    def gatherv(
        self, x: NDArray[Scalar], root: int = ..., *, dtype: str | None = ...
    ) -> NDArray[Scalar] | None: ...
    @overload
    def gatherv(
        self, x: Array, root: int = ..., *, dtype: str | None = ...
    ) -> NDArray[Any] | None: ...
    @overload
    def gatherv(
        self, x: Library, root: int = ..., *, dtype: str | None = ...
    ) -> Library | None: ...
    def gatherv(self, x, root=0, *, dtype=None):
        """Concatenate the arrays of all ranks, of any lengths, on the root.

        The ranks exchange their lengths first.

        Parameters
        ----------
        x : array
            Of the same dtype and shape on every rank, except for the first dimension.
        root : int
            The rank that gets the result.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.

        Returns
        -------
        numpy.ndarray or None
            On ``root`` the result of `allgatherv`, ``None`` on the other ranks.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> comm.gatherv(numpy.full(comm.rank, comm.rank))  # on rank 0 of 4
        array([1, 2, 2, 3, 3, 3])
        """
        return self._gatherv(KIND, x, root, dtype)

    gatherv_start = starts(gatherv)
