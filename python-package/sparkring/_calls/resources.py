# SPDX-License-Identifier: Apache-2.0
"""Ports and memory of a rank, for others: servers of frameworks, and ranks of the host."""
# mypy: allow-untyped-defs

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from sparkring._core import CommunicatorBase

if TYPE_CHECKING:
    from numpy import dtype
    from numpy.typing import DTypeLike, NDArray

    from sparkring._types import Scalar, Shape, TorchDtype


class Resources(CommunicatorBase):
    """Ports of servers, and arrays in shared memory."""

    __slots__ = ()

    @overload
    def empty(self, shape: Shape, dtype: type[Scalar] | dtype[Scalar]) -> NDArray[Scalar]: ...
    @overload
    def empty(self, shape: Shape, dtype: DTypeLike = ...) -> NDArray[Any]: ...
    @overload
    def empty(self, shape: Shape, dtype: TorchDtype) -> Any: ...
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
        return self._empty(shape, dtype)

    def port_reserve(self) -> int:
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
        return self._port_reserve()

    def port_release(self, port: int | None = None) -> None:
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
        self._port_release(port)
