# SPDX-License-Identifier: Apache-2.0
"""Where the least and the largest elements are: an extreme and its rank, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkring._core import Communicator
from sparkring._method import method


@method
def minloc(self: Communicator, x: Any) -> tuple[Any, Any]:
    """Find the least elements over all ranks, and the ranks that hold them.

    Makes two calls of `allreduce`.

    Parameters
    ----------
    x : array or number
        Of the same dtype and shape on every rank, and of a dtype that has an order.

    Returns
    -------
    numpy.ndarray or NumPy scalar
        The result of ``allreduce(x, "min")``. NaN where any rank holds NaN.
    numpy.ndarray of int32 or NumPy scalar
        For each element the lowest rank that holds it; for NaN, the lowest that holds NaN.

    Raises
    ------
    InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
        As for `allreduce`.

    Examples
    --------
    >>> loss, rank = comm.minloc(loss)  # the best loss, and where it was found
    """
    return _locate(self, x, "min")


@method
def maxloc(self: Communicator, x: Any) -> tuple[Any, Any]:
    """Find the largest elements over all ranks, and the ranks that hold them.

    Makes two calls of `allreduce`.

    Parameters
    ----------
    x : array or number
        Of the same dtype and shape on every rank, and of a dtype that has an order.

    Returns
    -------
    numpy.ndarray or NumPy scalar
        The result of ``allreduce(x, "max")``. NaN where any rank holds NaN.
    numpy.ndarray of int32 or NumPy scalar
        For each element the lowest rank that holds it; for NaN, the lowest that holds NaN.

    Raises
    ------
    InvalidError, MismatchError, PeerLostError, TimeoutError, AbortedError
        As for `allreduce`.

    Examples
    --------
    >>> seconds, slowest = comm.maxloc(seconds)
    """
    return _locate(self, x, "max")


def _locate(comm: Communicator, x: Any, op: str) -> tuple[Any, Any]:
    values = comm.allreduce(x, op)
    mine, best = np.asarray(x), np.asarray(values)
    with np.errstate(invalid="ignore"):
        holds = (mine == best) | ((mine != mine) & (best != best))  # NaN differs from itself
    ranks = np.where(holds, comm.rank, comm.size).astype(np.int32)
    found = comm.allreduce(ranks, "min")
    return values, found if found.ndim else found[()]
