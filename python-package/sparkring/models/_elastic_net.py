# SPDX-License-Identifier: Apache-2.0
"""Models with the penalty of the elastic net, and their cross-validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparkring._core import InvalidError
from sparkring.models import _family as families
from sparkring.models import _net_path as net_path
from sparkring.models._checks import check_choice, check_flag, check_number, check_whole
from sparkring.models._doubles import doubles
from sparkring.models._mean_model import MeanModel, converge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkring._communicator import Communicator
    from sparkring.models._family import Family
    from sparkring.models._rows import Rows
    from sparkring.models._table import Array

FAMILIES = ("gaussian", "binomial")


class NetModel(MeanModel):
    """The base of the models with this penalty."""

    family: str
    l1_ratio: float
    fit_intercept: bool
    max_iter: int
    tol: float

    def _family(self) -> Family:
        return families.find(self.family)

    def _check(self) -> None:
        check_choice("family", self.family, FAMILIES)
        check_number("l1_ratio", self.l1_ratio, 0, 1)
        check_flag("fit_intercept", self.fit_intercept)
        check_whole("max_iter", self.max_iter, 1)
        check_number("tol", self.tol, 0)

    def _settings(self) -> net_path.Settings:
        return net_path.Settings(
            self._family(), self.l1_ratio, self.fit_intercept, self.max_iter, self.tol
        )


class ElasticNet(NetModel):
    """A linear or logistic model with the penalty of the elastic net.

    Minimizes half of the mean deviance (for ``"gaussian"``, half of the mean squared error) plus
    ``alpha * l1_ratio`` times the sum of absolute coefficients plus ``alpha * (1 - l1_ratio) / 2``
    times the sum of squared coefficients, as in scikit-learn. Columns are not scaled: see
    `StandardScaler`.

    Parameters
    ----------
    alpha : float
        The penalty, 0 or more.
    comm : Communicator, optional
        As for `LinearRegression`.
    l1_ratio : float
        The part of the absolute coefficients, from 0 to 1.
    family : {"gaussian", "binomial"}
        The distribution of the response. For ``"binomial"`` the response is from 0 to 1, and
        predictions are probabilities.
    fit_intercept : bool
        Whether the model has an intercept, which has no penalty.
    max_iter : int
        The largest number of Newton's steps. ``"gaussian"`` needs one pass over the rows.
    tol : float
        The fit ends when no condition of the minimum is violated by more than this part of the
        largest gradient.

    Attributes
    ----------
    coef_, intercept_ : array and float
        The coefficients, on the scale of the link.
    n_iter_ : int
        The number of Newton's steps; 1 for ``"gaussian"``.
    converged_ : bool
        Whether the fit converged.

    References
    ----------
    J. Friedman, T. Hastie and R. Tibshirani (2010). Regularization paths for generalized linear
    models via coordinate descent. Journal of Statistical Software 33(1).
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        comm: Communicator | None = None,
        l1_ratio: float = 0.5,
        family: str = "gaussian",
        fit_intercept: bool = True,
        max_iter: int = 100,
        tol: float = 1e-8,
    ) -> None:
        self.alpha = alpha
        self.comm = comm
        self.l1_ratio = l1_ratio
        self.family = family
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol

    def _check(self) -> None:
        super()._check()
        check_number("alpha", self.alpha, 0)

    def _fit(self, rows: Rows) -> None:
        path = net_path.fit(rows, self._settings(), np.array([float(self.alpha)]), 0, 0.0)
        self.coef_, self.intercept_ = path.coefficients[0], float(path.intercepts[0])
        self.n_iter_ = int(path.passes[0])
        converge(self, bool(path.converged[0]))


class Lasso(ElasticNet):
    """A linear or logistic model with a penalty of the absolute coefficients: see `ElasticNet`.

    Parameters
    ----------
    alpha, comm, family, fit_intercept, max_iter, tol
        As for `ElasticNet`, with an ``l1_ratio`` of 1.

    Attributes
    ----------
    coef_, intercept_ : array and float
        The coefficients, on the scale of the link.
    """

    l1_ratio = 1.0

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        comm: Communicator | None = None,
        family: str = "gaussian",
        fit_intercept: bool = True,
        max_iter: int = 100,
        tol: float = 1e-8,
    ) -> None:
        self.comm = comm
        self.alpha = alpha
        self.family = family
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol


