# SPDX-License-Identifier: Apache-2.0
"""Families and links of generalized linear models, as in R: its starting means, limits and AIC."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import numpy as np

from sparkring._core import InvalidError
from sparkring.models._distributions import log_gamma, normal_quantile, normal_tail

if TYPE_CHECKING:
    from sparkring.models._table import Array

EPS = float(np.finfo(float).eps)


class Link(NamedTuple):
    """A link: the linear predictor of a mean, its inverse, and the slope of the inverse."""

    name: str
    of_mean: Callable[[Array], Array]
    mean: Callable[[Array], Array]
    slope: Callable[[Array], Array]


def logistic(eta: Array) -> Array:
    """Return the mean of a logit, inside (0, 1)."""
    odds = np.exp(np.clip(eta, -30, 30))
    odds = np.where(eta < -30, EPS, np.where(eta > 30, 1 / EPS, odds))
    found: Array = odds / (1 + odds)
    return found


def logistic_slope(eta: Array) -> Array:
    """Return the slope of the mean of a logit."""
    near = np.exp(-np.minimum(np.abs(eta), 30))
    found: Array = np.where(np.abs(eta) > 30, EPS, near / (1 + near) ** 2)
    return found


def density(eta: Array) -> Array:
    """Return the density of the normal distribution."""
    found: Array = np.exp(-(eta**2) / 2) / math.sqrt(2 * math.pi)
    return found


PROBIT = -float(normal_quantile(EPS))
LINKS = {
    "identity": Link("identity", lambda mu: mu, lambda eta: eta, np.ones_like),
    "log": Link(
        "log",
        np.log,
        lambda eta: np.maximum(np.exp(eta), EPS),
        lambda eta: np.maximum(np.exp(eta), EPS),
    ),
    "logit": Link("logit", lambda mu: np.log(mu / (1 - mu)), logistic, logistic_slope),
    "probit": Link(
        "probit",
        normal_quantile,
        lambda eta: normal_tail(-np.clip(eta, -PROBIT, PROBIT)),
        lambda eta: np.maximum(density(eta), EPS),
    ),
    "cloglog": Link(
        "cloglog",
        lambda mu: np.log(-np.log1p(-mu)),
        lambda eta: np.clip(-np.expm1(-np.exp(eta)), EPS, 1 - EPS),
        lambda eta: np.maximum(np.exp(np.minimum(eta, 700) - np.exp(np.minimum(eta, 700))), EPS),
    ),
    "inverse": Link("inverse", lambda mu: 1 / mu, lambda eta: 1 / eta, lambda eta: -1 / eta**2),
    "sqrt": Link("sqrt", np.sqrt, lambda eta: eta**2, lambda eta: 2 * eta),
    "inverse_squared": Link(
        "inverse_squared",
        lambda mu: 1 / mu**2,
        lambda eta: 1 / np.sqrt(eta),
        lambda eta: -1 / (2 * eta**1.5),
    ),
}


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
    variance : function of the mean
        The variance.
    deviance : function of y and the mean
        The deviance of each row, for weights of 1.
    valid : function of y or of the mean
        Whether a response, or a mean, is possible.
    response : str
        The responses that are possible, for errors.
    """

    name: str
    link: Link
    known: bool
    start: Callable[[Array, Array], Array]
    variance: Callable[[Array], Array]
    deviance: Callable[[Array, Array], Array]
    valid: Callable[[Array], Any]
    valid_mean: Callable[[Array], Any]
    response: str


FAMILIES: dict[str, tuple[str, tuple[str, ...], tuple[Any, ...]]] = {
    "gaussian": (
        "identity",
        ("identity", "log", "inverse"),
        (
            False,
            lambda y, weight: y,
            np.ones_like,
            lambda y, mu: (y - mu) ** 2,
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
            lambda mu: mu * (1 - mu),
            lambda y, mu: 2 * (xlogy(y, y / mu) + xlogy(1 - y, (1 - y) / (1 - mu))),
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
            lambda mu: mu,
            lambda y, mu: 2 * (xlogy(y, y / mu) - (y - mu)),
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
            lambda mu: mu**2,
            lambda y, mu: -2 * (np.log(y / mu) - (y - mu) / mu),
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
            lambda mu: mu**3,
            lambda y, mu: (y - mu) ** 2 / (y * mu**2),
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
