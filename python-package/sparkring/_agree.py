# SPDX-License-Identifier: Apache-2.0
"""Agreement on whether a step has succeeded everywhere (core/bindings/agree.h).

Ranks must make the same calls. So a failure of one rank is first sent to all ranks, and then raised
on each: no rank waits, and the communicator stays usable. R's `agree` does the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sparkring._core import CommunicatorBase, InvalidError

Value = TypeVar("Value")


def agree(comm: CommunicatorBase, make: Callable[[], Value]) -> Value:
    """Return the result of `make`, which may differ between ranks.

    `make` must not call the communicator. Where `make` fails on one rank, every rank raises the
    reason, with the rank that failed and its host.
    """
    failure = value = None
    try:
        value = make()
    except Exception as error:
        failure = error
    failed = comm._agree(None if failure is None else str(failure) or type(failure).__name__)
    if failure is not None:
        raise failure
    if failed is not None:
        elsewhere = InvalidError(failed[1])
        elsewhere.rank = failed[0]
        raise elsewhere
    return value  # type: ignore[return-value]
