# SPDX-License-Identifier: Apache-2.0
"""Families and links of generalized linear models, as in R: its starting means, limits and AIC."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import numpy as np

from sparkring import _numerics as numerics
from sparkring._core import InvalidError
from sparkring.models._distributions import log_gamma

if TYPE_CHECKING:
    from sparkring.models._table import Array

EPS = float(np.finfo(float).eps)


def applied(function: Callable[..., None], number: int, *arrays: Any) -> Array:
    """Return what a function of numerics/glm.h makes of arrays of one shape."""
    inputs = [np.ascontiguousarray(each, np.float64).ravel() for each in arrays]
    found = np.empty_like(inputs[0])
    function(number, *inputs, found)
    return found.reshape(np.shape(arrays[0]))


class Link(NamedTuple):
    """A link, by its number in numerics/glm.h."""

    name: str
    number: int

    def of_mean(self, mu: Array) -> Array:
        """Return the linear predictor of a mean."""
        return applied(numerics.glm_eta, self.number, mu)

    def mean(self, eta: Array) -> Array:
        """Return the mean of a linear predictor."""
        return applied(numerics.glm_mean, self.number, eta)

    def slope(self, eta: Array) -> Array:
        """Return the slope of the mean."""
        return applied(numerics.glm_slope, self.number, eta)


NAMES = ("identity", "log", "logit", "probit", "cloglog", "inverse", "sqrt", "inverse_squared")
LINKS = {name: Link(name, number) for number, name in enumerate(NAMES)}


def logistic(eta: Array) -> Array:
    """Return the mean of a logit, inside (0, 1)."""
    return LINKS["logit"].mean(eta)


def softmax(eta: Array) -> Array:
    """Return the probabilities of classes, which the last axis has."""
    odds = np.exp(eta - eta.max(axis=-1, keepdims=True))
    shares: Array = odds / odds.sum(axis=-1, keepdims=True)
    return shares


def xlogy(x: Array, ratio: Array) -> Array:
    """Return x * log(ratio), and 0 for x of 0."""
    found: Array = np.where(x > 0, x * np.log(np.where(x > 0, ratio, 1)), 0.0)
    return found


class Family(NamedTuple):
    """A family.

    Attributes
    ----------
    name, link : str and Link
        Its name and link.
    known : bool
        Whether the dispersion is 1.
    start : function of y and the weights
        The means of the first iteration.
    valid : function of y or of the mean
        Whether a response, or a mean, is possible.
    response : str
        The responses that are possible, for errors.
    """

    name: str
    link: Link
    known: bool
    start: Callable[[Array, Array], Array]
    valid: Callable[[Array], Any]
    valid_mean: Callable[[Array], Any]
    response: str

    def variance(self, mu: Array) -> Array:
        """Return the variance of a mean."""
        return applied(numerics.glm_variance, list(FAMILIES).index(self.name), mu)

    def deviances(self, y: Array, mu: Array, weight: Array) -> Array:
        """Return the weighted deviances of responses and means, which may be broadcast."""
        number = list(FAMILIES).index(self.name)
        return applied(numerics.glm_deviance, number, *np.broadcast_arrays(y, mu, weight))


# The order is that of numerics/glm.h.
FAMILIES: dict[str, tuple[str, tuple[str, ...], tuple[Any, ...]]] = {
    "gaussian": (
        "identity",
        ("identity", "log", "inverse"),
        (
            False,
            lambda y, weight: y,
            np.isfinite,
            np.isfinite,
            "numbers",
        ),
    ),
    "binomial": (
        "logit",
        ("logit", "probit", "cloglog", "log"),
        (
            True,
            lambda y, weight: (weight * y + 0.5) / (weight + 1),
            lambda y: (y >= 0) & (y <= 1),
            lambda mu: (mu > 0) & (mu < 1),
            "numbers from 0 to 1",
        ),
    ),
    "poisson": (
        "log",
        ("log", "identity", "sqrt"),
        (
            True,
            lambda y, weight: y + 0.1,
            lambda y: y >= 0,
            lambda mu: mu > 0,
            "numbers from 0 on",
        ),
    ),
    "gamma": (
        "inverse",
        ("inverse", "identity", "log"),
        (
            False,
            lambda y, weight: y,
            lambda y: y > 0,
            lambda mu: mu > 0,
            "positive numbers",
        ),
    ),
    "inverse_gaussian": (
        "inverse_squared",
        ("inverse_squared", "inverse", "identity", "log"),
        (
            False,
            lambda y, weight: y,
            lambda y: y > 0,
            lambda mu: mu > 0,
            "positive numbers",
        ),
    ),
}


def find(name: Any, link: Any = None) -> Family:
    """Find a family, with its link or by default its canonical link.

    Raises
    ------
    InvalidError
        For a name that is none, and a link that the family does not have.
    """
    if name not in FAMILIES:
        raise InvalidError(f"family is {name!r}: it must be one of {list(FAMILIES)}")
    canonical, links, rest = FAMILIES[name]
    link = canonical if link is None else link
    if link not in links:
        raise InvalidError(f"link is {link!r}: of family {name!r} it must be one of {list(links)}")
    return Family(name, LINKS[link], *rest)


def log_density(family: Family, y: Array, mu: Array, weight: Array, scale: float) -> float:
    """Return minus twice the weighted log density of rows, whose sum is the AIC of R's family.

    ``scale`` is the deviance divided by the rows (gaussian) or by the weights (gamma, inverse
    gaussian). A ``scale`` of 0 has the limits of R.
    """
    spread = math.log(2 * math.pi * scale) if scale > 0 else -math.inf
    if family.name == "gaussian":
        return float(-np.sum(np.log(weight)) + len(y) * (spread + 1))
    if family.name == "binomial":
        rounds = np.round(weight)
        wins = np.round(weight * y)
        choose = log_gamma(rounds + 1) - log_gamma(wins + 1) - log_gamma(rounds - wins + 1)
        return float(-2 * np.sum(choose + xlogy(wins, mu) + xlogy(rounds - wins, 1 - mu)))
    if family.name == "poisson":
        return float(-2 * np.sum(weight * (xlogy(y, mu) - mu - log_gamma(y + 1))))
    if family.name == "inverse_gaussian":
        return float(np.sum(weight * (spread + 1 + 3 * np.log(y))))
    if not scale > 0:
        return math.nan
    shape = 1 / scale
    part = shape * np.log(y * shape / mu) - y * shape / mu - np.log(y) - math.lgamma(shape)
    return float(-2 * np.sum(weight * part))
