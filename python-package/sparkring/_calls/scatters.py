# SPDX-License-Identifier: Apache-2.0
"""An array of one rank, or of every rank, to all ranks: whole, or cut into parts."""
# mypy: allow-untyped-defs

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from sparkring._core import CommunicatorBase
from sparkring._request import KIND, starts

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

    from sparkring._types import Array, Counts, Library, Number, Operand, Output, Rows, Scalar


class Scatters(CommunicatorBase):
    """Collectives that send arrays, or parts of arrays, to all ranks."""

    __slots__ = ()

    @overload
    def broadcast(
        self, x: Operand, root: int = ..., *, out: Output, dtype: str | None = ...
    ) -> Output: ...
    @overload
    def broadcast(
        self, x: NDArray[Scalar], root: int = ..., *, out: None = ..., dtype: str | None = ...
    ) -> NDArray[Scalar]: ...
    @overload
    def broadcast(
        self, x: Number, root: int = ..., *, out: None = ..., dtype: str | None = ...
    ) -> Any: ...
    @overload
    def broadcast(
        self, x: Array, root: int = ..., *, out: None = ..., dtype: str | None = ...
    ) -> NDArray[Any]: ...
    @overload
    def broadcast(
        self, x: Library, root: int = ..., *, out: None = ..., dtype: str | None = ...
    ) -> Library: ...
    def broadcast(self, x, root=0, *, out=None, dtype=None):
        """Send the array of the root to every rank.

        Parameters
        ----------
        x : array or number
            ``root`` sends it. On the other ranks only its shape and dtype are used.
        root : int
            The rank that sends.
        out : array, optional
            Receives the result. ``out=x`` works in place.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.

        Returns
        -------
        numpy.ndarray or NumPy scalar or out
            Of the shape and dtype of this rank's ``x``.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> weights = comm.broadcast(weights)  # all ranks start from those of rank 0
        """
        return self._broadcast(KIND, x, root, out, dtype)

    broadcast_start = starts(broadcast)

    @overload
    def scatter(
        self, x: Rows, root: int = ..., *, out: Output, dtype: str | None = ...
    ) -> Output: ...
    @overload
    def scatter(
        self, x: NDArray[Scalar], root: int = ..., *, out: None = ..., dtype: str | None = ...
    ) -> NDArray[Scalar]: ...
    @overload
    def scatter(
        self, x: Array, root: int = ..., *, out: None = ..., dtype: str | None = ...
    ) -> NDArray[Any]: ...
    @overload
    def scatter(
        self, x: Library, root: int = ..., *, out: None = ..., dtype: str | None = ...
    ) -> Library: ...
    def scatter(self, x, root=0, *, out=None, dtype=None):
        """Cut the array of the root into equal parts and send one part to every rank.

        Part r goes to rank r.

        Parameters
        ----------
        x : array
            ``root`` cuts it along the first dimension, which is a multiple of
            ``size``. On the other ranks only its shape and dtype are used.
        root : int
            The rank that sends.
        out : array, optional
            Receives the result. In place on ``root`` when ``out`` is root's part of
            ``x``; any other overlap on ``root`` is an error.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.

        Returns
        -------
        numpy.ndarray or out
            Of the dtype of ``x``, and of its shape with ``x.shape[0] // size`` rows.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> comm.scatter(numpy.arange(8.0))  # on rank 1 of 4
        array([2., 3.])
        """
        return self._scatter(KIND, x, root, out, dtype)

    scatter_start = starts(scatter)

    @overload
    def scatterv(
        self, x: NDArray[Scalar], counts: Counts, root: int = ..., *, dtype: str | None = ...
    ) -> NDArray[Scalar]: ...
    @overload
    def scatterv(
        self, x: Array, counts: Counts, root: int = ..., *, dtype: str | None = ...
    ) -> NDArray[Any]: ...
    @overload
    def scatterv(
        self, x: Library, counts: Counts, root: int = ..., *, dtype: str | None = ...
    ) -> Library: ...
    def scatterv(self, x, counts, root=0, *, dtype=None):
        """Cut the array of the root into variable-length parts and send one to every rank.

        Part r goes to rank r. Every rank knows all counts, so the ranks exchange no lengths
        first, unlike in `allgatherv`, `gatherv` and `alltoallv`.

        Parameters
        ----------
        x : array
            ``root`` cuts it along the first dimension. On the other ranks only its dtype
            and the shape of a row are used. A row is one element of the first dimension.
        counts : sequence of int
            The number of rows of each rank, the same on every rank. They add up to the
            first dimension of ``x`` on ``root``.
        root : int
            The rank that sends.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.

        Returns
        -------
        numpy.ndarray
            Of the dtype of ``x``, and of its shape with ``counts[rank]`` rows.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> comm.scatterv(numpy.arange(6.0), [0, 1, 2, 3])  # on rank 2 of 4
        array([1., 2.])
        """
        return self._scatterv(KIND, x, counts, root, dtype)

    scatterv_start = starts(scatterv)

    @overload
    def alltoall(self, x: Rows, *, out: Output, dtype: str | None = ...) -> Output: ...
    @overload
    def alltoall(
        self, x: NDArray[Scalar], *, out: None = ..., dtype: str | None = ...
    ) -> NDArray[Scalar]: ...
    @overload
    def alltoall(self, x: Array, *, out: None = ..., dtype: str | None = ...) -> NDArray[Any]: ...
    @overload
    def alltoall(self, x: Library, *, out: None = ..., dtype: str | None = ...) -> Library: ...
    def alltoall(self, x, *, out=None, dtype=None):
        """Send a part of every rank's array to every rank.

        ``x`` is cut along the first dimension into ``size`` equal parts: part r of rank s
        becomes part s of rank r.

        Parameters
        ----------
        x : array
            Of the same dtype and shape on every rank. Its first dimension
            is a multiple of ``size``.
        out : array, optional
            Receives the result. It must not overlap ``x``.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.

        Returns
        -------
        numpy.ndarray or out
            Of the shape and dtype of ``x``.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> comm.alltoall(10 * comm.rank + numpy.arange(4))  # on rank 2 of 4
        array([ 2, 12, 22, 32])
        """
        return self._alltoall(KIND, x, out, dtype)

    alltoall_start = starts(alltoall)

    @overload
    def alltoallv(
        self,
        x: NDArray[Scalar],
        counts: Counts,
        *,
        dtype: str | None = ...,
        return_counts: Literal[False] = ...,
    ) -> NDArray[Scalar]: ...
    @overload
    def alltoallv(
        self,
        x: NDArray[Scalar],
        counts: Counts,
        *,
        dtype: str | None = ...,
        return_counts: Literal[True],
    ) -> tuple[NDArray[Scalar], NDArray[int64]]: ...
    @overload
    def alltoallv(
        self,
        x: Array,
        counts: Counts,
        *,
        dtype: str | None = ...,
        return_counts: Literal[False] = ...,
    ) -> NDArray[Any]: ...
    @overload
    def alltoallv(
        self, x: Array, counts: Counts, *, dtype: str | None = ..., return_counts: Literal[True]
    ) -> tuple[NDArray[Any], NDArray[int64]]: ...
    @overload
    def alltoallv(
        self,
        x: Library,
        counts: Counts,
        *,
        dtype: str | None = ...,
        return_counts: Literal[False] = ...,
    ) -> Library: ...
    @overload
    def alltoallv(
        self, x: Library, counts: Counts, *, dtype: str | None = ..., return_counts: Literal[True]
    ) -> tuple[Library, NDArray[int64]]: ...
    def alltoallv(self, x, counts, *, dtype=None, return_counts=False):
        """Send a variable-length part of every rank's array to every rank.

        The ranks exchange the lengths first.

        Parameters
        ----------
        x : array
            Of the same dtype and shape on every rank, except for the first dimension.
        counts : sequence of int
            ``counts[r]`` rows of ``x`` go to rank r. The parts lie in ``x`` in rank order.
            The counts add up to the first dimension of ``x``.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.
        return_counts : bool
            Whether to return the number of rows from each rank, too.

        Returns
        -------
        numpy.ndarray
            The received parts in rank order, concatenated along the first dimension.
        numpy.ndarray of int64
            With ``return_counts`` only: ``size`` numbers, the rows from each rank.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> words = comm.alltoallv(words, counts)  # every rank gets those that are its own
        >>> words, received = comm.alltoallv(words, counts, return_counts=True)
        """
        return self._alltoallv(KIND, x, counts, dtype, return_counts)

    alltoallv_start = starts(alltoallv)
