# SPDX-License-Identifier: Apache-2.0
"""Agreement on whether a step has succeeded everywhere, and strings of all ranks.

Ranks must make the same calls. So a failure of one rank is first sent to all ranks, and then raised
on each: no rank waits, and the communicator stays usable. Strings travel as bytes, not as objects:
they need no token, and R and Python read the same bytes. R's `agree` does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from sparkring._core import Communicator, InvalidError

Value = TypeVar("Value")


def agree(comm: Communicator, make: Callable[[], Value]) -> Value:
    """Return what `make` does, which differs between ranks and does not call the communicator.

    Where it fails on one rank it fails on all: that rank raises why, and so do the others, with its
    rank and host.
    """
    failure = value = None
    try:
        value = make()
    except Exception as error:
        failure = error
    if comm.allreduce(0.0 if failure is None else 1.0) > 0:
        raise share_failure(comm, failure)
    return value  # type: ignore[return-value]


def share_failure(comm: Communicator, failure: Exception | None) -> Exception:
    """Tell all ranks of the failures, and give what this one is to raise."""
    texts = allgather_strings(
        comm, [] if failure is None else [str(failure) or type(failure).__name__]
    )
    if failure is not None:
        return failure
    rank = next(rank for rank, text in enumerate(texts) if text)
    error = InvalidError(f"rank {rank} ({comm.hosts[rank]}) failed: {texts[rank][0]}")
    error.rank = rank
    return error


def allgather_strings(comm: Communicator, texts: Sequence[str]) -> list[list[str]]:
    """Return the texts of all ranks, in rank order."""
    parts = [text.encode(errors="replace") for text in texts]
    counts = comm.allgather(np.int32(len(parts)))
    sizes = comm.allgatherv(np.array([len(part) for part in parts], "int32"))
    data = comm.allgatherv(np.frombuffer(b"".join(parts), "uint8")).tobytes()
    ends = np.cumsum(sizes)
    words = [data[end - size : end].decode(errors="replace") for end, size in zip(ends, sizes)]
    return [words[end - count : end] for end, count in zip(np.cumsum(counts), counts)]
