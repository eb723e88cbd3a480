# SPDX-License-Identifier: Apache-2.0
"""Docstrings and signatures of a request; `sparkring._request` has the methods that are Python."""
# mypy: allow-untyped-defs

from __future__ import annotations


class Request:
    """A started collective.

    The methods of `Communicator` whose names end in ``_start`` make it. The arrays that
    were passed must be left alone until it is done. They are kept, and cannot be
    resized, until `wait` or `test` has said that it is done.

    ``await`` waits for it without blocking the event loop of asyncio, and
    ``asyncio.create_task`` takes it; cancelling that ends the waiting and not the
    request. As a context manager it waits at the end of
    the block, also after an exception. One that is collected before it is done is
    waited for; to be rid of it sooner, abort the communicator.

    Notes
    -----
    A request may be used from any thread, by one at a time. It fails with the
    communicator: every request that was started later raises the same error.

    Examples
    --------
    >>> request = comm.allreduce_start(gradient)
    >>> prepare_the_next_batch()
    >>> gradient = request.wait()
    """

    def wait(self, /):
        """Wait until it is done and return the result.

        Ctrl-C interrupts it, which breaks the communicator. It can be called again.

        Returns
        -------
        numpy.ndarray or NumPy scalar or out or None
            What the method without ``_start`` returns; the same object each time.

        Raises
        ------
        MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `Communicator.allreduce`.
        BusyError
            While another thread waits for this request; in a signal handler that
            interrupts a wait of the thread that works on it.
        """

    def test(self, /):
        """Tell whether it is done, without waiting.

        Returns
        -------
        bool

        Raises
        ------
        MismatchError, PeerLostError, TimeoutError, AbortedError
            What `wait` raises, when it has failed.
        """

    def __enter__(self, /):
        """Return the request."""

    def __exit__(self, /, *exception):
        """Wait until it is done."""

    def __class_getitem__(cls, result, /):
        """Name the type of the result, in annotations."""
