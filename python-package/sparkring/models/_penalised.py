# SPDX-License-Identifier: Apache-2.0
"""Regressions with a ridge penalty and scikit-learn's names, by the path of an elastic net."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import InvalidError
from sparkring.models import _family as families
from sparkring.models import _net_pass as net_pass
from sparkring.models import _net_path as net_path
from sparkring.models._checks import check_choice, check_iterations, check_number
from sparkring.models._linear import LinearModel
from sparkring.models._mean_model import MeanModel, converge
from sparkring.models._table import scored

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._communicator import Communicator
    from sparkring.models._family import Family
    from sparkring.models._rows import Rows
    from sparkring.models._table import Array


class PoissonRegressor(MeanModel):
    """Poisson regression with a ridge penalty, as in scikit-learn.

    Minimizes half of the mean deviance plus ``alpha / 2`` times the sum of squared coefficients.

    Parameters
    ----------
    comm : Communicator, optional
        As for `LinearRegression`.
    alpha : float
        The penalty, 0 or more.
    fit_intercept : bool
        Whether the model has an intercept, which has no penalty.
    max_iter : int
        The largest number of iterations.
    tol : float
        The fit ends when no condition of the minimum is violated by more than this part of the
        largest gradient.

    Attributes
    ----------
    coef_, intercept_ : array and float
        The coefficients, on the scale of the logarithm.
    n_iter_ : int
        The number of iterations.
    converged_ : bool
        Whether the fit converged.
    """

    def __init__(
        self,
        *,
        comm: Communicator | None = None,
        alpha: float = 1.0,
        fit_intercept: bool = True,
        max_iter: int = 100,
        tol: float = 1e-8,
    ) -> None:
        self.comm = comm
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol

    def _family(self) -> Family:
        return families.find("poisson")

    def _is_positive(self) -> bool:
        return True

    def _check(self) -> None:
        check_number("alpha", self.alpha, 0)
        check_iterations(self)

    def _fit(self, rows: Rows) -> None:
        settings = net_path.Settings(
            self._family(), 0.0, self.fit_intercept, self.max_iter, self.tol
        )
        self._take(net_path.fit_one(rows, settings, self.alpha), 0)


class LogisticRegression(LinearModel):
    """Logistic regression for two or more classes, as in scikit-learn.

    Minimizes ``C`` times the weighted sum of the logistic loss plus half of the sum of squared
    coefficients. Three or more classes have coefficients each, whose curvature is a matrix of
    ``classes * features`` rows and columns on every rank.

    Parameters
    ----------
    penalty : {"l2", None}
        The penalty; None for none.
    comm : Communicator, optional
        As for `LinearRegression`.
    C : float
        The weight of the loss, above 0.
    fit_intercept : bool
        Whether the model has an intercept, which has no penalty.
    max_iter : int
        The largest number of iterations.
    tol : float
        The fit ends when no condition of the minimum is violated by more than this part of the
        largest gradient.

    Attributes
    ----------
    classes_ : array
        The classes, sorted: whole numbers, booleans or strings.
    coef_ : array of shape (1, features) or (classes, features)
        The coefficients of the second of two classes, or of each class.
    intercept_ : array of shape (1,) or (classes,)
        The intercept of the second of two classes, or of each class; or 0.
    n_iter_ : int
        The number of iterations.
    converged_ : bool
        Whether the fit converged.
    """

    _kind = "classifier"
    classes_: NDArray[Any]
    intercept_: Any

    def __init__(
        self,
        penalty: str | None = "l2",
        *,
        comm: Communicator | None = None,
        C: float = 1.0,
        fit_intercept: bool = True,
        max_iter: int = 100,
        tol: float = 1e-8,
    ) -> None:
        self.penalty = penalty
        self.comm = comm
        self.C = C
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol

    def _check(self) -> None:
        check_choice("penalty", self.penalty, ("l2", None))
        if check_number("C", self.C, 0) == 0:
            raise InvalidError("C is 0: it must be a positive number")
        check_iterations(self)

    def _fit(self, rows: Rows) -> None:
        self.classes_ = classes = net_pass.classes_of(rows, "LogisticRegression")
        family = families.find("binomial")
        if len(classes) == 2:
            coded = rows.coded(classes[1])
            problem = net_pass.prepare(coded, family, self.fit_intercept)
        else:
            problem = net_pass.prepare_classes(rows, classes, self.fit_intercept)
        settings = net_path.Settings(family, 0.0, self.fit_intercept, self.max_iter, self.tol)
        alpha = 0.0 if self.penalty is None else 1 / (self.C * problem.weight)
        fit = net_path.newton(problem, settings, np.array([alpha]))
        self.coef_ = fit.coefficients[0].reshape(-1, rows.width)
        self.intercept_ = fit.intercepts[0].reshape(-1)
        if alpha == 0 and len(classes) > 2:  # moving all classes alike changes nothing
            self.coef_ = self.coef_ - self.coef_.mean(axis=0)
        converge(self, int(fit.passes[0]), bool(fit.converged[0]))

    def predict(self, X: Any) -> Any:
        """Return the class of each row. Not collective.

        For a DataFrame of Spark the result is a lazy DataFrame with a further column
        ``prediction``, which is null for rows with missing values.

        Parameters
        ----------
        X : array, table, or pyspark.sql.DataFrame
            Rows with the features of the fit.

        Returns
        -------
        array of shape (rows,), or pyspark.sql.DataFrame
            Elements of ``classes_``.

        Raises
        ------
        InvalidError
            For missing values in rows that are not of Spark.
        """
        return super().predict(X)

    def decision_function(self, X: Any) -> Array:
        """Return the logit of the second of two classes, or one for each class. Not collective.

        Parameters
        ----------
        X : array or table of shape (rows, features)
            Rows with the features of the fit.

        Returns
        -------
        array of shape (rows,) or (rows, classes)

        Raises
        ------
        InvalidError
            Before a fit, for other features, and for missing values.
        """
        return self._logit(self._matrix(X))

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class, in the order of ``classes_``. Not collective.

        For a DataFrame of Spark the result is a lazy DataFrame with a further column
        ``probability``, an array of doubles.

        Parameters
        ----------
        X : array, table, or pyspark.sql.DataFrame
            Rows with the features of the fit.

        Returns
        -------
        array of shape (rows, classes), or pyspark.sql.DataFrame

        Raises
        ------
        InvalidError
            Before a fit, for other features, and for missing values in rows that are not of Spark.
        """
        return self._apply(X, "_probability", "probability")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the part of the rows whose class is predicted. Not collective.

        Parameters
        ----------
        X : array or table of shape (rows, features)
            Rows with the features of the fit.
        y : array of shape (rows,)
            The classes.
        sample_weight : array of shape (rows,), optional
            The weights of the rows; 1 by default.

        Returns
        -------
        float
            From 0 to 1.

        Raises
        ------
        InvalidError
            Before a fit, for other features, for missing values, and without a row with a weight.
        """
        predicted = self.predict(X)
        given, weight = scored(y, sample_weight, len(predicted))
        return float(np.average(predicted == given, weights=weight))

    def _logit(self, x: Array) -> Array:
        found: Array = x @ self.coef_.T + self.intercept_
        return found[:, 0] if len(self.classes_) == 2 else found

    def _probability(self, x: Array) -> Array:
        logit = self._logit(x)
        if logit.ndim == 2:
            return families.softmax(logit)
        second = families.logistic(logit)
        return np.stack([1 - second, second], axis=1)

    def _predict(self, x: Array) -> Any:
        """Return the classes; objects, of which some are None, where values are missing."""
        logit = self._logit(x)
        places = logit.argmax(axis=1) if logit.ndim == 2 else (logit > 0).astype(int)
        found = self.classes_[places]
        missing = np.isnan(logit).reshape(len(x), -1).any(axis=1)
        if missing.any():
            found = found.astype(object)
            found[missing] = None
        return found
