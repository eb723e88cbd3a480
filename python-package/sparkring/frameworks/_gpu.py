# SPDX-License-Identifier: Apache-2.0
"""The GPUs of a rank.

Without GPUs of Spark, ranks of a host that see the same GPUs can share them out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sparkring._agree import agree
from sparkring._core import InvalidError
from sparkring.frameworks import _device as device
from sparkring.frameworks._exchange import communicator

if TYPE_CHECKING:
    from sparkring._communicator import Communicator
    from sparkring.frameworks._exchange import Ring


def gpus(comm: Ring = None, /, count: int | None = None) -> list[str]:
    """Choose this rank's GPUs: set ``CUDA_VISIBLE_DEVICES``, so that the rank sees no other GPUs.

    Collective. Call it before anything uses a GPU; importing PyTorch, TensorFlow or JAX does not
    count as use. The rank's first GPU is then ``cuda:0``, not ``cuda:LOCAL_RANK``.

    In a Spark task with GPUs (``spark.task.resource.gpu.amount``) the rank gets the GPUs of the
    task. Where ``CUDA_VISIBLE_DEVICES`` is set on the executor, the addresses of the GPUs are
    indexes into it. The functions for frameworks, such as `torch_env`, call `gpus` themselves, and
    `sparkring.spark.run` does before it calls the function. Elsewhere, ``count`` shares out the
    GPUs that the ranks of a host see: the first rank gets the first ``count`` GPUs, and so on.
    Ranks that see different GPUs, set by their launcher, keep their own GPUs.

    Parameters
    ----------
    comm : Communicator or BarrierTaskContext, optional
        As for `torch_env`.
    count : int, optional
        The number of GPUs, 0 for none. By default the GPUs that Spark has assigned. Without such
        GPUs, all GPUs that this rank sees, and nothing is set.

    Returns
    -------
    list of str
        The GPUs that ``CUDA_VISIBLE_DEVICES`` names, or would name if it were set.

    Raises
    ------
    InvalidError
        When there are too few GPUs, or none though Spark was asked for GPUs. Also for an address
        outside ``CUDA_VISIBLE_DEVICES``, and when CUDA was initialized in this process with other
        GPUs. Also when another rank fails with one of these errors; ``rank`` is the failed rank.
    MismatchError, PeerLostError, TimeoutError, AbortedError
        As for `Communicator.allreduce`.

    Examples
    --------
    >>> comm.gpus(1)  # on a host with two GPUs, on the second of two ranks
    ['1']
    """
    with communicator(comm) as ring:
        given = agree(ring, lambda: device.of_task(count))
        seen = device.names_in(device.inherited()) if given is None else []
        lists = ring._allgather_strings([str(count or 0), *seen])
        return agree(ring, lambda: _take(ring, given, lists, count))


def of_task(comm: Communicator, count: int) -> list[str]:
    """Choose the GPUs of this Spark task without the other ranks, which have chosen before."""
    return _take(comm, device.of_task(count) or [], [], count)


def _take(
    comm: Communicator, given: list[str] | None, lists: list[list[str]], count: int | None
) -> list[str]:
    """Choose GPUs and set the variable, unless there is nothing to choose."""
    if given is not None:
        names = _first(given, count)
    elif count is None:
        return device.names_in(os.environ.get(device.VISIBLE))
    else:
        names = _share(comm, lists, count) if count else []
    return device.use(names, device.refuse)


def _first(given: list[str], count: int | None) -> list[str]:
    if count is not None and count > len(given):
        raise InvalidError(
            f"count is {count}, but Spark has given this task {len(given)}: set"
            f" {device.ASKED} to {count}"
        )
    return given[:count]


def _share(comm: Communicator, lists: list[list[str]], count: int) -> list[str]:
    """Choose among the visible GPUs; `lists` has each rank's count and visible GPUs."""
    names = lists[comm.rank][1:]
    host = comm.hosts[comm.rank]
    if not names:
        value = device.inherited()
        why = "there is no /dev/nvidia0" if value is None else f"{device.VISIBLE} is {value!r}"
        raise InvalidError(f"count is {count}, but rank {comm.rank} sees no GPU on {host}: {why}")
    wants = [
        int(wants) if other == host and theirs == names else 0
        for other, (wants, *theirs) in zip(comm.hosts, lists)
    ]
    if sum(wants) > len(names):
        raise InvalidError(
            f"on {host} ranks ask for {sum(wants)} GPUs, but see {len(names)} ({','.join(names)}):"
            " start fewer ranks there, or ask for fewer GPUs"
        )
    first = sum(wants[: comm.rank])
    return names[first : first + count]
