# SPDX-License-Identifier: Apache-2.0
"""Models with the penalty of the elastic net, and their cross-validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import InvalidError
from sparkring.models import _family as families
from sparkring.models import _net_pass as net_pass
from sparkring.models import _net_path as net_path
from sparkring.models._base import explained
from sparkring.models._checks import (
    check_choice,
    check_flag,
    check_iterations,
    check_number,
    check_whole,
)
from sparkring.models._doubles import doubles
from sparkring.models._mean_model import MeanModel
from sparkring.models._table import scored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sparkring._communicator import Communicator
    from sparkring.models._family import Family
    from sparkring.models._rows import Rows
    from sparkring.models._table import Array

FAMILIES = ("gaussian", "binomial", "poisson", "multinomial")


class NetModel(MeanModel):
    """The base of the models with this penalty."""

    family: str
    l1_ratio: float
    fit_intercept: bool
    max_iter: int
    tol: float
    standardize: bool
    penalty_factor: Sequence[float] | None
    classes_: NDArray[Any]

    def predict(self, X: Any) -> Any:
        """Predict means; of classes, their probabilities. Not collective.

        Parameters
        ----------
        X : array, table, or pyspark.sql.DataFrame
            Rows with the features of the fit.

        Returns
        -------
        array of shape (rows,) or (rows, classes), or pyspark.sql.DataFrame
            For a DataFrame of Spark a lazy DataFrame with a further column ``prediction``, or for
            classes ``probability``, an array of doubles.

        Raises
        ------
        InvalidError
            For missing values in rows that are not of Spark.
        """
        output = "probability" if self.family == "multinomial" else "prediction"
        return self._apply(X, "_predict", output)

    def _explained(self, mean: Array, y: Any, sample_weight: Any) -> float:
        if self.family != "multinomial":
            return super()._explained(mean, y, sample_weight)
        given, weight = scored(y, sample_weight, len(mean))
        _, places = np.unique(given, return_inverse=True)
        parts = np.bincount(places.ravel(), weight) / weight.sum()
        chosen = (mean * (given[:, None] == self.classes_)).sum(axis=1)
        with np.errstate(all="ignore"):
            used = weight > 0
            rest = float(-2 * (weight * np.log(chosen))[used].sum())
            total = float(-2 * (weight * np.log(parts[places.ravel()]))[used].sum())
        return explained(rest, total)

    def _predict(self, x: Array) -> Array:
        if self.family != "multinomial":
            return super()._predict(x)
        return families.softmax(x @ self.coef_.T + self.intercept_)

    def _family(self) -> Family:
        return families.find("binomial" if self.family == "multinomial" else self.family)

    def _is_positive(self) -> bool:
        return self.family == "poisson"

    def _check(self) -> None:
        check_choice("family", self.family, FAMILIES)
        check_number("l1_ratio", self.l1_ratio, 0, 1)
        check_iterations(self)
        check_flag("standardize", self.standardize)

    def _settings(self, rows: Rows) -> net_path.Settings:
        """Return the settings of the path, and set the classes. Collective."""
        if self.family == "multinomial":
            self.classes_ = net_pass.classes_of(rows, 'the family "multinomial"')
        return net_path.Settings(
            self._family(),
            self.l1_ratio,
            self.fit_intercept,
            self.max_iter,
            self.tol,
            self.standardize,
            self._factors(rows.width),
            getattr(self, "classes_", None),
        )

    def _factors(self, width: int) -> Array | None:
        if self.penalty_factor is None:
            return None
        factors = doubles(self.penalty_factor, "penalty_factor")
        valid = factors.shape == (width,) and (factors >= 0).all()
        if not valid or not factors.any() or np.isinf(factors).all():
            raise InvalidError(
                f"penalty_factor must be {width} numbers from 0 on, one for each feature, and not"
                " all 0 or all infinite"
            )
        return factors


class ElasticNet(NetModel):
    """A generalized linear model with the penalty of the elastic net.

    Minimizes half of the mean deviance (for ``"gaussian"``, half of the mean squared error) plus
    ``alpha * l1_ratio`` times the sum of absolute coefficients plus ``alpha * (1 - l1_ratio) / 2``
    times the sum of squared coefficients, as in scikit-learn.

    Parameters
    ----------
    alpha : float
        The penalty, 0 or more.
    comm : Communicator, optional
        As for `LinearRegression`.
    l1_ratio : float
        The part of the absolute coefficients, from 0 to 1.
    family : {"gaussian", "binomial", "poisson", "multinomial"}
        The distribution of the response. For ``"binomial"`` the response is from 0 to 1, and
        predictions are probabilities. For ``"multinomial"`` it is whole numbers, booleans or
        strings, which are classes, and predictions are the probabilities of each class.
    fit_intercept : bool
        Whether the model has an intercept, which has no penalty.
    max_iter : int
        The largest number of Newton's steps. ``"gaussian"`` needs one pass over the rows.
    tol : float
        The fit ends when no condition of the minimum is violated by more than this part of the
        largest gradient.
    standardize : bool
        Whether the penalty is of the features divided by their standard deviations, as by default
        in R. Coefficients are those of the features as they are.
    penalty_factor : sequence of float, optional
        Factors of ``alpha``, one for each feature, from 0 on, of which 0 is no penalty and infinity
        leaves the feature out. They are scaled to have the mean 1, as in R.

    Attributes
    ----------
    coef_, intercept_ : array and float
        The coefficients, on the scale of the link. For ``"multinomial"`` they have a row and a
        number for each class.
    classes_ : array
        The classes of ``"multinomial"``, sorted.
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
        standardize: bool = False,
        penalty_factor: Sequence[float] | None = None,
    ) -> None:
        self.alpha = alpha
        self.comm = comm
        self.l1_ratio = l1_ratio
        self.family = family
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.standardize = standardize
        self.penalty_factor = penalty_factor

    def _check(self) -> None:
        super()._check()
        check_number("alpha", self.alpha, 0)

    def _fit(self, rows: Rows) -> None:
        self._take(net_path.fit_one(rows, self._settings(rows), self.alpha), 0)


