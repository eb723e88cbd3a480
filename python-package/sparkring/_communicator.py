# SPDX-License-Identifier: Apache-2.0
"""The communicator: its life, and all methods that it has.

Its base classes, in `sparkring._calls`, are the methods that call the core, and what is made of
them; `CommunicatorBase`, in C, is the core. A method that opens something else, or prepares a
framework, is a function beside what it opens or prepares, and stands in the list in the class.
"""
# mypy: allow-untyped-defs

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, final, overload

from sparkring import _messages, _opening, _reducer, _run_state, frameworks
from sparkring._calls.groups import Groups
from sparkring._calls.locations import Locations
from sparkring._calls.objects import Objects
from sparkring._calls.reduce_scatters import ReduceScatters
from sparkring._calls.resources import Resources
from sparkring._calls.timeline import Timeline
from sparkring._device import device as _device
from sparkring._mpi import mpi_init as _mpi_init
from sparkring._mpi import mpi_run as _mpi_run
from sparkring._request import KIND, starts
from sparkring.frameworks import _raft, _torch_group

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Concatenate, Self

    from sparkring._types import Given, Value


def _method(
    function: Callable[Concatenate[Any, Given], Value],
) -> Callable[Concatenate[Communicator, Given], Value]:
    """Return a function whose communicator is optional as a method, which always has one."""
    return function


@final
class Communicator(Locations, ReduceScatters, Groups, Objects, Resources, Timeline):
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

    __slots__ = ()

    grow = _opening.grow
    messages = _messages.messages
    reducer = _reducer.reducer
    device = _device.device
    _device_libraries = _device.usual_libraries
    mpi_init = _mpi_init.mpi_init
    mpi_run = _mpi_run.mpi_run
    progress = _run_state.progress
    gpus = _method(frameworks.gpus)
    jax_config = _method(frameworks.jax_config)
    lightgbm_config = _method(frameworks.lightgbm_config)
    nccl_id = _method(frameworks.nccl_id)
    ray_config = _method(frameworks.ray_config)
    tf_config = _method(frameworks.tf_config)
    torch_env = _method(frameworks.torch_env)
    xgboost_config = _method(frameworks.xgboost_config)
    raft_handle = _raft.raft_handle
    torch_group = _torch_group.torch_group

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("type 'sparkring.Communicator' is not an acceptable base type")

    @property
    def attempt(self) -> int:
        """int: the number of earlier launches of the ranks by `sparkring.spark.run`, from 0."""
        return _run_state.attempt()

    def barrier(self) -> None:
        """Wait until every rank has called `barrier`.

        Raises
        ------
        MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.
        """
        return self._barrier(KIND)  # type: ignore[no-any-return]

    barrier_start = starts(barrier)

    @overload
    def split(self, color: int, key: int = ...) -> Communicator: ...
    @overload
    def split(self, color: None, key: int = ...) -> None: ...
    @overload
    def split(self, color: int | None, key: int = ...) -> Communicator | None: ...
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
        return self._split(color, key)

    def shrink(self, timeout: float | None = None) -> Communicator:
        """Make a communicator of the ranks that still live, after ranks were lost.

        Every living rank calls `shrink`, in the `except` of the error that a lost rank caused. The
        processes go on, with their memory. The ranks keep their order and are numbered from 0
        without gaps. Any number of ranks may die, also during the call. When a further rank dies
        late, the new communicator fails in turn, and can be shrunk.

        A rank whose process has ended, or that has closed or aborted the communicator, is not
        awaited. Every other rank is: if it does not call `shrink`, the others raise
        `TimeoutError`. The host of a rank that has vanished from the network does not tell that
        the rank is dead, so `shrink` then raises `TimeoutError`, too.

        The new communicator has the options of the old one, with the backend ``"native"``. The old
        one is closed. Communicators that it was split into, its reducers and its messages end
        with `AbortedError`.

        Parameters
        ----------
        timeout : float, optional
            Seconds until the other ranks must have called `shrink`, more than 0. By default the
            call timeout.

        Returns
        -------
        Communicator

        Raises
        ------
        TimeoutError
            When a rank that may live did not call `shrink`. The call may be repeated.
        InvalidError
            When the communicator was closed, aborted or shrunk, or ``timeout`` is no positive
            number.
        AbortedError
            When the call was interrupted, or the other ranks have gone on without this one.

        Notes
        -----
        The first rank that calls `shrink` ends the communicator on the others, whose calls raise
        `AbortedError`. Errors of `shrink` name ranks by their numbers before the first shrink.

        Examples
        --------
        >>> try:
        ...     total = comm.allreduce(numpy.ones(3))
        ... except (PeerLostError, TimeoutError, AbortedError):  # a rank was lost
        ...     comm = comm.shrink()
        """
        shrunk: Communicator = self._shrink(timeout)
        _opening.follow(self, shrunk)
        return shrunk

    def close(self, timeout: float | None = None) -> None:
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
        self._close(timeout)

    def abort(self, reason: str | None = None) -> None:
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
        self._abort(reason)

    def __enter__(self) -> Self:
        """Return the communicator."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the communicator, or after an exception abort with its name as the reason."""
        if kind is None:
            self.close()
        else:
            self.abort(kind.__name__)
