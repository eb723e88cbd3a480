# SPDX-License-Identifier: Apache-2.0
"""Collectives of many arrays in one call. Short arrays share messages."""
# mypy: allow-untyped-defs

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, overload

from sparkring._core import CommunicatorBase
from sparkring._request import KIND, starts

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from sparkring._types import Operand, Output, Scalar, Scaled


class Groups(CommunicatorBase):
    """Collectives of many arrays in one call."""

    __slots__ = ()

    @overload
    def allreduce_group(
        self,
        xs: Iterable[Operand],
        op: str = ...,
        *,
        out: Iterable[Output],
        **options: Unpack[Scaled],
    ) -> list[Output]: ...
    @overload
    def allreduce_group(
        self,
        xs: Iterable[NDArray[Scalar]],
        op: str = ...,
        *,
        out: None = ...,
        **options: Unpack[Scaled],
    ) -> list[NDArray[Scalar]]: ...
    @overload
    def allreduce_group(
        self, xs: Iterable[Operand], op: str = ..., *, out: None = ..., **options: Unpack[Scaled]
    ) -> list[Any]: ...
    def allreduce_group(self, xs, op="sum", *, out=None, dtype=None, prescale=1.0, postscale=1.0):
        """Combine many arrays of all ranks in one call, each as `allreduce` does.

        Short arrays share messages, so the group is faster than a call for each array. An
        example are the gradients of the layers of a network.

        Parameters
        ----------
        xs : list of array or number
            Their number, dtypes and shapes are the same on every rank.
        op : {'sum', 'prod', 'min', 'max', 'avg', 'land', 'lor', ...}
            As for `allreduce`.
        out : list of array, optional
            Receive the results. ``out=xs`` works in place; any other overlap is an error.
        dtype : str, optional
            ``'bfloat16'`` when ``xs`` are buffers of uint16 that hold it.
        prescale, postscale : float
            As for `allreduce`.

        Returns
        -------
        list of numpy.ndarray or NumPy scalar or out
            One for each of ``xs``, of its shape and dtype.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> comm.allreduce_group([numpy.ones(3), 2.0])  # with 4 ranks
        [array([4., 4., 4.]), np.float64(8.0)]
        """
        return self._allreduce_group(KIND, xs, op, out, dtype, prescale, postscale)

    allreduce_group_start = starts(allreduce_group)

    @overload
    def reduce_scatter_group(
        self,
        xs: Iterable[Operand],
        op: str = ...,
        *,
        out: Iterable[Output],
        **options: Unpack[Scaled],
    ) -> list[Output]: ...
    @overload
    def reduce_scatter_group(
        self,
        xs: Iterable[NDArray[Scalar]],
        op: str = ...,
        *,
        out: None = ...,
        **options: Unpack[Scaled],
    ) -> list[NDArray[Scalar]]: ...
    @overload
    def reduce_scatter_group(
        self, xs: Iterable[Operand], op: str = ..., *, out: None = ..., **options: Unpack[Scaled]
    ) -> list[Any]: ...
    def reduce_scatter_group(
        self, xs, op="sum", *, out=None, dtype=None, prescale=1.0, postscale=1.0
    ):
        """Make a `reduce_scatter` of many arrays in one call; short arrays share messages.

        Parameters
        ----------
        xs : list of array
            Each as for `reduce_scatter`. Their number, dtypes and shapes are the same on
            every rank.
        op : {'sum', 'prod', 'min', 'max', 'avg', 'land', 'lor', ...}
            As for `allreduce`.
        out : list of array, optional
            Receive the results. They must not overlap ``xs``.
        dtype : str, optional
            ``'bfloat16'`` when ``xs`` are buffers of uint16 that hold it.
        prescale, postscale : float
            As for `allreduce`.

        Returns
        -------
        list of numpy.ndarray or out
            This rank's part of each.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> comm.reduce_scatter_group([numpy.ones(4), numpy.arange(4)])  # on rank 3 of 4
        [array([4.]), array([12])]
        """
        return self._reduce_scatter_group(KIND, xs, op, out, dtype, prescale, postscale)

    reduce_scatter_group_start = starts(reduce_scatter_group)

    @overload
    def allgather_group(
        self, xs: Iterable[Operand], *, out: Iterable[Output], dtype: str | None = ...
    ) -> list[Output]: ...
    @overload
    def allgather_group(
        self, xs: Iterable[NDArray[Scalar]], *, out: None = ..., dtype: str | None = ...
    ) -> list[NDArray[Scalar]]: ...
    @overload
    def allgather_group(
        self, xs: Iterable[Operand], *, out: None = ..., dtype: str | None = ...
    ) -> list[Any]: ...
    def allgather_group(self, xs, *, out=None, dtype=None):
        """Make an `allgather` of many arrays in one call; short arrays share messages.

        Parameters
        ----------
        xs : list of array or number
            Their number, dtypes and shapes are the same on every rank.
        out : list of array, optional
            Receive the results. They must not overlap ``xs``.
        dtype : str, optional
            ``'bfloat16'`` when ``xs`` are buffers of uint16 that hold it.

        Returns
        -------
        list of numpy.ndarray or out
            For each of ``xs`` what `allgather` returns.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> comm.allgather_group([comm.rank, 0.5])  # with 2 ranks
        [array([0, 1]), array([0.5, 0.5])]
        """
        return self._allgather_group(KIND, xs, out, dtype)

    allgather_group_start = starts(allgather_group)

    @overload
    def broadcast_group(
        self,
        xs: Iterable[Operand],
        root: int = ...,
        *,
        out: Iterable[Output],
        dtype: str | None = ...,
    ) -> list[Output]: ...
    @overload
    def broadcast_group(
        self,
        xs: Iterable[NDArray[Scalar]],
        root: int = ...,
        *,
        out: None = ...,
        dtype: str | None = ...,
    ) -> list[NDArray[Scalar]]: ...
    @overload
    def broadcast_group(
        self, xs: Iterable[Operand], root: int = ..., *, out: None = ..., dtype: str | None = ...
    ) -> list[Any]: ...
    def broadcast_group(self, xs, root=0, *, out=None, dtype=None):
        """Send many arrays of the root to every rank in one call; short arrays share messages.

        Parameters
        ----------
        xs : list of array or number
            ``root`` sends them. On the other ranks only their shapes and dtypes are used.
        root : int
            The rank that sends.
        out : list of array, optional
            Receive the results. ``out=xs`` works in place.
        dtype : str, optional
            ``'bfloat16'`` when ``xs`` are buffers of uint16 that hold it.

        Returns
        -------
        list of numpy.ndarray or NumPy scalar or out
            One for each of ``xs``, of its shape and dtype.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> weights = comm.broadcast_group(weights, out=weights)
        """
        return self._broadcast_group(KIND, xs, root, out, dtype)

    broadcast_group_start = starts(broadcast_group)