class Lasso(ElasticNet):
    """A model with a penalty of the absolute coefficients: see `ElasticNet`.

    Parameters
    ----------
    alpha, comm, family, fit_intercept, max_iter, tol, standardize, penalty_factor
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
        standardize: bool = False,
        penalty_factor: Sequence[float] | None = None,
    ) -> None:
        self.comm = comm
        self.alpha = alpha
        self.family = family
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.standardize = standardize
        self.penalty_factor = penalty_factor


class ElasticNetCV(NetModel):
    """An elastic net whose penalty is chosen by cross-validation.

    Row number r of all ranks is in fold ``r % cv``, so all folds have equal sizes. For
    ``"gaussian"`` one pass over the rows has all folds and penalties. Batches must come in the same
    order in each pass, so shuffled batches are refused.

    Parameters
    ----------
    comm, l1_ratio, family, fit_intercept, max_iter, tol, standardize, penalty_factor
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
        The mean squared error of the rows of each fold, or the mean deviance of other families.
    coef_, intercept_ : array and float
        The coefficients of all rows at ``alpha_``.
    coef_path_, intercept_path_ : arrays
        The coefficients of all rows at each penalty.
    classes_, n_iter_, converged_ : array, int and bool
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
        standardize: bool = False,
        penalty_factor: Sequence[float] | None = None,
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
        self.standardize = standardize
        self.penalty_factor = penalty_factor

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
        settings = self._settings(rows)
        path = net_path.fit(rows, settings, self._given(), self.n_alphas, self.eps)
        self.alphas_ = path.alphas
        errors, weights = net_path.validate(rows, settings, path.alphas, self.cv)
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
        self._take(path, best)

    def _given(self) -> Array | None:
        if self.alphas is None:
            return None
        given = doubles(self.alphas, "alphas")
        if given.ndim != 1 or len(given) == 0 or not (np.isfinite(given) & (given >= 0)).all():
            raise InvalidError("alphas must be one or more numbers from 0 on")
        return np.sort(given)[::-1]
