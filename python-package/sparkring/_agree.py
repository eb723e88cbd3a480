# SPDX-License-Identifier: Apache-2.0
"""Agreement on whether a step has succeeded everywhere, and strings of all ranks.

Ranks must make the same calls. So a rank first sends its failure to all ranks, and then each rank
raises it: no rank waits, and the communicator stays usable. Strings are sent as bytes, not as
objects: bytes need no token, and R and Python read the same bytes. R's `agree` does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from sparkring._core import Communicator, InvalidError

Value = TypeVar("Value")


def agree(comm: Communicator, make: Callable[[], Value]) -> Value:
    """Return the result of `make`, which may differ between ranks.

    `make` must not call the communicator. Where `make` fails on one rank, every rank raises the
    reason, with the rank that failed and its host.
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
    """Send the failures to all ranks, and return the error that this rank is to raise."""
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
    """Return the strings of all ranks, in rank order."""
    parts = [text.encode(errors="replace") for text in texts]
    counts = comm.allgather(np.int32(len(parts)))
    sizes = comm.allgatherv(np.array([len(part) for part in parts], "int32"))
    data = comm.allgatherv(np.frombuffer(b"".join(parts), "uint8")).tobytes()
    ends = np.cumsum(sizes)
    words = [data[end - size : end].decode(errors="replace") for end, size in zip(ends, sizes)]
    return [words[end - count : end] for end, count in zip(np.cumsum(counts), counts)]
