# SPDX-License-Identifier: Apache-2.0
"""Generalized linear models, with the tests of R's ``summary()``."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkring.models import _family as families
from sparkring.models import _irls as irls
from sparkring.models._checks import check_iterations
from sparkring.models._distributions import normal_tail, student_tails
from sparkring.models._linear import LinearModel
from sparkring.models._mean_model import MeanModel, converge
from sparkring.models._summary import Summary, glm_summary
from sparkring.models._table import offset_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from sparkring._communicator import Communicator
    from sparkring.models._family import Family
    from sparkring.models._irls import Fit, Problem, State
    from sparkring.models._rows import Block, Rows
    from sparkring.models._table import Array


class GeneralizedLinearModel(MeanModel):
    """A generalized linear model of the rows of all ranks, with tests.

    The fit has the steps of ``glm()`` in R. The weighted rows of a step are decomposed by TSQR, so
    nothing is squared. Columns that depend on columns before them have the coefficient 0, and NaN
    as standard error.

    Parameters
    ----------
    comm : Communicator, optional
        As for `LinearRegression`.
    family : {"gaussian", "binomial", "poisson", "gamma", "inverse_gaussian"}
        The distribution of the response. For ``"binomial"`` the response is from 0 to 1.
    link : str, optional
        The link: ``"identity"``, ``"log"``, ``"logit"``, ``"probit"``, ``"cloglog"``,
        ``"inverse"``, ``"inverse_squared"`` or ``"sqrt"``. By default the canonical link of the
        family.
    fit_intercept : bool
        Whether the model has an intercept.
    max_iter : int
        The largest number of iterations.
    tol : float
        The fit ends when the deviance changes by less than this part.

    Attributes
    ----------
    coef_, intercept_ : array and float
        The coefficients, on the scale of the link.
    covariance_ : array
        The covariance of the coefficients, the intercept first.
    standard_errors_, statistics_, p_values_ : array
        Of the coefficients, the intercept first: with z tests if the dispersion of the family is
        known, else with t tests, whose p-values need SciPy.
    aliased_ : array of bool
        Whether a column, the intercept first, depends on columns before it.
    dispersion_ : float
        The dispersion: 1, or Pearson's statistic divided by the degrees of freedom.
    deviance_, null_deviance_, aic_ : float
        As in R.
    df_residual_, df_null_, rank_, n_iter_, n_obs_ : int
        Degrees of freedom, rank, iterations, and rows with a weight.
    converged_ : bool
        Whether the fit converged.

    References
    ----------
    P. McCullagh and J. Nelder (1989). Generalized Linear Models. Chapman and Hall.

    Examples
    --------
    >>> model = GeneralizedLinearModel(comm=comm, family="poisson").fit(x, y, offset=log_exposure)
    >>> print(model.summary())
    """

    def __init__(
        self,
        *,
        comm: Communicator | None = None,
        family: str = "gaussian",
        link: str | None = None,
        fit_intercept: bool = True,
        max_iter: int = 25,
        tol: float = 1e-8,
    ) -> None:
        self.comm = comm
        self.family = family
        self.link = link
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        offset: Any = None,
        features: Sequence[str] | None = None,
        **options: Any,
    ) -> Self:
        """Fit. Collective.

        Parameters
        ----------
        X, y, sample_weight, features : as for `LinearRegression.fit`
            A mapping of batches may have ``"offset"``, too.
        offset : array or str, optional
            A known part of the linear predictor of each row; for a table also the name of its
            column.
        **options : object
            For a DataFrame of Spark: arguments of `sparkring.spark.run`, such as ``num_proc``.

        Returns
        -------
        estimator
            This estimator.

        Raises
        ------
        InvalidError
            On every rank, for rows or parameters that are invalid or differ on one rank.
        """
        roles = {"y": y, "sample_weight": sample_weight, "offset": offset}
        return self._fit_rows(X, roles, features, options)

    def predict(self, X: Any, offset: Any = None) -> Any:
        """Predict means. Not collective.

        Parameters
        ----------
        X : array, table, or pyspark.sql.DataFrame
            Rows with the features of the fit.
        offset : array, optional
            The offset of each row; by default 0. Not for a DataFrame of Spark.

        Returns
        -------
        array of shape (rows,), or pyspark.sql.DataFrame
            For a DataFrame of Spark a lazy DataFrame with a further column ``prediction``.
        """
        if offset is None:
            return super().predict(X)
        x = self._matrix(X)
        eta = LinearModel._predict(self, x) + offset_in(offset, len(x))
        return self._family().link.mean(eta)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """Return the explained part of the deviance of these rows. Not collective.

        The whole is the deviance of the mean of ``y``.

        Parameters
        ----------
        X : array or table of shape (rows, features)
            Rows with the features of the fit.
        y : array of shape (rows,)
            The responses.
        sample_weight : array of shape (rows,), optional
            The weights of the rows; 1 by default.
        offset : array of shape (rows,), optional
            As for `predict`.

        Returns
        -------
        float
            1 at most; negative for predictions that are worse than the mean of ``y``.

        Raises
        ------
        InvalidError
            Before a fit, for other features, for missing values, and without a row with a weight.
        """
        return self._explained(np.asarray(self.predict(X, offset)), y, sample_weight)

    @property
    def p_values_(self) -> Array:
        """The p-values of the tests."""
        if self._family().known:
            return 2 * normal_tail(np.abs(self.statistics_))
        return student_tails(self.statistics_, self.df_residual_)

    def summary(self) -> Summary:
        """Return the table of tests, which prints as the summary of a ``glm()`` in R.

        Returns
        -------
        Summary
        """
        return glm_summary(self)

    def _family(self) -> Family:
        return families.find(self.family, self.link)

    def _is_positive(self) -> bool:
        return self.family in ("poisson", "gamma", "inverse_gaussian")

    def _check(self) -> None:
        self._family()
        check_iterations(self)

    def _fit(self, rows: Rows) -> None:
        family, intercept = self._family(), self.fit_intercept
        problem = irls.Problem(rows, family, intercept)
        rows.count()
        tolerance = max(1e-11, min(1e-7, self.tol / 1000))
        fit = irls.iterate(problem, tolerance, self.max_iter, self.tol)
        self.intercept_ = float(fit.beta[0]) if intercept else 0.0
        self.coef_ = np.array(fit.beta[int(intercept) :])
        converge(self, fit.iterations, fit.converged)
        totals = totals_of(problem, fit)
        kept = fit.solved["kept"] > 0
        self.aliased_, self.rank_ = ~kept, int(kept.sum())
        self.n_obs_ = int(totals.rows)
        self.df_residual_ = self.n_obs_ - self.rank_
        self.df_null_ = self.n_obs_ - int(intercept)
        self.deviance_ = fit.deviance
        self.null_deviance_ = null_deviance(problem, totals, self.max_iter, self.tol)
        self.aic_ = aic(problem, fit, totals) + 2 * self.rank_
        self._test(fit.solved["unscaled"], kept, totals.pearson, family.known)
        if totals.extreme > 0:
            what = "rates of 0" if family.name == "poisson" else "probabilities of 0 or 1"
            warnings.warn(f"there are fitted {what}, up to rounding", RuntimeWarning, stacklevel=2)

    def _test(self, unscaled: Array, kept: Any, pearson: float, known: bool) -> None:
        freedom = self.df_residual_
        self.dispersion_ = 1.0 if known else pearson / freedom if freedom > 0 else float("nan")
        self.covariance_ = unscaled * self.dispersion_
        self.covariance_[~kept] = np.nan
        self.covariance_[:, ~kept] = np.nan
        self.standard_errors_ = np.sqrt(np.diag(self.covariance_))
        estimates = np.concatenate([[self.intercept_] * int(self.fit_intercept), self.coef_])
        with np.errstate(all="ignore"):
            self.statistics_ = estimates / self.standard_errors_


class Totals(NamedTuple):
    """Sums over the rows with a weight, of all ranks."""

    pearson: float
    rows: float
    weight: float
    weighted: float
    extreme: float


def totals_of(problem: Problem, fit: Fit) -> Totals:
    """Make a pass after the fit. Pearson's statistic has the weights of the last step, as in R."""
    family = problem.family
    pearson = irls.ExactSum()

    def of_block(block: Block) -> list[float]:
        before, after = problem.state(block, fit.previous), problem.state(block, fit.beta)
        residuals = (after.y - after.mu) / family.link.slope(after.eta)
        pearson.add(problem.working_weight(before) * residuals**2)
        return [
            len(after.y),
            after.weight.sum(),
            (after.weight * after.y).sum(),
            extreme(family.name, after),
        ]

    sums = problem.rows.total(4, of_block)
    return Totals(float(problem.rows.comm.allreduce(np.array([pearson.value]))[0]), *sums)


