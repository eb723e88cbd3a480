# SPDX-License-Identifier: Apache-2.0
"""Docstrings and signatures of the communicator; `collectives` has the methods that move arrays."""
# mypy: allow-untyped-defs

from __future__ import annotations


class Communicator:
    """A verified group of processes that run collectives together.

    `sparkring.init` makes it. Every rank makes the same calls in the same order.
    As a context manager it closes at the end of the block, or, when the block
    raises, aborts with the name of the exception, so that the other ranks do not
    wait. One that is collected while open is aborted, with a `ResourceWarning`.

    Notes
    -----
    *Arrays.* ``x`` is a NumPy array or anything else with the buffer protocol
    (`array.array`, `bytearray`, `memoryview`, `bytes`), read without a copy, or a
    Python or NumPy number, where an ``int`` is int64 and a ``float`` float64.
    Element types are int8, uint8, int32, int64, float16, bfloat16, float32, float64
    and bool. bfloat16 is an array of the dtype that the package ml_dtypes adds to
    NumPy, or any buffer of uint16 together with ``dtype="bfloat16"``. An input
    that is not contiguous in C order, or not aligned, is copied in C order first.
    Foreign byte order is an error.

    *Results.* A new NumPy array of the dtype of ``x``, or ``out``, which
    must be writable, contiguous in C order, aligned, and have the dtype and number
    of elements of the result. Methods say where ``out`` may lie in ``x``, or ``x`` in
    ``out``. Where the result is like ``x``, a number gives a NumPy scalar and a 0-d
    array a 0-d array. Parts of arrays are cut along the first dimension.
    Large results are in memory that the ranks of a host share, which saves copies: see
    `empty`. They are kept like any other array, also after the end of the
    communicator.

    *Objects.* The methods named ``_object`` take anything that can be pickled: see
    `allgather_object`. `gather` and the like, with ``x`` an array, are far faster.

    *Requests.* The methods named ``_start`` take what those without it take, and
    return a `Request` while the work goes on in the background. Requests run one at
    a time, in the order of their starts, which is the same on every rank. A call
    that waits runs when all that were started before it are done.

    *Threads.* One call at a time: a call from a second thread raises `BusyError`.
    Waiting calls release the interpreter lock, so other threads run on, and Ctrl-C
    interrupts them. What only looks (`link`, `counters`, `usable` and the other
    properties) may be used in any thread at any time. Different communicators are
    independent.

    *Errors.* After any error but `InvalidError` and `BusyError`, in a call that the
    ranks make together, the communicator is broken: `usable` is false and later calls
    raise the same error. The same goes for a call that was interrupted. Methods after
    whose error it goes on say so.
    """

    @property
    def rank(self):
        """int: this process, from 0 to ``size - 1``."""

    @property
    def size(self):
        """int: the number of processes."""

    @property
    def local_rank(self):
        """int: rank among those of the same host."""

    @property
    def local_size(self):
        """int: the number of processes on this host."""

    @property
    def hosts(self):
        """list of str: the host of every rank, in rank order."""  # noqa: D403 (the type)

    @property
    def epoch(self):
        """int: the number of this meeting, the same on every rank."""

    @property
    def authenticated(self):
        """bool: whether the ranks proved to each other that they know the job's token."""

    @property
    def encrypted(self):
        """bool: whether what ranks say to each other over the network is encrypted."""

    @property
    def closed(self):
        """bool: whether it was closed or aborted here."""

    @property
    def usable(self):
        """bool: true until it is closed, aborted or broken."""

    def barrier(self, /):
        """Wait until every rank has called this.

        Raises
        ------
        MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.
        """

    def barrier_start(self, /):
        """Start `barrier`: the request is done when every rank has called this.

        Returns
        -------
        Request
            Its result is ``None``.

        Raises
        ------
        InvalidError
            For arguments that cannot be used.
        MismatchError, PeerLostError, TimeoutError, AbortedError
            When the communicator is broken already; what happens later, the request raises.
        """

    def send(self, x, peer, *, dtype=None):
        """Send an array to one other rank, which calls `recv`.

        Only the two ranks call. Messages between them arrive in order. This may return
        before the peer has received.

        Parameters
        ----------
        x : array or number
            What is sent.
        peer : int
            The rank that receives.
        dtype : str, optional
            ``'bfloat16'`` when ``x`` is a buffer of uint16 that holds it.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> comm.send(weights, 1)  # on rank 0
        """

    def recv(self, x, peer, *, out=None, dtype=None):
        """Receive the array that one other rank sends with `send`.

        Parameters
        ----------
        x : array or number
            Tells the dtype and shape of what comes. ``comm.recv(x, peer, out=x)``
            receives into ``x``.
        peer : int
            The rank that sends.
        out : array, optional
            Where the result goes.
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
        >>> weights = comm.recv(weights, 0)  # on rank 1
        """

    def empty(self, shape, dtype="float64"):
        """Make an array in memory that the other ranks of this host can read.

        Collectives read such an input without copies, which pays from about 64 KiB on when
        ranks share a host. Their results are in shared memory without it, unless they are
        small. Not collective: every rank makes the arrays that it likes.

        The array outlives the communicator. A child that the process forks, as
        `multiprocessing` may do, shares it: what either of them writes, both see.

        Parameters
        ----------
        shape : int or sequence of int
            As for `numpy.empty`.
        dtype : dtype
            Anything that `numpy.dtype` takes, but for Python objects.

        Returns
        -------
        numpy.ndarray
            Not initialised. In ordinary memory where ranks share none.

        Raises
        ------
        InvalidError
            For a shape or dtype that cannot be used.
        MemoryError
            When there is not as much memory.

        Examples
        --------
        >>> gradient = comm.empty((1000, 1000), "float32")
        >>> gradient[:] = backward(batch)
        >>> comm.allreduce(gradient, out=gradient)
        """

    def split(self, color, key=0):
        """Make a communicator of the ranks that pass the same color.

        Every rank calls this. The new communicator is one like any other: close it, or use
        it as a context manager. It and this one can be used at the same time, and end
        independently of each other; only the death of a rank breaks both.

        Parameters
        ----------
        color : int or None
            0 or more. ``None`` for a rank that is to be in no new communicator.
        key : int
            Ranks of the new communicator are ordered by this and, where it is equal, by
            their rank in this one.

        Returns
        -------
        Communicator or None

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`; this communicator goes on where only the new one could not
            be opened.

        Examples
        --------
        >>> with comm.split(comm.rank % 2) as half:  # even ranks and odd ranks
        ...     half.allreduce(numpy.ones(3))
        """

    def close(self, timeout=None):
        """Wait until every rank has called this, and end all links.

        Requests that are under way are waited for first, and at the end, for 5 seconds at
        most, that what this rank said last has arrived.
        Closing a closed or aborted communicator does nothing.

        Parameters
        ----------
        timeout : float, optional
            Seconds that the other ranks may take, more than 0; by default the call
            timeout. `abort` waits for nobody.

        Raises
        ------
        PeerLostError, TimeoutError, AbortedError
            When the other ranks did not get here, or the communicator was broken
            already. It is closed all the same.
        MismatchError
            When another rank has called something else.
        InvalidError
            When ``timeout`` is no positive number; the communicator stays open.
        """

    def abort(self, reason=None):
        """End the communicator at once, from this rank alone.

        The other ranks' current or next call raises `AbortedError`, and
        so does every request that is under way. A call in which another
        thread of this process waits is ended first, and raises it, too;
        called by a signal handler during such a wait, it ends that wait.

        Parameters
        ----------
        reason : str, optional
            What the other ranks get to read.

        Raises
        ------
        BusyError
            When the call of another thread does not end within 10 s.
        """

    def port_reserve(self, /):
        """Reserve a TCP port on this host for a server that is started later.

        It is bound on every address and to nobody else, within the ports that `init`
        was given, but does not listen. A server of this user that sets ``SO_REUSEADDR``
        (on Linux) or ``SO_REUSEPORT`` before it binds takes the port while it is held;
        for one that sets neither it has to be released. It is held until it is released,
        or until the communicator is aborted or collected: closing keeps it. Nothing is
        sent: every rank may reserve as many as it needs.

        Returns
        -------
        int
            The port.

        Raises
        ------
        SystemCallError
            When no port is free; the communicator goes on.
        InvalidError, BusyError
            When it is closed, and while another thread calls it.

        Examples
        --------
        >>> ports = comm.allgather(comm.port_reserve())
        """

    def port_release(self, port=None):
        """Give reserved ports back; a server that has taken one keeps it.

        Parameters
        ----------
        port : int, optional
            The port; by default all that are held.

        Raises
        ------
        InvalidError
            For a port that is not held.
        BusyError
            While another thread calls the communicator.
        """

    def counters(self, peer=None):
        """Tell what has been moved so far.

        Parameters
        ----------
        peer : int, optional
            Only what the link to this rank has moved.

        Returns
        -------
        dict of str to int
            ``calls``, ``bytes_sent``, ``bytes_received``, ``bytes_shared``,
            ``messages_sent``, ``messages_received`` and ``wait_ns``, the nanoseconds
            with nothing to do but wait for other ranks. Bytes sent and received are
            those of links, headers and payload. ``bytes_shared`` is the payload that
            this rank has passed to ranks of its host through shared memory, without
            links and messages; each byte counts once, however many ranks read it.
            ``calls``, ``bytes_shared`` and ``wait_ns`` are 0 for a single peer.

        Raises
        ------
        InvalidError
            For a peer that does not exist.
        """

    def link(self, peer):
        """Tell how a peer is connected.

        Parameters
        ----------
        peer : int
            A rank.

        Returns
        -------
        str
            ``'tcp'`` or, encrypted, ``'tls'``; ``'tcp x4'`` or ``'tls x4'`` with 4
            connections; ``'shm'``, the memory of a host; ``''`` while there is no link;
            ``'self'`` for this rank.

        Raises
        ------
        InvalidError
            For a peer that does not exist.
        """

    def explain(self, collective, nbytes, dtype="float32", root=0):
        """Tell how a collective would be done.

        Nothing is sent: every rank may ask for itself.

        Parameters
        ----------
        collective : str
            The name of the method, such as ``'allreduce'``.
        nbytes : int
            The larger of a rank's two buffers: of `allgather` the result, of `scatter`
            what the root has. Where every rank has a part it is rounded up to whole
            elements, and collectives with counts are taken to have equal parts.
        dtype : str
            The element type.
        root : int
            The root, where there is one.

        Returns
        -------
        Explanation
            The algorithm and why it is taken, the next best one, what this rank would
            do and move, and the predicted time; ``print`` shows it in words.

        Raises
        ------
        InvalidError
            For an unknown collective, dtype or root.

        Examples
        --------
        >>> print(comm.explain("allreduce", 1 << 20))
        """

    def __enter__(self, /):
        """Return the communicator."""

    def __exit__(self, /, *exception):
        """Close, or after an exception abort with its name as the reason."""
