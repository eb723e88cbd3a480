# SPDX-License-Identifier: Apache-2.0
"""Reductions of arrays: on every rank, on one rank, and over the ranks below."""
# mypy: allow-untyped-defs

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from sparkring._core import CommunicatorBase
from sparkring._request import KIND, starts

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from sparkring._types import Array, Library, Number, Operand, Output, Scalar, Scaled


class Reductions(CommunicatorBase):
    """Reductions of arrays."""

    __slots__ = ()

    @overload
    def allreduce(
        self, x: Operand, op: str = ..., *, out: Output, **options: Unpack[Scaled]
    ) -> Output: ...
    @overload
    def allreduce(
        self, x: NDArray[Scalar], op: str = ..., *, out: None = ..., **options: Unpack[Scaled]
    ) -> NDArray[Scalar]: ...
    @overload
    def allreduce(
        self, x: Number, op: str = ..., *, out: None = ..., **options: Unpack[Scaled]
    ) -> Any: ...
    @overload
    def allreduce(
        self, x: Array, op: str = ..., *, out: None = ..., **options: Unpack[Scaled]
    ) -> NDArray[Any]: ...
    @overload
    def allreduce(
        self, x: Library, op: str = ..., *, out: None = ..., **options: Unpack[Scaled]
    ) -> Library: ...
    def allreduce(self, x, op="sum", *, out=None, dtype=None, prescale=1.0, postscale=1.0):
        """Combine the arrays of all ranks, element by element.

        Every rank gets the same result, to the bit.

        Parameters
        ----------
        x : array or number
            Of the same dtype and shape on every rank.
        op : {'sum', 'prod', 'min', 'max', 'avg', 'land', 'lor', 'lxor', 'band', 'bor', 'bxor'}
            ``mean`` and ``average`` are ``avg``, which truncates integers towards zero.
            Integer sums and products wrap at the width of the dtype, as NumPy's do.
            ``min`` and ``max`` propagate NaN. ``land``, ``lor`` and ``lxor`` give 0
            or 1. They and the bitwise ``band``, ``bor`` and ``bxor`` take integers and
            bool. On bool ``sum`` and ``max`` are ``lor``, ``prod`` and ``min`` are
            ``land``, and there is no ``avg``. ``x.astype("int64")`` counts.
            Complex dtypes have ``sum``, ``prod`` and ``avg`` only.
        out : array, optional
            Receives the result. ``out=x`` works in place.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.
        prescale, postscale : float
            Multiply ``x`` before and the result after the reduction. Integers are multiplied
            as float64, truncated and kept within their dtype. Not for bool.

        Returns
        -------
        numpy.ndarray or NumPy scalar or out
            Of the shape and dtype of ``x``.

        Raises
        ------
        InvalidError
            For an invalid ``x``, ``op``, ``out`` or ``dtype``.
        MismatchError
            When the ranks made different calls. A rank that only sends, such as the root of a
            `broadcast`, does not wait for the others: it raises the error in its next call or in
            `close`.
        PeerLostError, TimeoutError, AbortedError
            When another rank died, timed out or aborted.

        Examples
        --------
        >>> comm.allreduce(numpy.ones(3))  # with 4 ranks
        array([4., 4., 4.])
        """
        return self._allreduce(KIND, x, op, out, dtype, prescale, postscale)

    allreduce_start = starts(allreduce)

    @overload
    def reduce(
        self, x: Operand, op: str = ..., root: int = ..., *, out: Output, **options: Unpack[Scaled]
    ) -> Output | None: ...
    @overload
    def reduce(
        self,
        x: NDArray[Scalar],
        op: str = ...,
        root: int = ...,
        *,
        out: None = ...,
        **options: Unpack[Scaled],
    ) -> NDArray[Scalar] | None: ...
    @overload
    def reduce(
        self,
        x: Number,
        op: str = ...,
        root: int = ...,
        *,
        out: None = ...,
        **options: Unpack[Scaled],
    ) -> Any: ...
    @overload
    def reduce(
        self,
        x: Array,
        op: str = ...,
        root: int = ...,
        *,
        out: None = ...,
        **options: Unpack[Scaled],
    ) -> NDArray[Any] | None: ...
    @overload
    def reduce(
        self,
        x: Library,
        op: str = ...,
        root: int = ...,
        *,
        out: None = ...,
        **options: Unpack[Scaled],
    ) -> Library | None: ...
    def reduce(self, x, op="sum", root=0, *, out=None, dtype=None, prescale=1.0, postscale=1.0):
        """Combine the arrays of all ranks, element by element, on the root.

        Parameters
        ----------
        x : array or number
            Of the same dtype and shape on every rank.
        op : {'sum', 'prod', 'min', 'max', 'avg', 'land', 'lor', ...}
            As for `allreduce`.
        root : int
            The rank that gets the result.
        out : array, optional
            Receives the result on ``root``; ignored on the other ranks. ``out=x`` works
            in place.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.
        prescale, postscale : float
            As for `allreduce`.

        Returns
        -------
        numpy.ndarray or NumPy scalar or out or None
            On ``root`` the result of `allreduce`, ``None`` on the other ranks.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> comm.reduce(numpy.ones(3), root=1)  # on rank 1 of 4
        array([4., 4., 4.])
        """
        return self._reduce(KIND, x, op, root, out, dtype, prescale, postscale)

    reduce_start = starts(reduce)

    @overload
    def scan(
        self, x: Operand, op: str = ..., *, out: Output, dtype: str | None = ...
    ) -> Output: ...
    @overload
    def scan(
        self, x: NDArray[Scalar], op: str = ..., *, out: None = ..., dtype: str | None = ...
    ) -> NDArray[Scalar]: ...
    @overload
    def scan(
        self, x: Number, op: str = ..., *, out: None = ..., dtype: str | None = ...
    ) -> Any: ...
    @overload
    def scan(
        self, x: Array, op: str = ..., *, out: None = ..., dtype: str | None = ...
    ) -> NDArray[Any]: ...
    @overload
    def scan(
        self, x: Library, op: str = ..., *, out: None = ..., dtype: str | None = ...
    ) -> Library: ...
    def scan(self, x, op="sum", *, out=None, dtype=None):
        """Combine the arrays of ranks 0 to r on every rank r: a running total over the ranks.

        Parameters
        ----------
        x : array or number
            Of the same dtype and shape on every rank.
        op : {'sum', 'prod', 'min', 'max', 'land', 'lor', ...}
            As for `allreduce`, without ``avg``.
        out : array, optional
            Receives the result. ``out=x`` works in place.
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
        >>> comm.scan(10)  # on rank 2 of 4
        np.int64(30)
        """
        return self._scan(KIND, x, op, out, dtype)

    scan_start = starts(scan)

    @overload
    def exscan(
        self, x: Operand, op: str = ..., *, out: Output, dtype: str | None = ...
    ) -> Output: ...
    @overload
    def exscan(
        self, x: NDArray[Scalar], op: str = ..., *, out: None = ..., dtype: str | None = ...
    ) -> NDArray[Scalar]: ...
    @overload
    def exscan(
        self, x: Number, op: str = ..., *, out: None = ..., dtype: str | None = ...
    ) -> Any: ...
    @overload
    def exscan(
        self, x: Array, op: str = ..., *, out: None = ..., dtype: str | None = ...
    ) -> NDArray[Any]: ...
    @overload
    def exscan(
        self, x: Library, op: str = ..., *, out: None = ..., dtype: str | None = ...
    ) -> Library: ...
    def exscan(self, x, op="sum", *, out=None, dtype=None):
        """Combine the arrays of ranks 0 to r-1 on every rank r.

        The sum of the lengths of all lower ranks is the offset of this rank's rows. Rank 0
        gets the identity of ``op``, where MPI leaves the result undefined: 0 for ``sum``,
        1 for ``prod``, the largest value of the dtype for ``min``.

        Parameters
        ----------
        x : array or number
            Of the same dtype and shape on every rank.
        op : {'sum', 'prod', 'min', 'max', 'land', 'lor', ...}
            As for `allreduce`, without ``avg``.
        out : array, optional
            Receives the result. ``out=x`` works in place.
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
        >>> comm.exscan(len(rows))  # the first row of this rank among all rows
        np.int64(2000)
        """
        return self._exscan(KIND, x, op, out, dtype)

    exscan_start = starts(exscan)
