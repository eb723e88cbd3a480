# SPDX-License-Identifier: Apache-2.0
"""Common parts of the functions for frameworks: a communicator, and a row of numbers of every rank.

A function without a communicator opens one for the call. The communicator is closed when the
function returns, but kept, because it holds the ports, until the next such call or the end of the
process. Ranks exchange numbers and strings only. They need no token, and R and Python read the same
bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from sparkring._agree import agree
from sparkring._core import InvalidError
from sparkring.frameworks import _device as device

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import TypeAlias

    from sparkring._communicator import Communicator

    # PySpark's BarrierTaskContext, without an import of PySpark.
    Ring: TypeAlias = Union[Communicator, Any, None]

_kept: Communicator | None = None


@contextlib.contextmanager
def communicator(given: Ring) -> Iterator[Communicator]:
    """Yield the given communicator, or open one and close it at the end."""
    from sparkring import _communicator, _init  # not at the top: both use this folder

    global _kept
    if isinstance(given, _communicator.Communicator):
        yield given
        return
    if given is not None and type(given).__name__ != "BarrierTaskContext":
        raise InvalidError(
            f"comm is of type {type(given).__name__}: pass a Communicator, the BarrierTaskContext"
            " of this task, or nothing"
        )
    with _init.init() as comm:
        yield comm
    _kept = comm


def gather(comm: Communicator, row: Callable[[], Sequence[float]], width: int) -> NDArray[Any]:
    """Return the rows of all ranks, each of `width` numbers.

    Where one rank cannot make its row, all ranks raise its error (`agree`). The framework is about
    to start, so a Spark task chooses its GPUs here.
    """

    def make() -> Sequence[float]:
        device.use_task_gpus()
        return row()

    return comm.allgather(np.array(agree(comm, make), "float64").reshape(width))


def of_root(comm: Communicator, make: Callable[[], int]) -> int:
    """Return the value of rank 0 on all ranks."""
    return int(gather(comm, lambda: [0 if comm.rank else make()], 1)[0, 0])


def address(host: str, port: float) -> str:
    """Join a host and a port."""
    return f"[{host}]:{port:.0f}" if ":" in host else f"{host}:{port:.0f}"
