# SPDX-License-Identifier: Apache-2.0
"""Least squares, from the triangle of all rows (see `sparkring.models._tsqr`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring.models import _moments as moments
from sparkring.models._base import Regressor
from sparkring.models._checks import check_flag, check_number
from sparkring.models._tsqr import lead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from sparkring._core import Communicator
    from sparkring.models._rows import Rows
    from sparkring.models._table import Array


DEPENDENT = 1e-12  # of the largest singular value


class LinearModel(Regressor):
    """Predictions that are linear in the features."""

    coef_: Array
    intercept_: float

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        features: Sequence[str] | None = None,
        **options: Any,
    ) -> Self:
        """Fit. Collective.

        Parameters
        ----------
        X : array, table, iterable of batches, or pyspark.sql.DataFrame
            The rows of this rank, which may be none: a NumPy array, a table of pandas or Arrow, or
            an iterable of batches, which each pass takes from the start, with the same rows. A
            batch is ``(x, y)``, ``(x, y, sample_weight)`` or a mapping with ``"x"``, ``"y"`` and
            ``"sample_weight"``, as `sparkring.data.parquet` makes it. All batches have the same
            parts. From a DataFrame of Spark each rank gets a partition, and holds it in memory.
        y : array or str
            The response; for a table also the name of its column.
        sample_weight : array or str, optional
            A weight from 0 on for each row.
        features : list of str, optional
            The columns of a table to use. By default all columns but those of ``y`` and
            ``sample_weight``.
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
        return self._fit_rows(X, {"y": y, "sample_weight": sample_weight}, features, options)

    def _predict(self, x: Array) -> Array:
        found: Array = x @ self.coef_ + self.intercept_
        return found


class LinearRegression(LinearModel):
    """Ordinary least squares on the rows of all ranks.

    The rows are decomposed by TSQR, which squares nothing: with a condition of 1e8 fitted values
    keep ten digits. Where columns depend on each other, the coefficients are the shortest ones.

    Parameters
    ----------
    comm : Communicator, optional
        The ranks; by default the open communicator of this process or, without one, that of
        `sparkring.init` for the duration of the fit.
    fit_intercept : bool
        Whether the model has an intercept.

    Attributes
    ----------
    coef_ : array of shape (features,)
        The coefficients.
    intercept_ : float
        The intercept, or 0.
    rank_ : int
        The rank of the features, around their means if there is an intercept.
    singular_ : array
        Their singular values.

    References
    ----------
    J. Demmel, L. Grigori, M. Hoemmen and J. Langou (2012). Communication-optimal parallel and
    sequential QR and LU factorizations. SIAM Journal on Scientific Computing 34(1).

    Examples
    --------
    >>> model = LinearRegression(comm=comm).fit(x, y)  # the rows of this rank
    >>> model.predict(x)
    >>> LinearRegression().fit(frame, "price", num_proc=4).predict(frame)  # DataFrames of Spark
    """

    def __init__(self, *, comm: Communicator | None = None, fit_intercept: bool = True) -> None:
        self.comm = comm
        self.fit_intercept = fit_intercept

    def _check(self) -> None:
        check_flag("fit_intercept", self.fit_intercept)

    def _fit(self, rows: Rows) -> None:
        solve_rows(self, rows, 0.0, self.fit_intercept)


class Ridge(LinearModel):
    """Least squares with a penalty of ``alpha`` times the sum of squares of the coefficients.

    Parameters
    ----------
    alpha : float
        The penalty, 0 or more. The loss is the weighted sum of squares, as in scikit-learn.
    comm : Communicator, optional
        As for `LinearRegression`.
    fit_intercept : bool
        Whether the model has an intercept, which has no penalty.

    Attributes
    ----------
    coef_, intercept_, rank_, singular_
        As for `LinearRegression`.
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        comm: Communicator | None = None,
        fit_intercept: bool = True,
    ) -> None:
        self.alpha = alpha
        self.comm = comm
        self.fit_intercept = fit_intercept

    def _check(self) -> None:
        check_number("alpha", self.alpha, 0)
        check_flag("fit_intercept", self.fit_intercept)

    def _fit(self, rows: Rows) -> None:
        solve_rows(self, rows, float(self.alpha), self.fit_intercept)


def solve_rows(model: Any, rows: Rows, alpha: float, intercept: bool) -> None:
    """Set the attributes of a model."""
    found = moments.centered(rows, response=True, shifted=intercept)

    def solve() -> dict[str, Any]:
        triangle = found.triangle
        assert triangle is not None
        lengths = np.linalg.norm(triangle[:, 1:-1], axis=0)
        solved = solve_triangle(triangle[int(intercept) :, 1:], lengths, alpha)
        means = found.means()
        level = means[-1] - means[:-1] @ solved["coefficients"] if intercept else 0.0
        return {**solved, "intercept": level}

    solved = lead(rows.comm, solve)
    model.coef_ = solved["coefficients"]
    model.intercept_ = float(solved["intercept"])
    model.singular_ = solved["singular"]
    model.rank_ = int(solved["rank"])


def solve_triangle(triangle: Array, lengths: Array, alpha: float) -> dict[str, Any]:
    """Solve from R of the features and, in the last column, the response.

    ``lengths`` are those of the features before the column of ones was taken out of them.
    """
    features, response = triangle[:, :-1], triangle[:, -1]
    coefficients, rank = shortest(features, response, lengths, alpha)
    singular = np.linalg.svd(features, compute_uv=False)
    return {"coefficients": coefficients, "singular": singular, "rank": rank}


def shortest(x: Array, y: Array, lengths: Array, alpha: float) -> tuple[Array, int]:
    """Return the coefficients of least squares with a penalty, and the rank of the columns.

    Without a penalty they are the shortest coefficients. The columns are scaled to one length, so
    their units do not count. A column is constant if it is rounding noise of its ``lengths``.
    """
    rest = np.linalg.norm(x, axis=0)
    used = rest > DEPENDENT * lengths
    scale = rest[used]
    left, singular, right = np.linalg.svd(x[:, used] / scale, full_matrices=False)
    rank = int((singular > DEPENDENT * singular.max(initial=0)).sum())
    coefficients = np.zeros(len(rest))
    if rank == len(scale):
        coefficients[used] = penalised(x[:, used], y, alpha)
    else:
        # The coefficients are in the space of the rows, and the penalty is the same on any basis.
        across, root = np.linalg.qr((right[:rank] * scale).T)
        inside = singular[:rank, None] * root.T
        coefficients[used] = across @ penalised(inside, left[:, :rank].T @ y, alpha)
    return coefficients, rank


def penalised(x: Array, y: Array, alpha: float) -> Array:
    """Solve for columns of full rank, scaled to one length."""
    width = x.shape[1]
    if alpha > 0:
        x = np.concatenate([x, np.sqrt(alpha) * np.eye(width)])
        y = np.append(y, np.zeros(width))
    scale = np.linalg.norm(x, axis=0)
    orthonormal, root = np.linalg.qr(x / scale)
    found: Array = np.linalg.solve(root, orthonormal.T @ y) / scale
    return found
