# SPDX-License-Identifier: Apache-2.0
"""Proportional hazards: the estimator, its covariance and its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring import _numerics as numerics
from sparkring._core import InvalidError
from sparkring.models import _cox_records as cox_records
from sparkring.models import _cox_times as cox_times
from sparkring.models._base import Regressor
from sparkring.models._checks import check_choice, check_flag, check_number, check_whole
from sparkring.models._cox_hazard import cumulative_hazard, hazards_at
from sparkring.models._cox_newton import iterate, warn_of_infinite
from sparkring.models._cox_pass import influence, look
from sparkring.models._cox_summary import cox_summary
from sparkring.models._distributions import normal_tail
from sparkring.models._doubles import doubles
from sparkring.models._mean_model import converge
from sparkring.models._table import offset_in, scored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from sparkring._communicator import Communicator
    from sparkring.models._cox_records import Records
    from sparkring.models._rows import Rows
    from sparkring.models._summary import Summary
    from sparkring.models._table import Array

SINGULAR = 1e-9  # columns of a covariance that depend on others by this part, as of few clusters


class CoxPH(Regressor):
    """Cox's proportional hazards on the rows of all ranks.

    The ranks sort the rows by stratum and time once. Sums over the rows at risk are then cumulative
    sums of each rank, plus the sums of the ranks with later times.

    Parameters
    ----------
    comm : Communicator, optional
        As for `LinearRegression`.
    ties : {"efron", "breslow"}
        The treatment of events at the same time.
    robust : bool, optional
        Whether the covariance is the robust one; by default if there are clusters, or weights that
        are no whole numbers.
    max_iter : int
        The largest number of iterations.
    tol : float
        The fit ends when the log likelihood changes by less than this part.
    timefix : bool
        Whether times that differ by rounding alone count as equal, as in R's survival.
    baseline : bool
        Whether the model has the baseline hazard, which `predict_survival` needs. It has a row for
        each time of an event, of all ranks.

    Attributes
    ----------
    coef_ : array
        The coefficients; 0 for columns that depend on columns before them or have no information.
    covariance_, naive_covariance_ : array
        The covariance of the coefficients, and the one that is not robust.
    standard_errors_, statistics_, p_values_ : array
        Tests of the coefficients.
    log_likelihood_, null_log_likelihood_ : float
        At the coefficients, and at 0.
    score_test_, wald_test_, likelihood_ratio_test_ : float
        Tests of all coefficients, which are chi squared with ``rank_`` degrees of freedom.
    means_ : array
        The means of the features, around which predictions are; 0 for columns of -1, 0 and 1.
    baseline_ : array of shape (times, 3)
        The number of the stratum, the time of an event, and the cumulative hazard at the means.
    strata_ : array or list of list
        The strata, sorted, in the order of their numbers; of several columns a list for each.
    n_obs_, n_events_, n_iter_, rank_ : int
        Rows with a weight, events, iterations, and columns that are independent.
    converged_ : bool
        Whether the fit converged.

    References
    ----------
    D. Cox (1972). Regression models and life tables. Journal of the Royal Statistical Society B 34.

    B. Efron (1977). The efficiency of Cox's likelihood function for censored data. Journal of the
    American Statistical Association 72.

    D. Lin and L. Wei (1989). The robust inference for the Cox proportional hazards model. Journal
    of the American Statistical Association 84.

    Examples
    --------
    >>> model = CoxPH(comm=comm).fit(x, numpy.column_stack([time, status]), strata=center)
    >>> CoxPH().fit(frame, ["time", "status"], strata="center")  # a DataFrame of Spark or pandas
    """

    def __init__(
        self,
        *,
        comm: Communicator | None = None,
        ties: str = "efron",
        robust: bool | None = None,
        max_iter: int = 20,
        tol: float = 1e-9,
        timefix: bool = True,
        baseline: bool = True,
    ) -> None:
        self.comm = comm
        self.ties = ties
        self.robust = robust
        self.max_iter = max_iter
        self.tol = tol
        self.timefix = timefix
        self.baseline = baseline

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        strata: Any = None,
        cluster: Any = None,
        offset: Any = None,
        features: Sequence[str] | None = None,
        **options: Any,
    ) -> Self:
        """Fit. Collective.

        Parameters
        ----------
        X, sample_weight, features : as for `LinearRegression.fit`
            Batches are not possible: the ranks sort their rows in memory.
        y : array of shape (rows, 2), (rows, 3) or (rows,), or list of str
            The time and the status, 1 for an event; or the start and the stop of an interval, and
            the status at its stop; or times alone, which all are events. For a table also the names
            of these columns.
        strata, cluster : array or str, optional
            The stratum of each row, with a hazard of its own; and the cluster of rows that depend
            on each other. Numbers or strings; for a table also the name of the column. Strata may
            have several columns, of which each combination is a stratum.
        offset : array or str, optional
            A known part of the logarithm of the hazard of each row; for a table also the name of
            its column.
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
        roles = {"y": y, "sample_weight": sample_weight, "strata": strata, "cluster": cluster}
        return self._fit_rows(X, {**roles, "offset": offset}, features, options)

    def predict(self, X: Any, offset: Any = None) -> Any:
        """Predict logarithms of hazards, relative to the means of the features. Not collective.

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

        Raises
        ------
        InvalidError
            For missing values in rows that are not of Spark.
        """
        if offset is None:
            return super().predict(X)
        x = self._matrix(X)
        return self._predict(x) + offset_in(offset, len(x))

    def summary(self) -> Summary:
        """Return the table of tests, which prints as the summary of a ``coxph()`` in R.

        Returns
        -------
        Summary
        """
        return cox_summary(self)

    def predict_survival(
        self, X: Any, times: Any, strata: Any = None, *, offset: Any = None
    ) -> Array:
        """Return the probability that rows have no event up to some times. Not collective.

        Parameters
        ----------
        X : array or table
            Rows with the features of the fit.
        times : sequence of float
            The times.
        strata : array, optional
            The stratum of each row, for a fit with strata; with as many columns.
        offset : array, optional
            As for `predict`.

        Returns
        -------
        array of shape (rows, times)
            The probabilities.

        Raises
        ------
        InvalidError
            For a stratum that the fit did not have, and a model without a baseline hazard.
        """
        risk = np.exp(np.asarray(self.predict(X, offset)))
        hazards = hazards_at(self, doubles(times, "times"), strata, len(risk))
        found: Array = np.exp(-risk[:, None] * hazards)
        return found

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """Return the concordance of predictions and right-censored times. Not collective.

        It is the part of the pairs of rows, of which one had its event first, whose prediction has
        the same order; equal predictions count half. A pair has the product of its weights.

        Parameters
        ----------
        X : array or table of shape (rows, features)
            Rows with the features of the fit.
        y : array of shape (rows, 2), or (rows,)
            The times and the status, where 1 is an event. Without a status every time is that of an
            event.
        sample_weight : array of shape (rows,), optional
            The weights of the rows; 1 by default.
        offset : array of shape (rows,), optional
            As for `predict`.

        Returns
        -------
        float
            From 0 to 1; NaN without a pair.

        Raises
        ------
        InvalidError
            Before a fit, for other features, for missing values, and without a row with a weight.
        """
        risk = np.asarray(self.predict(X, offset))
        given, weight = scored(y, sample_weight, len(risk))
        if given.ndim == 1:
            given = cox_records.with_events(given)
        if given.ndim != 2 or given.shape[1] != 2:
            raise InvalidError(
                f"y has shape {given.shape}: the concordance is for columns of time and status"
            )
        time, status = doubles(given, "y").T
        if self.timefix:
            known, places = np.unique(time, return_inverse=True)
            time = cox_times.chains(known, float(np.abs(known).mean()))[places.ravel()]
        pairs = wins = 0.0
        for row in np.flatnonzero(status > 0):
            later = (time > time[row]) | ((time == time[row]) & (status == 0))
            pairs += weight[row] * weight[later].sum()
            order = (risk[later] < risk[row]) + (risk[later] == risk[row]) / 2
            wins += weight[row] * (weight[later] @ order)
        return wins / pairs if pairs else float("nan")

    def _predict(self, x: Array) -> Array:
        """Return the logarithm of the relative hazard."""
        found: Array = (x - self.means_) @ self.coef_
        return found

    def _check(self) -> None:
        check_choice("ties", self.ties, ("efron", "breslow"))
        if self.robust is not None:
            check_flag("robust", self.robust)
        check_whole("max_iter", self.max_iter, 0)
        check_number("tol", self.tol, 0)
        check_flag("timefix", self.timefix)
        check_flag("baseline", self.baseline)

    def _fit(self, rows: Rows) -> None:
        columns, strata = cox_records.columns_of(rows)
        if self.timefix:
            columns = cox_times.fix(rows.comm, columns)
        records = cox_records.make(rows, columns)
        efron = self.ties == "efron"
        null = look(records, np.zeros(rows.width), efron)
        fit = iterate(records, null, efron, self.max_iter, self.tol)
        kept, naive = fit.step.kept, fit.step.variance
        covariance = naive
        if is_robust(records, rows) if self.robust is None else self.robust:
            covariance = influence(records, fit.beta, efron, naive)
        self.score_test_ = fit.test
        self.wald_test_ = numerics.positive_wald(covariance, fit.beta, SINGULAR)
        units = np.outer(records.scale, records.scale)
        self.coef_ = fit.beta / records.scale
        self.naive_covariance_, self.covariance_ = naive / units, covariance / units
        self.standard_errors_ = np.where(kept, np.sqrt(np.diag(self.covariance_)), np.nan)
        with np.errstate(all="ignore"):
            self.statistics_ = self.coef_ / self.standard_errors_
        self.p_values_ = 2 * normal_tail(np.abs(self.statistics_))
        self.log_likelihood_, self.null_log_likelihood_ = fit.now.loglik, null.loglik
        self.likelihood_ratio_test_ = 2 * (fit.now.loglik - null.loglik)
        if self.baseline:
            self.baseline_ = cumulative_hazard(records, fit.now)
            self.strata_ = strata if strata and isinstance(strata[0], list) else np.array(strata)
        self.means_, self.n_obs_, self.n_events_ = records.means, records.rows, records.events
        self.rank_ = int(kept.sum())
        converge(self, fit.iterations, fit.converged)
        if fit.converged and self.max_iter > 1:
            warn_of_infinite(fit, rows, self.tol)


def is_robust(records: Records, rows: Rows) -> bool:
    """Return whether the covariance is robust by default, as in survival. Collective."""
    broken = float((records.field("weight") % 1 != 0).any())
    return "cluster" in rows.roles or bool(records.comm.allreduce(np.array([broken]))[0] > 0)
