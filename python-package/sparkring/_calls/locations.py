# SPDX-License-Identifier: Apache-2.0
"""Where the least and the largest elements are: an extreme and its rank, element by element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._calls.facts import Facts
from sparkring._calls.reductions import Reductions

if TYPE_CHECKING:
    from sparkring._types import Operand


class Locations(Facts, Reductions):
    """Reductions that find the rank of an extreme, too."""

    __slots__ = ()

    def minloc(self, x: Operand) -> tuple[Any, Any]:
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
        return self._locate(x, "min")

    def maxloc(self, x: Operand) -> tuple[Any, Any]:
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
        return self._locate(x, "max")

    def _locate(self, x: Operand, op: str) -> tuple[Any, Any]:
        values = self.allreduce(x, op)
        mine, best = np.asarray(x), np.asarray(values)
        with np.errstate(invalid="ignore"):
            holds = (mine == best) | ((mine != mine) & (best != best))  # NaN differs from itself
        ranks = np.where(holds, self.rank, self.size).astype(np.int32)
        found = self.allreduce(ranks, "min")
        return values, found if found.ndim else found[()]
