# SPDX-License-Identifier: Apache-2.0
"""Docstrings and signatures of the communicator. `collectives` has the methods for arrays."""
# mypy: allow-untyped-defs

from __future__ import annotations


class Communicator:
    """A verified group of processes that run collectives together.

    `sparkring.init` returns it. Every rank makes the same calls in the same order.
    As a context manager it closes at the end of the block. When the block raises, it
    aborts with the name of the exception, so that the other ranks do not wait. The
    collection of an open communicator aborts it, with a `ResourceWarning`.

    Notes
    -----
    *Arrays.* ``x`` is a NumPy array or anything else with the buffer protocol
    (`array.array`, `bytearray`, `memoryview`, `bytes`), or a Python or NumPy number.
    A buffer is read without a copy. An ``int`` is int64, a ``float`` float64 and a
    ``complex`` complex128. Element types are bool, int8, uint8, int16, uint16, int32,
    uint32, int64, uint64, float16, bfloat16, float32, float64, complex64 and complex128.
    bfloat16 is an array of the dtype that the package ml_dtypes adds to NumPy, or any
    buffer of uint16 together with ``dtype="bfloat16"``. An input that is not contiguous
    in C order, or not aligned, is copied in C order first.
    Foreign byte order is an error.

    *Results.* The result is a new NumPy array of the dtype of ``x``, or ``out``.
    ``out`` must be writable, contiguous in C order and aligned. It must have the dtype
    and the number of elements of the result. Each method documents which overlap of
    ``x`` and ``out`` it permits. Where the result has the shape of ``x``, a number gives
    a NumPy scalar and a 0-d array gives a 0-d array. Arrays are cut into parts along the
    first dimension. Large results are in memory that the ranks of a host share, which
    saves copies: see `empty`. A result lives as long as any other array, also after the
    end of the communicator.

    *Tensors.* ``x`` may also be a tensor of PyTorch, an array of JAX or an eager tensor of
    TensorFlow in the memory of the CPU, a `pandas.Series`, an array of pyarrow without nulls, or
    any object with ``__dlpack__`` or ``__array_interface__``. The result is of the same library,
    as is the result of a request and of each array of a group. It is a NumPy array where the
    library has no ``from_dlpack``, and where a Series or an array of pyarrow would need a second
    dimension. The memory is read without a copy, except for a tensor that is not contiguous and
    for booleans of pyarrow. ``out`` may be a tensor of PyTorch, contiguous in C order. The
    other libraries do not let their arrays be written. A parameter that requires a gradient is
    used without it, and autograd does not see that ``out`` changes. bfloat16 needs no
    ``dtype``.

    *GPUs.* ``x`` may be in the memory of a GPU: a tensor of PyTorch, an array of CuPy, anything
    with ``__cuda_array_interface__`` or DLPack. The result is of the same library, or a
    `DeviceArray`. `allreduce`, `reduce`, `broadcast`, `allgather`, `reduce_scatter`, `alltoall`,
    `alltoallv`, `send`, `recv` and the groups take such arrays, without a copy. The first such
    call opens the device of the communicator, on all ranks: see `device`. The call runs in the
    order of the current stream of the library; `Device.wait` waits for its end, and raises its
    error. Other methods raise an error: pass ``x.cpu()``.

    *Objects.* The methods named ``_object`` take anything that can be pickled: see
    `allgather_object`. The methods for arrays, such as `gather`, are far faster.

    *Requests.* A method named ``_start`` has the arguments of the method without
    ``_start``, and returns a `Request` while the call runs in the background. Requests
    run one at a time, in the order of their starts. The order must be the same on every
    rank. A blocking call runs when all earlier requests are complete.

    *Threads.* One call at a time: a call from a second thread raises `BusyError`.
    A waiting call releases the interpreter lock, so other threads continue. Ctrl-C
    interrupts a waiting call. Any thread may read at any time: `link`, `counters`,
    `usable` and the other properties. Different communicators are independent.

    *Errors.* After an error in a collective the communicator is broken: `usable` is
    false and later calls raise the same error. `InvalidError` and `BusyError` do not
    break it. An interrupted call breaks it. A method documents the errors after which
    the communicator stays usable.
    """

    @property
    def rank(self):
        """int: this process, from 0 to ``size - 1``."""

    @property
    def size(self):
        """int: the number of processes."""

    @property
    def local_rank(self):
        """int: the rank among the ranks of this host."""

    @property
    def local_size(self):
        """int: the number of processes on this host."""

    @property
    def hosts(self):
        """list of str: the host of every rank, in rank order."""  # noqa: D403 (the type)

    @property
    def epoch(self):
        """int: the random number of the rendezvous, the same on every rank."""

    @property
    def authenticated(self):
        """bool: whether the ranks have proved to each other that they know the token."""

    @property
    def encrypted(self):
        """bool: whether the traffic of the ranks over the network is encrypted."""

    @property
    def closed(self):
        """bool: whether this rank has closed or aborted the communicator."""

    @property
    def usable(self):
        """bool: true until the communicator is closed, aborted or broken."""

    def barrier(self, /):
        """Wait until every rank has called `barrier`.

        Raises
        ------
        MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.
        """

    def barrier_start(self, /):
        """Start `barrier`: the request is complete when every rank has called it.

        Returns
        -------
        Request
            Its result is ``None``.

        Raises
        ------
        InvalidError
            For invalid arguments.
        MismatchError, PeerLostError, TimeoutError, AbortedError
            When the communicator is broken already. The request raises later errors.
        """

    def send(self, x, peer, *, dtype=None):
        """Send an array to one other rank, which calls `recv`.

        Only the two ranks call. Messages between two ranks arrive in order. `send` may
        return before the peer has received the array.

        A message has a place in the order of collectives. `messages` has messages that have none,
        with tags, from any rank, and with starts.

        Parameters
        ----------
        x : array or number
            The data.
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

        `messages` has receives with tags, from any rank, and with starts.

        Parameters
        ----------
        x : array or number
            Has the dtype and shape of the message. ``comm.recv(x, peer, out=x)``
            receives into ``x``.
        peer : int
            The rank that sends.
        out : array, optional
            Receives the result.
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

        Collectives read such an input without copies. This pays from about 64 KiB on when
        ranks share a host. Results that are not small are in shared memory anyway. Not
        collective: every rank may make any number of arrays.

        The array outlives the communicator. A child that the process forks, as
        `multiprocessing` may do, shares the array: parent and child see each other's writes.

        Parameters
        ----------
        shape : int or sequence of int
            As for `numpy.empty`.
        dtype : dtype
            Anything that `numpy.dtype` takes, except Python objects; or a ``torch.dtype``.

        Returns
        -------
        numpy.ndarray or torch.Tensor
            Not initialized. In ordinary memory where the ranks share no memory.

        Raises
        ------
        InvalidError
            For an invalid shape or dtype.
        MemoryError
            When there is not enough memory.

        Examples
        --------
        >>> gradient = comm.empty((1000, 1000), "float32")
        >>> gradient[:] = backward(batch)
        >>> comm.allreduce(gradient, out=gradient)
        """

    def split(self, color, key=0):
        """Make a communicator of the ranks that pass the same color.

        Every rank calls `split`. Close the new communicator, or use it as a context manager.
        Parent and child can be used at the same time and end independently of each other.
        Only the death of a rank breaks both.

        Parameters
        ----------
        color : int or None
            0 or more. ``None`` for a rank that is to be in no new communicator.
        key : int
            Orders the ranks of the new communicator. Ranks with equal keys are ordered by
            their rank in the parent.

        Returns
        -------
        Communicator or None

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`. The parent stays usable where only the child could not be
            opened.

        Examples
        --------
        >>> with comm.split(comm.rank % 2) as half:  # even ranks and odd ranks
        ...     half.allreduce(numpy.ones(3))
        """

    def close(self, timeout=None):
        """Wait until every rank has called `close`, and end all links.

        `close` first waits for running requests. At the end it waits, for 5 seconds at most,
        until the last messages of this rank have arrived.
        Closing a closed or aborted communicator does nothing.

        Parameters
        ----------
        timeout : float, optional
            Seconds until the other ranks must have called `close`, more than 0. By default
            the call timeout. `abort` does not wait.

        Raises
        ------
        PeerLostError, TimeoutError, AbortedError
            When the other ranks did not call `close` in time, or the communicator was
            broken already. The communicator is closed all the same.
        MismatchError
            When another rank has made another call.
        InvalidError
            When ``timeout`` is no positive number. The communicator stays open.
        """

    def abort(self, reason=None):
        """End the communicator at once, from this rank alone.

        The current or next call of the other ranks raises `AbortedError`, and
        so does every running request. If another thread of this process waits
        in a call, `abort` ends this call first, with `AbortedError`. A signal
        handler that interrupts a wait may call `abort` to end the wait.

        Parameters
        ----------
        reason : str, optional
            Part of the error on the other ranks.

        Raises
        ------
        BusyError
            When the call of another thread does not end within 10 s.
        """

    def port_reserve(self, /):
        """Reserve a TCP port on this host for a server that is started later.

        The port is bound on every address and does not listen. It lies within the ``ports``
        of `init`; without them it is, where possible, one that the system gives to no socket
        that asks for any port. A server of this user that sets ``SO_REUSEADDR`` (on Linux) or
        ``SO_REUSEPORT`` before it binds can take the port while it is reserved. For any
        other server the port must be released first. A port stays reserved until it is
        released, or until the communicator is aborted or collected. `close` keeps it.
        Nothing is sent: every rank may reserve any number of ports.

        Returns
        -------
        int
            The port.

        Raises
        ------
        SystemCallError
            When no port is free. The communicator stays usable.
        InvalidError, BusyError
            When the communicator is closed, and while another thread calls it.

        Examples
        --------
        >>> ports = comm.allgather(comm.port_reserve())
        """

    def port_release(self, port=None):
        """Release reserved ports. A server that has bound a port keeps it.

        Parameters
        ----------
        port : int, optional
            The port; by default all reserved ports.

        Raises
        ------
        InvalidError
            For a port that is not reserved.
        BusyError
            While another thread calls the communicator.
        """

    def counters(self, peer=None):
        """Return the counters of calls, bytes and messages.

        Parameters
        ----------
        peer : int, optional
            Count only the link to this rank.

        Returns
        -------
        dict of str to int
            ``calls``, ``bytes_sent``, ``bytes_received``, ``bytes_shared``,
            ``messages_sent``, ``messages_received`` and ``wait_ns``, the nanoseconds
            in which this rank could only wait for other ranks. Bytes sent and received
            are those of links, headers and payload. ``bytes_shared`` is the payload that
            this rank has passed to ranks of its host through shared memory, without
            links and messages. Each byte counts once, for any number of readers.
            ``calls``, ``bytes_shared`` and ``wait_ns`` are 0 for a single peer.

        Raises
        ------
        InvalidError
            For a peer that does not exist.
        """

    def link(self, peer):
        """Return the kind of the link to a peer.

        Parameters
        ----------
        peer : int
            A rank.

        Returns
        -------
        str
            ``'tcp'`` or, encrypted, ``'tls'``; ``'tcp x4'`` or ``'tls x4'`` with 4
            connections; ``'shm'`` for shared memory; ``''`` while there is no link;
            ``'self'`` for this rank.

        Raises
        ------
        InvalidError
            For a peer that does not exist.
        """

    def explain(self, collective, nbytes, dtype="float32", root=0):
        """Explain which algorithm a collective would use, and why.

        Nothing is sent: every rank may call it alone.

        Parameters
        ----------
        collective : str
            The name of the method, such as ``'allreduce'``.
        nbytes : int
            The bytes of the larger of a rank's two buffers: of `allgather` the result, of
            `scatter` the array of the root. Where every rank has a part, the bytes are
            rounded up to whole elements. Variable-length collectives are taken to have
            equal parts.
        dtype : str
            The element type.
        root : int
            The root, where there is one.

        Returns
        -------
        Explanation
            The algorithm and the reason for it, the next best algorithm, the steps and
            bytes of this rank, and the predicted time. ``print`` shows it in words.

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
        """Close the communicator, or after an exception abort with its name as the reason."""
