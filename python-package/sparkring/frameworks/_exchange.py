# SPDX-License-Identifier: Apache-2.0
"""What the functions of all frameworks share: a communicator, and a row of numbers of every rank.

A function that was not given a communicator makes one for the moment. That is closed when the
function returns, but kept, as it holds the ports: until the next such call, or the process's end.
Ranks tell each other numbers and texts only, which need no token, and R and Python read them alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from sparkring._agree import agree
from sparkring._communicator import init
from sparkring._core import Communicator, InvalidError
from sparkring.frameworks import _device as device

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import TypeAlias

    # PySpark's BarrierTaskContext, of which PySpark need not be there to speak.
    Ring: TypeAlias = Union[Communicator, Any, None]

_kept: Communicator | None = None


@contextlib.contextmanager
def communicator(given: Ring) -> Iterator[Communicator]:
    """Yield the communicator that was given, or else one that is closed at the end."""
    global _kept
    if isinstance(given, Communicator):
        yield given
        return
    if given is not None and type(given).__name__ != "BarrierTaskContext":
        raise InvalidError(
            f"comm is of type {type(given).__name__}: pass a Communicator, the BarrierTaskContext"
            " of this task, or nothing"
        )
    with init() as comm:
        yield comm
    _kept = comm


def gather(comm: Communicator, row: Callable[[], Sequence[float]], width: int) -> NDArray[Any]:
    """Return the rows of all ranks, which are `width` numbers each.

    Where one rank cannot make its own, none gets any (`together`). A framework is about to start,
    so this is when a Spark task sees to its GPUs.
    """

    def make() -> Sequence[float]:
        device.adopt()
        return row()

    return comm.allgather(np.array(agree(comm, make), "float64").reshape(width))


def of_root(comm: Communicator, make: Callable[[], int]) -> int:
    """Return on all ranks what rank 0 makes."""
    return int(gather(comm, lambda: [0 if comm.rank else make()], 1)[0, 0])


def address(host: str, port: float) -> str:
    """Write a host and a port as one."""
    return f"[{host}]:{port:.0f}" if ":" in host else f"{host}:{port:.0f}"
