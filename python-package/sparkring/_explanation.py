# SPDX-License-Identifier: Apache-2.0
"""The results of `Communicator.explain` and `Device.explain`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """The algorithm of a collective, and the reason; as text, all of it in two lines.

    Attributes
    ----------
    collective, dtype : str
        The arguments of `Communicator.explain`.
    algorithm : str
        The algorithm that the call would use.
    reason : str
        ``"rule"``, ``"least cost"``, ``"only one"`` where the collective has no other, or
        ``"shared memory"``. With shared memory nothing goes over links, and the algorithm is
        ``"slots"`` for short calls, else ``"arena"``. ``"messages of MPI"`` where the algorithm
        runs over messages of MPI, ``"backend"`` where a collective of MPI carries the call out.
    tier : str
        The slowest link between any two ranks: ``"shm"``, ``"loopback"`` or ``"network"``.
    backend : str
        Carries the call out: ``"native"`` or ``"mpi"``.
    bytes : int
        The bytes of the larger of a rank's two buffers, rounded up to whole elements.
    count : int
        Elements of the call; where every rank has a part, elements of a rank's part.
    steps : int
        Sends, receives, reductions and copies of this rank.
    links : int
        Peers that this rank sends to or receives from.
    messages_sent, messages_received, bytes_sent, bytes_received : int
        The counts that `Communicator.counters` would add for the call.
    seconds : float
        The predicted time of the table of costs; 0 for MPI.
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


@dataclass(frozen=True)
class DeviceExplanation:
    """The way in which a device carries out its calls, and the reason; as text, all of it in words.

    Attributes
    ----------
    path : str
        ``"nccl"``, or ``"host"``: through page-locked memory and the communicator.
    reason : str
        The reason why NCCL is not used, with rank and host; ``""`` with NCCL.
    gpu : int
        The number of this rank's GPU in this process.
    gpu_name : str
        The name of the GPU.
    nccl_version : int
        22803 for 2.28.3; 0 where NCCL is not used.
    cuda_version : int
        Of the driver: 13000 for 13.0.
    page_locked : int
        1 where the memory of the host is page-locked, 0 where it is not, -1 while nothing has gone
        through the host.
    calls, launches : int
        Collectives and kernels since the device was opened.
    text : str
        All of this in words.
    """

    path: str
    reason: str
    gpu: int
    gpu_name: str
    nccl_version: int
    cuda_version: int
    page_locked: int
    calls: int
    launches: int
    text: str

    def __str__(self) -> str:
        """Return the text."""
        return self.text
