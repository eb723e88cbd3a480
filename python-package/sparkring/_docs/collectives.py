# SPDX-License-Identifier: Apache-2.0
"""Docstrings and signatures of the collectives that move arrays."""
# mypy: allow-untyped-defs

from __future__ import annotations


class Collectives:
    """Methods of the communicator, each of which has a twin whose name ends in ``_start``."""

    def allreduce(self, x, op="sum", *, out=None, dtype=None):
        """Combine the arrays of all ranks, element by element.

        Every rank gets the same result, to the bit.

        Parameters
        ----------
        x : array or number
            Of the same dtype and shape on every rank.
        op : {'sum', 'prod', 'min', 'max', 'avg', 'land', 'lor'}
            ``mean`` and ``average`` are ``avg``, which truncates integers towards zero.
            Integer sums and products wrap at the width of the dtype, as NumPy's do.
            ``min`` and ``max`` pass NaN on; ``land`` and ``lor`` take integers, giving
            0 or 1, and are the only ones for bool.
        out : array, optional
            Where the result goes. ``out=x`` works in place.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.

        Returns
        -------
        numpy.ndarray or NumPy scalar or out
            Of the shape and dtype of ``x``.

        Raises
        ------
        InvalidError
            For an ``x``, ``op``, ``out`` or ``dtype`` that cannot be used.
        MismatchError
            When the ranks called different things.
        PeerLostError, TimeoutError, AbortedError
            When another rank died, kept silent or aborted.

        Examples
        --------
        >>> comm.allreduce(numpy.ones(3))  # with 4 ranks
        array([4., 4., 4.])
        """

    def allreduce_group(self, xs, op="sum", *, out=None, dtype=None):
        """Combine many arrays of all ranks in one call, each as `allreduce` does.

        Short arrays travel together, so this is faster than a call for each, as for the
        gradients of the layers of a network.

        Parameters
        ----------
        xs : list of array or number
            All of one dtype; as many on every rank, of the same shapes.
        op : {'sum', 'prod', 'min', 'max', 'avg', 'land', 'lor'}
            As for `allreduce`.
        out : list of array, optional
            Where the results go. ``out=xs`` works in place; any other overlap is an error.
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
        >>> comm.allreduce_group([numpy.ones(3), 2.0])  # with 4 ranks
        [array([4., 4., 4.]), np.float64(8.0)]
        """

    def reduce(self, x, op="sum", root=0, *, out=None, dtype=None):
        """Combine the arrays of all ranks, element by element, on one of them.

        Parameters
        ----------
        x : array or number
            Of the same dtype and shape on every rank.
        op : {'sum', 'prod', 'min', 'max', 'avg', 'land', 'lor'}
            As for `allreduce`.
        root : int
            The rank that gets the result.
        out : array, optional
            Where the result goes on ``root``; not looked at elsewhere. ``out=x`` works
            in place.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.

        Returns
        -------
        numpy.ndarray or NumPy scalar or out or None
            On ``root`` what `allreduce` gives, ``None`` on the other ranks.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> comm.reduce(numpy.ones(3), root=1)  # on rank 1 of 4
        array([4., 4., 4.])
        """

    def reduce_scatter(self, x, op="sum", *, out=None, dtype=None):
        """Combine the arrays of all ranks and give every rank its part.

        What `allreduce` would give is cut along the first dimension into ``size`` equal
        parts, of which rank r gets part r.

        Parameters
        ----------
        x : array
            Of the same dtype and shape on every rank. Its first dimension
            is a multiple of ``size``.
        op : {'sum', 'prod', 'min', 'max', 'avg', 'land', 'lor'}
            As for `allreduce`.
        out : array, optional
            Where the result goes. In place when it is this rank's part of ``x``; any
            other overlap is an error.
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
        >>> comm.reduce_scatter(numpy.arange(4))  # on rank 3 of 4
        array([12])
        """

    def broadcast(self, x, root=0, *, out=None, dtype=None):
        """Give every rank the array of one of them.

        Parameters
        ----------
        x : array or number
            What ``root`` sends. On the other ranks it only tells shape and dtype.
        root : int
            The rank that sends.
        out : array, optional
            Where the result goes. ``out=x`` works in place.
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

    def allgather(self, x, *, out=None, dtype=None):
        """Give every rank the arrays of all, in rank order.

        Parameters
        ----------
        x : array or number
            Of the same dtype and shape on every rank.
        out : array, optional
            Where the result goes: ``size`` times the elements of ``x``. In place when
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

    def allgatherv(self, x, *, dtype=None):
        """Give every rank the arrays of all, one behind the other, of whatever length.

        The ranks tell each other their lengths first.

        Parameters
        ----------
        x : array
            Of the same dtype and shape on every rank, but for the first dimension.
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

    def gather(self, x, root=0, *, out=None, dtype=None):
        """Give one rank the arrays of all, in rank order.

        Parameters
        ----------
        x : array or number
            Of the same dtype and shape on every rank.
        root : int
            The rank that gets the result.
        out : array, optional
            Where the result goes on ``root``; not looked at elsewhere. In place when
            ``x`` is ``out[rank]``; any other overlap is an error.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.

        Returns
        -------
        numpy.ndarray or out or None
            On ``root`` what `allgather` gives, ``None`` on the other ranks.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> comm.gather(comm.rank)  # on rank 0 of 4
        array([0, 1, 2, 3])
        """

    def gatherv(self, x, root=0, *, dtype=None):
        """Give one rank the arrays of all, one behind the other, of whatever length.

        The ranks tell each other their lengths first.

        Parameters
        ----------
        x : array
            Of the same dtype and shape on every rank, but for the first dimension.
        root : int
            The rank that gets the result.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.

        Returns
        -------
        numpy.ndarray or None
            On ``root`` what `allgatherv` gives, ``None`` on the other ranks.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> comm.gatherv(numpy.full(comm.rank, comm.rank))  # on rank 0 of 4
        array([1, 2, 2, 3, 3, 3])
        """

    def scatter(self, x, root=0, *, out=None, dtype=None):
        """Cut the array of one rank into equal parts and give every rank one.

        Part r goes to rank r.

        Parameters
        ----------
        x : array
            What ``root`` cuts along the first dimension, which is a multiple of
            ``size``. On the other ranks it only tells shape and dtype.
        root : int
            The rank that sends.
        out : array, optional
            Where the result goes. In place on ``root`` when it is its part of ``x``;
            any other overlap there is an error.
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

    def scatterv(self, x, counts, root=0, *, dtype=None):
        """Cut the array of one rank into parts of any length and give every rank one.

        Part r goes to rank r. As every rank knows all counts, the ranks need not tell each
        other first, which `allgatherv`, `gatherv` and `alltoallv` do.

        Parameters
        ----------
        x : array
            What ``root`` cuts along the first dimension. On the other ranks it only
            tells dtype and the shape of a row, which is what lies below the first
            dimension.
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

    def alltoall(self, x, *, out=None, dtype=None):
        """Give every rank a part of the array of each.

        ``x`` is cut along the first dimension into ``size`` equal parts: part r of rank s
        becomes part s of rank r.

        Parameters
        ----------
        x : array
            Of the same dtype and shape on every rank. Its first dimension
            is a multiple of ``size``.
        out : array, optional
            Where the result goes, which is not in ``x``.
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

    def alltoallv(self, x, counts, *, dtype=None):
        """Give every rank a part, of any length, of the array of each.

        The ranks tell each other the lengths first.

        Parameters
        ----------
        x : array
            Of the same dtype and shape on every rank, but for the first dimension.
        counts : sequence of int
            ``counts[r]`` rows of ``x`` go to rank r; they lie in rank order and add up
            to the first dimension of ``x``.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.

        Returns
        -------
        numpy.ndarray
            What came, in rank order, concatenated along the first dimension.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> words = comm.alltoallv(words, counts)  # every rank gets those that are its own
        """
