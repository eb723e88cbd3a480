# SPDX-License-Identifier: Apache-2.0
"""Exact quantiles, and counts of values, of arrays that are spread over the ranks.

A quantile lies between two order statistics. Each rank sorts its values once. In each round the
ranks propose values among their candidates for an order statistic, and count the values up to each
proposal, so few candidates are left after few rounds. The last candidates are gathered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring import _numerics as numerics
from sparkring._agree import agree
from sparkring._core import InvalidError
from sparkring.models import _alike as alike
from sparkring.models._base import communicator
from sparkring.models._checks import check_choice
from sparkring.models._table import numbers_in

if TYPE_CHECKING:
    from sparkring._communicator import Communicator
    from sparkring.models._table import Array

FEW = 20_000  # candidates that are gathered at most
PROPOSALS = 1000  # of all ranks in a round
METHODS = (  # by the type of Hyndman and Fan, from 1 on
    *("inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf"),
    *("hazen", "weibull", "linear", "median_unbiased", "normal_unbiased"),
)


def quantile(
    values: Any, probs: Any, *, method: str = "linear", comm: Communicator | None = None
) -> Any:
    """Return exact quantiles of the values of all ranks, as ``numpy.quantile``. Collective.

    Parameters
    ----------
    values : array
        The numbers of this rank, which may be none.
    probs : float or sequence of float
        Probabilities from 0 to 1, the same on every rank.
    method : str
        A method of ``numpy.quantile`` for a quantile between two values. They are the types 1 to 9
        of Hyndman and Fan, and of R: ``"inverted_cdf"``, ``"averaged_inverted_cdf"``,
        ``"closest_observation"``, ``"interpolated_inverted_cdf"``, ``"hazen"``, ``"weibull"``,
        ``"linear"``, ``"median_unbiased"`` and ``"normal_unbiased"``.
    comm : Communicator, optional
        As for `LinearRegression`.

    Returns
    -------
    float or array
        The quantiles; an array for several probabilities.

    Raises
    ------
    InvalidError
        On every rank, for values that are no numbers on one rank, other probabilities or another
        method on one rank, and if no rank has values.

    References
    ----------
    R. Hyndman and Y. Fan (1996). Sample quantiles in statistical packages. The American
    Statistician 50.
    """
    with communicator(comm) as ranks:
        own = agree(ranks, lambda: np.sort(numbers_in(np.ravel(np.asarray(values)), "values")))
        alike.check_settings(ranks, {"probs": alike.plain(np.asarray(probs)), "method": method})
        wanted = np.atleast_1d(agree(ranks, lambda: probabilities(probs)))
        kind = 1 + METHODS.index(check_choice("method", method, METHODS))
        count = int(ranks.allreduce(np.array([len(own)]))[0])
        if count == 0:
            raise InvalidError("there are no values on any rank")
        below, above, share = np.empty((3, len(wanted)))
        numerics.quantile_places(count, wanted, kind, below, above, share)
        places = np.unique(np.concatenate([below, above]))
        found = np.array([order_statistic(ranks, own, int(place) - 1) for place in places])
    low, high = (found[np.searchsorted(places, part)] for part in (below, above))
    result = np.empty(len(wanted))
    numerics.quantile_between(low, high, share, result)
    return float(result[0]) if np.ndim(probs) == 0 else result


def probabilities(probs: Any) -> Array:
    """Check probabilities."""
    found = np.asarray(probs, np.float64)
    if found.ndim > 1 or not ((found >= 0) & (found <= 1)).all():
        raise InvalidError(f"probs is {alike.brief(probs)}: it must be numbers from 0 to 1")
    return found


def order_statistic(comm: Communicator, own: Array, place: int) -> float:
    """Return the value that ``place`` values of all ranks come before. Collective.

    ``own`` are the sorted values of this rank.
    """
    first, last, before = 0, len(own), 0
    most = max(3, PROPOSALS // comm.size)  # the ends, and one between them at least
    while int(comm.allreduce(np.array([last - first]))[0]) > FEW:
        # At equal distances, so the candidates between two proposals are few on every rank.
        at = first + np.linspace(0, max(0, last - first - 1), most).astype(np.int64)
        proposals = np.unique(comm.allgatherv(own[at] if last > first else own[:0]))
        under = np.searchsorted(own, proposals, "left")
        upto = np.searchsorted(own, proposals, "right")
        totals = comm.allreduce(np.stack([under, upto]))
        upper = int(np.searchsorted(totals[1], place, "right"))
        if upper < len(proposals) and totals[0, upper] <= place:
            return float(proposals[upper])
        if upper < len(proposals):
            last = int(under[upper])
        if upper > 0:
            first, before = int(upto[upper - 1]), int(totals[1, upper - 1])
    candidates = np.sort(comm.allgatherv(own[first:last]))
    return float(candidates[place - before])


def table(values: Any, *, comm: Communicator | None = None) -> dict[Any, int]:
    """Count the values of all ranks. Collective.

    Parameters
    ----------
    values : array or sequence
        Numbers, booleans or strings of this rank, which may be none.
    comm : Communicator, optional
        As for `LinearRegression`.

    Returns
    -------
    dict
        How often each value occurs, in sorted order, the same on every rank.

    Raises
    ------
    InvalidError
        On every rank, for missing values, and where some values are strings and others numbers.
    """
    with communicator(comm) as ranks:
        own = agree(ranks, lambda: alike.counts_of(values, "values"))
        found = alike.distinct(ranks, list(own))
        if not found:
            return {}
        counts = ranks.allreduce(np.array([own.get(value, 0) for value in found], np.int64))
    return dict(zip(found, counts.tolist()))
