# SPDX-License-Identifier: Apache-2.0
"""GPUs: those of its host that a rank uses.

Where Spark has given it none, ranks of a host that see the same GPUs can share them out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sparkring._agree import agree, allgather_strings
from sparkring._core import Communicator, InvalidError
from sparkring._method import method
from sparkring.frameworks import _device as device
from sparkring.frameworks._exchange import communicator

if TYPE_CHECKING:
    from sparkring.frameworks._exchange import Ring


@method
def gpus(comm: Ring = None, /, count: int | None = None) -> list[str]:
    """Choose this rank's GPUs: set ``CUDA_VISIBLE_DEVICES``, so that it sees no others.

    Collective. Call it before anything uses a GPU; to import PyTorch, TensorFlow or JAX is no use
    yet. The rank's first GPU is then ``cuda:0``, not ``cuda:LOCAL_RANK``.

    In a Spark task that has GPUs (``spark.task.resource.gpu.amount``) it gets these. Where
    ``CUDA_VISIBLE_DEVICES`` is set on the executor, their addresses are indexes into that. The
    functions for frameworks, such as `torch_env`, do so by themselves, and `sparkring.spark.run`
    does before it calls the function. Elsewhere, ``count`` shares out what the ranks of a host see:
    the first of them gets the first ``count`` GPUs, and so on. Ranks that see different GPUs, as
    their launcher has said so, keep to their own.

    Parameters
    ----------
    comm : Communicator or BarrierTaskContext, optional
        As for `torch_env`.
    count : int, optional
        How many, 0 for none. By default those that Spark gives or, if it gives none, all that this
        rank sees: then nothing is set.

    Returns
    -------
    list of str
        What ``CUDA_VISIBLE_DEVICES`` names, or would if it were set.

    Raises
    ------
    InvalidError
        When there are not as many, or none though Spark was asked for some; for an address that
        ``CUDA_VISIBLE_DEVICES`` has no place for; and when CUDA was initialised in this process
        with other GPUs. Also when another rank fails with these: ``rank`` tells which.
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
        lists = allgather_strings(ring, [str(count or 0), *seen])
        return agree(ring, lambda: _take(ring, given, lists, count))


def _take(
    comm: Communicator, given: list[str] | None, lists: list[list[str]], count: int | None
) -> list[str]:
    """Choose, and set it, unless there is nothing to choose."""
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
    """Choose among what this rank sees; `lists` has what each rank wants, and what it sees."""
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
