# SPDX-License-Identifier: Apache-2.0
"""The bases of estimators of rows without a response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkring.models._base import Estimator
from sparkring.models._output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from sparkring.models._table import Array


class Unsupervised(Estimator):
    """An estimator of rows with weights and without a response."""

    _required = ()

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
        X, sample_weight, features, **options
            As for `LinearRegression.fit`.
        y : ignored
            As scikit-learn passes it.

        Returns
        -------
        estimator
            This estimator.

        Raises
        ------
        InvalidError
            On every rank, for rows or parameters that are invalid or differ on one rank.
        """
        return self._fit_rows(X, {"sample_weight": sample_weight}, features, options)


class Transformer(Output, Estimator):
    """An estimator that computes new features."""

    _kind = "transformer"
    _required = ()

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        features: Sequence[str] | None = None,
        **options: Any,
    ) -> Self:
        """Fit. Collective.

        Parameters
        ----------
        X : array, table, iterable of batches, or pyspark.sql.DataFrame
            The rows of this rank, as for `LinearRegression.fit`.
        y : ignored
            As scikit-learn passes it.
        features : list of str, optional
            The columns of a table to use; by default all.
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
        return self._fit_rows(X, {}, features, options)

    def transform(self, X: Any) -> Any:
        """Transform rows. Not collective.

        Parameters
        ----------
        X : array, table, or pyspark.sql.DataFrame
            Rows with the features of the fit.

        Returns
        -------
        array of shape (rows, new features), pandas.DataFrame or pyspark.sql.DataFrame
            See `set_output`. For a DataFrame of Spark a lazy DataFrame with a further column
            ``transformed``, an array of doubles.
        """
        return self._contained(self._apply(X, "_transform", "transformed"), X)

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Fit, and transform the same rows. Collective.

        Parameters
        ----------
        X, y, **options
            As for ``fit``.

        Returns
        -------
        array, pandas.DataFrame, polars.DataFrame or pyspark.sql.DataFrame
            As for `transform`.

        Raises
        ------
        InvalidError
            As for ``fit``.
        """
        return self.fit(X, y, **options).transform(X)

    def _transform(self, x: Array) -> Array:
        raise NotImplementedError
