# SPDX-License-Identifier: Apache-2.0
"""The base of models whose mean is a function of a linear predictor."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring.models._linear import LinearModel

if TYPE_CHECKING:
    from sparkring.models._family import Family
    from sparkring.models._irls import Fit
    from sparkring.models._table import Array


class MeanModel(LinearModel):
    """A linear model of the mean, by a link."""

    def _family(self) -> Family:
        raise NotImplementedError

    def _predict(self, x: Array) -> Array:
        return self._family().link.mean(super()._predict(x))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the explained part of the deviance of these rows. Not collective."""
        family = self._family()
        mean = np.asarray(self.predict(X))
        y = np.asarray(y, np.float64)
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        null = np.full(len(y), np.average(y, weights=weight))
        with np.errstate(all="ignore"):
            rest = float(np.sum(weight * family.deviance(y, mean)))
            total = float(np.sum(weight * family.deviance(y, null)))
        return 1 - rest / total


def take(model: Any, fit: Fit, intercept: bool) -> None:
    """Set the attributes of a model, and warn where the fit did not converge."""
    model.intercept_ = float(fit.beta[0]) if intercept else 0.0
    model.coef_ = np.array(fit.beta[int(intercept) :])
    model.n_iter_ = fit.iterations
    model.converged_ = fit.converged
    if not fit.converged:
        warnings.warn(
            f"{type(model).__name__} did not converge in {fit.iterations} iterations: pass a"
            " larger max_iter, or scale the columns",
            RuntimeWarning,
            stacklevel=2,
        )