def extreme(name: str, state: State) -> int:
    """Count fitted means at the boundary, up to rounding."""
    least = 10 * families.EPS
    low = int((state.mu < least).sum())
    if name == "binomial":
        return low + int((state.mu > 1 - least).sum())
    return low if name == "poisson" else 0


def null_deviance(problem: Problem, totals: Totals, max_iter: int, tol: float) -> float:
    """Return the deviance of the model without features. Collective."""
    if problem.intercept and "offset" in problem.rows.roles:
        alone = irls.Problem(problem.rows, problem.family, True, features=0)
        return irls.iterate(alone, 1e-11, max_iter, tol).deviance
    mean = totals.weighted / totals.weight
    deviance = irls.ExactSum()

    def take(block: Block) -> None:
        state = problem.state(block, None)
        if problem.intercept:
            mu = np.full(len(state.y), mean)
        else:
            mu = problem.family.link.mean(state.offset)
        with np.errstate(all="ignore"):  # a constant response may be a mean at the boundary
            deviance.add(problem.family.deviances(state.y, mu, state.weight))

    problem.rows.each(take)
    return float(problem.rows.comm.allreduce(np.array([deviance.value]))[0])


def aic(problem: Problem, fit: Fit, totals: Totals) -> float:
    """Return the AIC without the penalty of the coefficients. Collective."""
    name = problem.family.name
    count = totals.rows if name == "gaussian" else totals.weight
    scale = fit.deviance / count

    def of_block(block: Block) -> float:
        state = problem.state(block, fit.beta)
        with np.errstate(all="ignore"):
            return families.log_density(problem.family, state.y, state.mu, state.weight, scale)

    found = float(problem.rows.total(1, of_block)[0])
    return found + (0 if problem.family.known else 2)
