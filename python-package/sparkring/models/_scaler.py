# SPDX-License-Identifier: Apache-2.0
"""Columns around their means, in units of their standard deviations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring.models import _moments as moments
from sparkring.models._checks import check_flag
from sparkring.models._unsupervised import Transformer, Unsupervised

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._communicator import Communicator
    from sparkring.models._rows import Rows
    from sparkring.models._table import Array


class StandardScaler(Unsupervised, Transformer):
    """Center and scale columns by the means and standard deviations of all ranks.

    Parameters
    ----------
    comm : Communicator, optional
        As for `LinearRegression`.
    with_mean, with_std : bool
        Whether to subtract the means, and to divide by the standard deviations.

    Attributes
    ----------
    mean_, var_ : array
        The mean and the variance of each column, which divides by the number of rows.
    scale_ : array or None
        The standard deviations; 1 for constant columns, None without ``with_std``.
    n_samples_seen_ : int
        The number of rows.

    References
    ----------
    T. Chan, G. Golub and R. LeVeque (1983). Algorithms for computing the sample variance. The
    American Statistician 37.
    """

    def __init__(
        self,
        *,
        comm: Communicator | None = None,
        with_mean: bool = True,
        with_std: bool = True,
    ) -> None:
        self.comm = comm
        self.with_mean = with_mean
        self.with_std = with_std

    def _check(self) -> None:
        check_flag("with_mean", self.with_mean)
        check_flag("with_std", self.with_std)

    def _fit(self, rows: Rows) -> None:
        found = moments.moments(rows)
        self.mean_ = found.mean
        self.var_ = found.variance
        self.n_samples_seen_ = found.rows
        self.scale_ = None
        if self.with_std:
            least = (10 * np.finfo(float).eps * found.mean) ** 2  # the rounding of the mean
            self.scale_ = np.where(self.var_ <= least, 1.0, np.sqrt(self.var_))

    def _transform(self, x: Array) -> Array:
        if self.with_mean:
            x = x - self.mean_
        return x if self.scale_ is None else x / self.scale_

    def inverse_transform(self, X: Any) -> Array:
        """Return the columns in their own units. Not collective.

        Parameters
        ----------
        X : array or table of shape (rows, features)
            Rows that `transform` has scaled.

        Returns
        -------
        array of shape (rows, features)
        """
        x = self._matrix(X)
        if self.scale_ is not None:
            x = x * self.scale_
        return x + self.mean_ if self.with_mean else x

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns, which stay.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names to return instead of those of the fit.

        Returns
        -------
        array of str of shape (features,)
            The columns of a table, or x0, x1 and so on.
        """
        names = (
            getattr(self, "feature_names_in_", None) if input_features is None else input_features
        )
        if names is None:
            names = [f"x{place}" for place in range(self.n_features_in_)]
        return np.asarray(names, object)
