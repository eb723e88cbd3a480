# SPDX-License-Identifier: Apache-2.0
"""Facts of a communicator, which any thread may read at any time."""

from __future__ import annotations

from sparkring._core import CommunicatorBase
from sparkring._explanation import Explanation


class Facts(CommunicatorBase):
    """The ranks, their hosts, links and counters."""

    __slots__ = ()

    @property
    def rank(self) -> int:
        """int: this process, from 0 to ``size - 1``."""
        return self._rank

    @property
    def size(self) -> int:
        """int: the number of processes."""
        return self._size

    @property
    def local_rank(self) -> int:
        """int: the rank among the ranks of this host."""
        return self._local_rank

    @property
    def local_size(self) -> int:
        """int: the number of processes on this host."""
        return self._local_size

    @property
    def hosts(self) -> list[str]:
        """list of str: the host of every rank, in rank order."""  # noqa: D403 (the type)
        return self._hosts

    @property
    def epoch(self) -> int:
        """int: the random number of the rendezvous, the same on every rank."""
        return self._epoch

    @property
    def authenticated(self) -> bool:
        """bool: whether the ranks have proved to each other that they know the token."""
        return self._authenticated

    @property
    def encrypted(self) -> bool:
        """bool: whether the traffic of the ranks over the network is encrypted."""
        return self._encrypted

    @property
    def closed(self) -> bool:
        """bool: whether this rank has closed or aborted the communicator."""
        return self._closed

    @property
    def usable(self) -> bool:
        """bool: true until the communicator is closed, aborted or broken."""
        return self._usable

    def counters(self, peer: int | None = None) -> dict[str, int]:
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
        return self._counters(peer)

    def link(self, peer: int) -> str:
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
        return self._link(peer)

    def explain(
        self, collective: str, nbytes: int, dtype: str = "float32", root: int = 0
    ) -> Explanation:
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
        return Explanation(*self._explain(collective, nbytes, dtype, root))
