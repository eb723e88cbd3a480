# SPDX-License-Identifier: Apache-2.0
"""Docstrings and signatures of the collectives that move arrays and reduce nothing."""
# mypy: allow-untyped-defs

from __future__ import annotations


class Collectives:
    """Methods of the communicator. Each has a twin with a name that ends in ``_start``."""

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
