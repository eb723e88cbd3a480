# SPDX-License-Identifier: Apache-2.0
"""Timelines: each rank writes its events into a file (core/bindings/trace.h)."""

from __future__ import annotations

import os

from sparkring._agree import agree
from sparkring._core import CommunicatorBase


class Timeline(CommunicatorBase):
    """The start and the end of a timeline."""

    __slots__ = ()

    def start_timeline(self, path: str | os.PathLike[str], mark_cycles: bool = False) -> None:
        """Record calls and waits of every rank into a directory, for Perfetto or a picture.

        Every rank calls it. Each rank writes one file, with its calls, their waits for other ranks,
        the frames that go over links, and the time of started calls in the queue. The files are in
        Chrome's JSON format and valid at any time, also after a crash. A process that is killed
        loses the last 50 ms. ``python -m sparkring timeline DIR`` makes one trace of the files, for
        https://ui.perfetto.dev, and ``-o out.svg`` draws a picture. A thread of each rank writes
        the file, so calls do not wait for the disk. Recording ends with `stop_timeline` or the end
        of the communicator, and after 256 MiB.

        The ranks of a host have one clock. The clocks of hosts are compared once, at the start. The
        error is half of the shortest of 32 round trips between two hosts; the file states it.
        Clocks that drift apart later are not corrected.

        Parameters
        ----------
        path : str or path
            The directory, which is made if it does not exist. A directory that all hosts share has
            the files of all ranks; otherwise each host has the files of its ranks. A second
            timeline of the same communicator in the same directory replaces the first.
        mark_cycles : bool
            Whether the cycles of a reducer are marked, as ``CYCLE_START``.

        Raises
        ------
        OSError
            When the file cannot be made. The other ranks raise `InvalidError` with the reason. The
            communicator stays usable.
        InvalidError
            When the communicator has a timeline already.
        MismatchError, PeerLostError, TimeoutError, AbortedError
            As for `allreduce`.

        Examples
        --------
        >>> comm.start_timeline("/shared/timeline")
        >>> comm.allreduce(gradient)
        >>> comm.stop_timeline()
        """
        clock = self._measure_clock()

        def start() -> None:
            os.makedirs(path, exist_ok=True)
            self._start_trace(os.fspath(path), clock, mark_cycles)

        agree(self, start)

    def stop_timeline(self) -> None:
        """Write the last events, and end the timeline. Not collective.

        Without a timeline it does nothing. `close` and `abort` do the same.

        Raises
        ------
        OSError
            When a part of the file could not be written, as on a full disk. `close` and `abort` log
            a warning instead.
        """
        self._stop_trace()
