# SPDX-License-Identifier: Apache-2.0
"""Docstrings and signatures of a request. `sparkring._request` has its methods in Python."""
# mypy: allow-untyped-defs

from __future__ import annotations


class Request:
    """A started collective.

    The methods of `Communicator` with names that end in ``_start`` return a request.
    The arrays of the call must not be used until the request is complete. The request
    keeps the arrays, and they cannot be resized, until `wait` or `test` has reported
    that it is complete.

    ``await`` waits for a request without blocking the event loop of asyncio.
    ``asyncio.create_task`` takes a request; cancelling the task ends the wait and not the
    request. As a context manager a request waits at the end of the block, also after an
    exception. The collection of an incomplete request waits for it. To end a request
    sooner, abort the communicator.

    Notes
    -----
    Any thread may use a request, one thread at a time. A request fails with the
    communicator: every later request raises the same error.

    Examples
    --------
    >>> request = comm.allreduce_start(gradient)
    >>> prepare_the_next_batch()
    >>> gradient = request.wait()
    """

    def wait(self, /):
        """Wait until the request is complete and return the result.

        Ctrl-C interrupts the wait and breaks the communicator. `wait` can be called again.

        Returns
        -------
        numpy.ndarray or NumPy scalar or out or None
            The return value of the method without ``_start``, the same object each time.

        Raises
        ------
        MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `Communicator.allreduce`.
        BusyError
            While another thread waits for this request. Also in a signal handler that
            interrupts a wait of the thread that runs the request.
        """

    def test(self, /):
        """Return whether the request is complete, without waiting.

        Returns
        -------
        bool

        Raises
        ------
        MismatchError, PeerLostError, TimeoutError, AbortedError
            The error of `wait`, when the request has failed.
        """

    def __enter__(self, /):
        """Return the request."""

    def __exit__(self, /, *exception):
        """Wait until the request is complete."""

    def __class_getitem__(cls, result, /):
        """Name the type of the result, in annotations."""
