# SPDX-License-Identifier: Apache-2.0
"""Methods of the communicator that take any Python object.

Each method makes two calls of the core: one for the lengths of the envelopes, one for the
envelopes. A rank detects an error of its object before the first call and raises it after the
second call. So the ranks stay in step and the communicator stays usable.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from sparkring._calls.facts import Facts
from sparkring._calls.gathers import Gathers
from sparkring._calls.points import Points
from sparkring._calls.scatters import Scatters
from sparkring._core import InvalidError, MismatchError
from sparkring._objects.codec import Envelopes, pack, unpack


def check_token(comm: Facts) -> None:
    if comm.size > 1 and not comm.authenticated:
        raise InvalidError(
            "the ranks have no token, so any program that reaches their ports could send an object,"
            " and reading an object can run any code: pass the same token to sparkring.init() on"
            " every rank or, under a launcher, in the file that SPARKRING_TOKEN_FILE names"
        )


def _pack_on_root(comm: Facts, xs: Any, count: int, root: int) -> Envelopes:
    if comm.rank == root:
        return pack(xs, count)
    return Envelopes(memoryview(b""), [0] * count)


def _mismatch(rank: int, text: str) -> MismatchError:
    error = MismatchError(text)
    error.rank = rank
    return error


class Objects(Facts, Gathers, Scatters, Points):
    """Collectives and messages of objects, which travel as pickles."""

    __slots__ = ()

    def broadcast_object(self, x: Any, root: int = 0) -> Any:
        """Send the object of the root to every rank.

        Parameters
        ----------
        x : object
            ``root`` sends it; ignored on the other ranks.
        root : int
            The rank that sends.

        Returns
        -------
        object
            A copy of root's ``x``, also on ``root``.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allgather_object`.

        Examples
        --------
        >>> settings = comm.broadcast_object({"rate": 0.1} if comm.rank == 0 else None)
        """
        check_token(self)
        mine = _pack_on_root(self, [x], 1, root)
        length = int(self.broadcast(float(mine.counts[0]), root))
        memory = mine.memory if self.rank == root else np.empty(length, "uint8")
        self.broadcast(memory, root, out=memory)
        return unpack(memory, [root], mine.failure)[0]

    def allgather_object(self, x: Any) -> list[Any]:
        """Send the objects of all ranks to every rank, in rank order.

        Objects are sent as pickles: any object that `pickle` takes can be sent. Where cloudpickle
        or PySpark is installed, so can what cloudpickle takes, such as lambdas. The result has
        copies, also of a rank's own object. Large NumPy arrays of one call may share one block of
        memory, which lives as long as any of the arrays. To keep one array only, copy it.

        Reading a pickle can run any code. Ranks without a token are not authenticated, so they
        cannot send objects. Ranks with a token must trust each other. R and Python cannot read each
        other's objects, and raise an error with this reason.

        Parameters
        ----------
        x : object
            Anything that can be pickled.

        Returns
        -------
        list of object
            One object of each rank.

        Raises
        ------
        InvalidError
            For invalid arguments and without a token, before anything is sent. Also when another
            rank could not pickle its object, or this rank cannot read it; ``rank`` is the rank of
            the object. The communicator stays usable.
        Exception
            The error of pickling ``x``. The communicator stays usable.
        MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> comm.allgather_object("abc"[: comm.rank])  # with 4 ranks
        ['', 'a', 'ab', 'abc']
        """
        check_token(self)
        memory, _, failure = pack([x], 1)
        return unpack(self.allgatherv(memory), range(self.size), failure)

    def gather_object(self, x: Any, root: int = 0) -> list[Any] | None:
        """Send the objects of all ranks to the root, in rank order.

        Parameters
        ----------
        x : object
            Anything that can be pickled.
        root : int
            The rank that gets the result.

        Returns
        -------
        list of object or None
            On ``root`` one object of each rank, ``None`` on the other ranks.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allgather_object`.

        Examples
        --------
        >>> comm.gather_object("abc"[: comm.rank])  # on rank 0 of 4
        ['', 'a', 'ab', 'abc']
        """
        check_token(self)
        memory, _, failure = pack([x], 1)
        received = self.gatherv(memory, root)
        if received is None and failure is None:
            return None
        return unpack(received, range(self.size), failure)

    def scatter_object(self, xs: Iterable[Any] | None, root: int = 0) -> Any:
        """Send one object of the root's list to each rank.

        Parameters
        ----------
        xs : list of object
            ``root`` sends it, one object for each rank; ignored on the other ranks.
        root : int
            The rank that sends.

        Returns
        -------
        object
            A copy of ``xs[rank]`` of root.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allgather_object`.

        Examples
        --------
        >>> task = comm.scatter_object(tasks if comm.rank == 0 else None)
        """
        check_token(self)
        mine = _pack_on_root(self, xs, self.size, root)
        counts = self.broadcast(np.array(mine.counts, "float64"), root).astype("int64")
        return unpack(self.scatterv(mine.memory, counts, root), [root], mine.failure)[0]

    def alltoall_object(self, xs: Iterable[Any]) -> list[Any]:
        """Send one object from every rank to every rank.

        Parameters
        ----------
        xs : list of object
            ``xs[r]`` is for rank r.

        Returns
        -------
        list of object
            The received objects in rank order: a copy of ``xs[rank]`` of each rank.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allgather_object`.

        Examples
        --------
        >>> comm.alltoall_object([f"{comm.rank} to {peer}" for peer in range(2)])  # on rank 1 of 2
        ['0 to 1', '1 to 1']
        """
        check_token(self)
        memory, counts, failure = pack(xs, self.size)
        return unpack(self.alltoallv(memory, counts), range(self.size), failure)

    def allreduce_object(self, x: Any, op: Callable[[Any, Any], Any] = operator.add) -> Any:
        """Reduce the objects of all ranks with a function of two.

        Every rank gets the objects of all ranks and computes ``op(op(x0, x1), x2)`` and so on, in
        rank order. So ``op`` need not be commutative. For numbers and arrays `allreduce` is far
        faster.

        Parameters
        ----------
        x : object
            Anything that can be pickled.
        op : callable
            Takes two objects and returns one. It may change the first object and return it. The
            same on every rank. By default ``+``.

        Returns
        -------
        object
            The last result of ``op``; with one rank, a copy of ``x``.

        Raises
        ------
        MismatchError
            Also when the functions of two ranks differ in name. The communicator stays usable.
        InvalidError, PeerLostError, TimeoutError, AbortedError
            As for `allgather_object`. Errors of ``op`` are raised, too; the communicator stays
            usable.

        Examples
        --------
        >>> comm.allreduce_object({comm.rank}, op=set.union)  # with 4 ranks
        {0, 1, 2, 3}
        """
        if not callable(op):
            raise InvalidError(f"op is of type {type(op).__name__}: pass a function of two objects")
        name = getattr(op, "__name__", type(op).__name__)
        named = self.allgather_object((name, x))
        for rank, (theirs, _) in enumerate(named):
            if theirs != named[0][0]:
                raise _mismatch(
                    rank,
                    f"rank 0 passes the function {named[0][0]} as op and rank {rank} {theirs}:"
                    " pass the same on every rank",
                )
        return functools.reduce(op, (each for _, each in named))

    def send_object(self, x: Any, peer: int) -> None:
        """Send an object to one other rank, which calls `recv_object`.

        Parameters
        ----------
        x : object
            Anything that can be pickled.
        peer : int
            The rank that receives.

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allgather_object`.

        Examples
        --------
        >>> comm.send_object({"rate": 0.1}, 1)  # on rank 0
        """
        check_token(self)
        memory, (length,), failure = pack([x], 1)
        self.send(float(length), peer)
        self.send(memory, peer)
        if failure is not None:
            raise failure

    def recv_object(self, peer: int) -> Any:
        """Receive the object that one other rank sends with `send_object`.

        Parameters
        ----------
        peer : int
            The rank that sends.

        Returns
        -------
        object

        Raises
        ------
        InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allgather_object`.

        Examples
        --------
        >>> settings = comm.recv_object(0)  # on rank 1
        """
        check_token(self)
        memory = np.empty(int(self.recv(0.0, peer)), "uint8")
        return unpack(self.recv(memory, peer, out=memory), [peer])[0]
