# SPDX-License-Identifier: Apache-2.0
"""Least squares, from the triangle of all rows (see `sparkring.models._tsqr`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkring.models import _moments as moments
from sparkring.models import _tsqr as tsqr
from sparkring.models._base import Regressor
from sparkring.models._checks import check_flag, check_number
from sparkring.models._tsqr import lead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from typing_extensions import Self

    from sparkring._communicator import Communicator
    from sparkring.models._rows import Rows
    from sparkring.models._table import Array


DEPENDENT = 1e-12  # of the largest singular value
CONSTANT = 1e-15  # of the length of a column


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
    found = moments.joined(rows, response=True, ones=intercept)

    def solve() -> dict[str, Any]:
        assert found.triangle is not None
        return solve_triangle(found.triangle, alpha, intercept)

    solved = lead(rows.comm, solve)
    model.coef_ = solved["coefficients"]
    model.intercept_ = float(solved["intercept"])
    model.singular_ = solved["singular"]
    model.rank_ = int(solved["rank"])


def solve_triangle(triangle: Array, alpha: float, intercept: bool) -> dict[str, Any]:
    """Solve from R of the features and, in the last column, the response.

    With an intercept, a column of ones is in front.
    """
    ones = int(intercept)
    around = triangle[ones:, ones:]
    span = span_of(around[:, :-1], np.linalg.norm(triangle[:, ones:-1], axis=0))
    coefficients = np.zeros(len(span.used))
    if len(span.singular) == span.used.sum():
        columns = np.concatenate([np.full(ones, True), span.used, [True]])
        solved = tsqr.solve(penalised(triangle[:, columns], alpha, ones), 0.0).coefficients
        coefficients[span.used] = solved[ones:]
        level = solved[0] if intercept else 0.0
    else:
        coefficients[span.used] = shortest(span, around[:, -1], alpha)
        means = triangle[0, 1:] / triangle[0, 0] if intercept else np.zeros(len(coefficients) + 1)
        level = means[-1] - means[:-1] @ coefficients
    singular = np.linalg.svd(around[:, :-1], compute_uv=False)
    return {
        "coefficients": coefficients,
        "intercept": level,
        "singular": singular,
        "rank": len(span.singular),
    }


def penalised(triangle: Array, alpha: float, free: int = 0) -> Array:
    """Add the rows of a penalty of all but the first ``free`` coefficients."""
    width = triangle.shape[1] - 1
    if alpha == 0:
        return triangle
    rows = np.zeros((width - free, width + 1))
    rows[:, free:width] = np.sqrt(alpha) * np.eye(width - free)
    return np.concatenate([triangle, rows])


class Span(NamedTuple):
    """The singular value decomposition of columns, scaled to one length.

    Attributes
    ----------
    used : array of bool
        The columns; False for columns that are constant, up to rounding.
    scale : array
        The lengths of these columns.
    left, singular, right : array
        The decomposition, without what is 0 up to rounding.
    """

    used: NDArray[np.bool_]
    scale: Array
    left: Array
    singular: Array
    right: Array


def span_of(x: Array, lengths: Array) -> Span:
    """Decompose columns. ``lengths`` are those before the column of ones was taken out of them."""
    rest = np.linalg.norm(x, axis=0)
    used = rest > CONSTANT * lengths
    left, singular, right = np.linalg.svd(x[:, used] / rest[used], full_matrices=False)
    rank = int((singular > DEPENDENT * singular.max(initial=0)).sum())
    return Span(used, rest[used], left[:, :rank], singular[:rank], right[:rank])


def shortest(span: Span, y: Array, alpha: float) -> Array:
    """Return the shortest coefficients of the used columns, with a penalty.

    They are in the space of the rows, and the penalty is the same on any basis of it.
    """
    across, root = np.linalg.qr((span.right * span.scale).T)
    inside = np.column_stack([span.singular[:, None] * root.T, span.left.T @ y])
    found: Array = across @ tsqr.solve(penalised(inside, alpha), 0.0).coefficients
    return found
