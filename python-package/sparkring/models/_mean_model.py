# SPDX-License-Identifier: Apache-2.0
"""The base of models whose mean is a function of a linear predictor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring.models._base import explained
from sparkring.models._linear import LinearModel
from sparkring.models._sklearn import warn_of_convergence
from sparkring.models._table import numbers_in, scored

if TYPE_CHECKING:
    from sparkring.models._family import Family
    from sparkring.models._net_path import Path
    from sparkring.models._table import Array


class MeanModel(LinearModel):
    """A linear model of the mean, by a link."""

    intercept_: Any

    def _family(self) -> Family:
        raise NotImplementedError

    def _take(self, path: Path, place: int) -> None:
        """Set the attributes of the model of one penalty."""
        self.coef_, level = path.coefficients[place], path.intercepts[place]
        self.intercept_ = float(level) if level.ndim == 0 else level
        converge(self, int(path.passes[place]), bool(path.converged[place]))

    def _predict(self, x: Array) -> Array:
        return self._family().link.mean(super()._predict(x))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the explained part of the deviance of these rows. Not collective.

        The whole is the deviance of the mean of ``y``; for classes, that of the part of each class.

        Parameters
        ----------
        X : array or table of shape (rows, features)
            Rows with the features of the fit.
        y : array of shape (rows,)
            The responses.
        sample_weight : array of shape (rows,), optional
            The weights of the rows; 1 by default.

        Returns
        -------
        float
            1 at most; negative for predictions that are worse than the mean of ``y``.

        Raises
        ------
        InvalidError
            Before a fit, for other features, for missing values, and without a row with a weight.
        """
        return self._explained(np.asarray(self.predict(X)), y, sample_weight)

    def _explained(self, mean: Array, y: Any, sample_weight: Any) -> float:
        given, weight = scored(y, sample_weight, len(mean))
        response = numbers_in(given, "y")
        null = np.full(len(mean), np.average(response, weights=weight))
        deviances = self._family().deviances
        with np.errstate(all="ignore"):
            rest = float(deviances(response, mean, weight).sum())
            return explained(rest, float(deviances(response, null, weight).sum()))


def converge(model: Any, iterations: int, converged: bool) -> None:
    """Set how the fit ended, and warn where it did not converge."""
    model.n_iter_, model.converged_ = iterations, converged
    if not converged:
        warn_of_convergence(
            f"{type(model).__name__} did not converge in {iterations} iterations: pass a larger"
            " max_iter, or scale the columns"
        )
