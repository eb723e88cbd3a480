# SPDX-License-Identifier: Apache-2.0
"""Reductions of arrays of which every rank gets a part."""
# mypy: allow-untyped-defs

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from sparkring._core import CommunicatorBase
from sparkring._request import KIND, starts

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from sparkring._types import Array, Counts, Library, Output, Rows, Scalar, Scaled


class ReduceScatters(CommunicatorBase):
    """Reductions of which every rank gets a part."""

    __slots__ = ()

    @overload
    def reduce_scatter(
        self, x: Rows, op: str = ..., *, out: Output, **options: Unpack[Scaled]
    ) -> Output: ...
    @overload
    def reduce_scatter(
        self, x: NDArray[Scalar], op: str = ..., *, out: None = ..., **options: Unpack[Scaled]
    ) -> NDArray[Scalar]: ...
    @overload
    def reduce_scatter(
        self, x: Array, op: str = ..., *, out: None = ..., **options: Unpack[Scaled]
    ) -> NDArray[Any]: ...
    @overload
    def reduce_scatter(
        self, x: Library, op: str = ..., *, out: None = ..., **options: Unpack[Scaled]
    ) -> Library: ...
    def reduce_scatter(self, x, op="sum", *, out=None, dtype=None, prescale=1.0, postscale=1.0):
        """Combine the arrays of all ranks and send every rank its part of the result.

        The result of `allreduce` is cut along the first dimension into ``size`` equal
        parts. Rank r gets part r.

        Parameters
        ----------
        x : array
            Of the same dtype and shape on every rank. Its first dimension
            is a multiple of ``size``.
        op : {'sum', 'prod', 'min', 'max', 'avg', 'land', 'lor', ...}
            As for `allreduce`.
        out : array, optional
            Receives the result. In place when ``out`` is this rank's part of ``x``; any
            other overlap is an error.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.
        prescale, postscale : float
            As for `allreduce`.

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
        >>> comm.reduce_scatter(numpy.arange(4))  # on rank 3 of 4
        array([12])
        """
        return self._reduce_scatter(KIND, x, op, out, dtype, prescale, postscale)

    reduce_scatter_start = starts(reduce_scatter)

    @overload
    def reduce_scatterv(
        self, x: NDArray[Scalar], counts: Counts, op: str = ..., **options: Unpack[Scaled]
    ) -> NDArray[Scalar]: ...
    @overload
    def reduce_scatterv(
        self, x: Array, counts: Counts, op: str = ..., **options: Unpack[Scaled]
    ) -> NDArray[Any]: ...
    @overload
    def reduce_scatterv(
        self, x: Library, counts: Counts, op: str = ..., **options: Unpack[Scaled]
    ) -> Library: ...
    def reduce_scatterv(self, x, counts, op="sum", *, dtype=None, prescale=1.0, postscale=1.0):
        """Combine the arrays of all ranks and send every rank a variable-length part of the result.

        The result of `allreduce` is cut along the first dimension into parts of ``counts``
        rows. Rank r gets part r.

        Parameters
        ----------
        x : array
            Of the same dtype and shape on every rank.
        counts : sequence of int
            The same on every rank: rank r gets ``counts[r]`` rows. The counts add up to the
            first dimension of ``x``.
        op : {'sum', 'prod', 'min', 'max', 'avg', 'land', 'lor', ...}
            As for `allreduce`.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.
        prescale, postscale : float
            As for `allreduce`.

        Returns
        -------
        numpy.ndarray
            This rank's part of the result of `allreduce`.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> comm.reduce_scatterv(numpy.arange(6), [0, 1, 2, 3])  # on rank 2 of 4
        array([4, 8])
        """
        return self._reduce_scatterv(KIND, x, counts, op, dtype, prescale, postscale)

    reduce_scatterv_start = starts(reduce_scatterv)
