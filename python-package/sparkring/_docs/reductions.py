# SPDX-License-Identifier: Apache-2.0
"""Docstrings and signatures of the collectives that reduce."""
# mypy: allow-untyped-defs

from __future__ import annotations


class Reductions:
    """Methods of the communicator. Each has a twin with a name that ends in ``_start``."""

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