class ElasticNetCV(NetModel):
    """An elastic net whose penalty is chosen by cross-validation.

    Row number r of all ranks is in fold ``r % cv``, so all folds have equal sizes. For
    ``"gaussian"`` one pass over the rows has all folds and penalties. Batches must come in the same
    order in each pass, so shuffled batches are refused.

    Parameters
    ----------
    comm, l1_ratio, family, fit_intercept, max_iter, tol
        As for `ElasticNet`.
    eps : float
        The smallest penalty, as a part of the largest, which makes all coefficients 0.
    n_alphas : int
        The number of penalties.
    alphas : sequence of float, optional
        Penalties to use instead.
    cv : int
        The number of folds, 2 or more.

    Attributes
    ----------
    alpha_, alpha_1se_ : float
        The penalty with the smallest error, and the largest whose error is within a standard error
        of it.
    alphas_ : array
        The penalties, in decreasing order.
    mse_path_ : array of shape (penalties, folds)
        The mean squared error of the rows of each fold, for ``"binomial"`` the mean deviance.
    coef_, intercept_ : array and float
        The coefficients of all rows at ``alpha_``.
    coef_path_, intercept_path_ : arrays
        The coefficients of all rows at each penalty.
    n_iter_, converged_ : int and bool
        As for `ElasticNet`, at ``alpha_``.
    """

    def __init__(
        self,
        *,
        comm: Communicator | None = None,
        l1_ratio: float = 0.5,
        eps: float = 1e-3,
        n_alphas: int = 100,
        alphas: Sequence[float] | None = None,
        cv: int = 5,
        family: str = "gaussian",
        fit_intercept: bool = True,
        max_iter: int = 100,
        tol: float = 1e-8,
    ) -> None:
        self.comm = comm
        self.l1_ratio = l1_ratio
        self.eps = eps
        self.n_alphas = n_alphas
        self.alphas = alphas
        self.cv = cv
        self.family = family
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol

    def _check(self) -> None:
        super()._check()
        check_whole("n_alphas", self.n_alphas, 1)
        check_whole("cv", self.cv, 2)
        if check_number("eps", self.eps, 0, 1) == 0:
            raise InvalidError("eps is 0: it must be a positive number up to 1")
        if self.alphas is None and self.l1_ratio == 0:
            raise InvalidError("l1_ratio is 0, where no penalty is the largest: pass alphas")

    def _fit(self, rows: Rows) -> None:
        count = rows.count()
        if count < self.cv:
            raise InvalidError(
                f"cv is {self.cv}, and n_samples = {count} with a weight on all ranks: pass a"
                " smaller cv"
            )
        path = net_path.fit(rows, self._settings(), self._given(), self.n_alphas, self.eps)
        self.alphas_ = path.alphas
        errors, weights = net_path.validate(rows, self._settings(), path.alphas, self.cv)
        if (weights == 0).any():
            raise InvalidError(
                f"fold {int(np.flatnonzero(weights == 0)[0])} has no rows with a weight on any"
                " rank: pass a smaller cv"
            )
        self.mse_path_ = errors / weights
        mean = self.mse_path_.mean(axis=1)
        error = self.mse_path_.std(axis=1, ddof=1) / np.sqrt(self.cv)
        best = int(mean.argmin())
        self.alpha_ = float(path.alphas[best])
        self.alpha_1se_ = float(path.alphas[mean <= mean[best] + error[best]].max())
        self.coef_path_, self.intercept_path_ = path.coefficients, path.intercepts
        self.coef_, self.intercept_ = path.coefficients[best], float(path.intercepts[best])
        self.n_iter_ = int(path.passes[best])
        converge(self, bool(path.converged[best]))

    def _given(self) -> Array | None:
        if self.alphas is None:
            return None
        given = doubles(self.alphas, "alphas")
        if given.ndim != 1 or len(given) == 0 or not (np.isfinite(given) & (given >= 0)).all():
            raise InvalidError("alphas must be one or more numbers from 0 on")
        return np.sort(given)[::-1]
