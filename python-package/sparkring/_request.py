# SPDX-License-Identifier: Apache-2.0
"""A started collective, and how it is awaited in asyncio.

The event loop polls the request. A waiting thread would react sooner, but cannot be cancelled, and
asyncio has few threads.

A request is a `collections.abc.Coroutine`, too, because `asyncio.create_task` and `asyncio.run`
take nothing else. The request keeps no state for tasks: each `send` of a task gives the task a
waiter of its own, so any number of tasks may wait for one request.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Coroutine, Generator
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, final

from sparkring._core import RequestBase, RingError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Concatenate, ParamSpec, Self

    _Comm = TypeVar("_Comm")
    _Given = ParamSpec("_Given")

_BRISK = 50e-6  # seconds of polling in every turn of the loop; then about every millisecond
_LONGEST = 5e-3  # seconds between two polls

_Result = TypeVar("_Result", covariant=True)

KIND: Any = None  # what a method of the core returns: the class of a request, or None for a result


@final
class Request(RequestBase[_Result], Coroutine[Any, Any, _Result]):
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

    __slots__ = ()

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("type 'sparkring.Request' is not an acceptable base type")

    def wait(self) -> _Result:
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
        return self._wait()

    def test(self) -> bool:
        """Return whether the request is complete, without waiting.

        Returns
        -------
        bool

        Raises
        ------
        MismatchError, PeerLostError, TimeoutError, AbortedError
            The error of `wait`, when the request has failed.
        """
        return self._test()

    def __enter__(self) -> Self:
        """Return the request."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait until the request is complete. An exception of the block comes before its error."""
        try:
            self.wait()
        except RingError:
            if kind is None:
                raise

    def __await__(self) -> Generator[Any, None, _Result]:
        """Wait without blocking the event loop; return the result of `wait`."""
        return self._done().__await__()

    async def _done(self) -> _Result:
        """Poll at once, and then in steps that grow with the elapsed time."""
        import asyncio  # not at the top: a sixth of the time of `import sparkring`

        start = time.monotonic()
        while not self.test():
            passed = time.monotonic() - start
            await asyncio.sleep(0 if passed < _BRISK else min(passed / 4, _LONGEST))
        return self.wait()

    def send(self, _: None, /) -> Any:
        """Advance as a coroutine of an asyncio task: return a waiter, or stop with the result.

        Parameters
        ----------
        _ : None
            What asyncio passes.

        Returns
        -------
        asyncio.Future
            A waiter for the task.

        Raises
        ------
        StopIteration
            When the request is complete; its value is the result of `wait`.
        """
        import asyncio

        if self.test():
            raise StopIteration(self.wait())
        return next(iter(asyncio.ensure_future(self._done()).__await__()))

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
        /,
    ) -> NoReturn:
        """Raise an exception in the waiting task, as a coroutine does; the request continues.

        Parameters
        ----------
        kind : type or exception
            The exception, or its class.
        value : exception, optional
            The exception, if ``kind`` is a class.
        traceback : traceback, optional
            Its traceback.
        """
        error = value if isinstance(value, BaseException) else kind
        if isinstance(error, type):
            error = error() if value is None else error(value)
        raise error if traceback is None else error.with_traceback(traceback)

    def close(self) -> None:
        """End the wait, as a coroutine does; the request continues."""


_START = """Start `{name}` and return before it is complete.

{lengths}Parameters
----------
{parameters} : as for `{name}`
    Arrays must not be used until the request is complete.

Returns
-------
Request
    Its result is the return value of `{name}`.

Raises
------
InvalidError
    For invalid arguments.
MismatchError, PeerLostError, TimeoutError, AbortedError
    When the communicator is broken already. The request raises later errors."""
_LENGTHS = """The ranks exchange their lengths first. This exchange waits for the other ranks and
for all earlier requests.

"""
_SENDS_LENGTHS = ("allgatherv", "gatherv", "alltoallv")


def starts(
    method: Callable[Concatenate[_Comm, _Given], _Result],
) -> Callable[Concatenate[_Comm, _Given], Request[_Result]]:
    """Return the method that starts the collective for whose result a method waits.

    It is the same code with another `KIND`, so it has the same parameters and overloads.
    """
    waits: Any = method
    name = f"{waits.__name__}_start"
    code = waits.__code__.replace(co_name=name)
    start = FunctionType(code, {**waits.__globals__, "KIND": Request}, name, waits.__defaults__)
    start.__qualname__ = f"{waits.__qualname__}_start"
    start.__kwdefaults__ = waits.__kwdefaults__
    parameters = ", ".join([*inspect.signature(waits).parameters][1:])
    lengths = _LENGTHS if waits.__name__ in _SENDS_LENGTHS else ""
    start.__doc__ = _START.format(name=waits.__name__, parameters=parameters, lengths=lengths)
    return start
