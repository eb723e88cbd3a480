# SPDX-License-Identifier: Apache-2.0
"""What `Communicator.explain` answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """How a collective would be done; as text, all of it in two lines.

    Attributes
    ----------
    collective, dtype : str
        What was asked about.
    algorithm : str
        What would be used.
    reason : str
        ``"rule"``, ``"least cost"``, ``"only one"`` where the collective has no other, or
        ``"shared memory"``: then nothing goes over links, and the algorithm is ``"slots"`` for
        short calls, else ``"arena"``.
    tier : str
        The slowest link between any two ranks: ``"shm"``, ``"loopback"`` or ``"network"``.
    backend : str
        Carries the call out: ``"native"``.
    bytes : int
        Of the larger of a rank's two buffers, rounded up to whole elements.
    count : int
        Elements of the call: of a rank's part, where every rank has one.
    steps : int
        Sends, receives, reductions and copies of this rank.
    links : int
        Ranks that this one talks with.
    messages_sent, messages_received, bytes_sent, bytes_received : int
        What `Communicator.counters` would count for the call.
    seconds : float
        The time that the table of costs predicts.
    runner_up : str or None
        The next best algorithm.
    runner_up_seconds : float or None
        Its predicted time.
    text : str
        All of this in words.
    """

    collective: str
    dtype: str
    algorithm: str
    reason: str
    tier: str
    backend: str
    bytes: int
    count: int
    steps: int
    links: int
    messages_sent: int
    messages_received: int
    bytes_sent: int
    bytes_received: int
    seconds: float
    runner_up: str | None
    runner_up_seconds: float | None
    text: str

    def __str__(self) -> str:
        """Return the text."""
        return self.text
