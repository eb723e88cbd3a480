# SPDX-License-Identifier: Apache-2.0
"""K-means on the rows of all ranks: `_kmeans_lloyd` from the start of `_kmeans_start`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import InvalidError
from sparkring.models import _kmeans_lloyd as lloyd
from sparkring.models import _moments as moments
from sparkring.models._checks import check_number, check_seed, check_whole
from sparkring.models._doubles import doubles
from sparkring.models._kmeans_lloyd import nearest
from sparkring.models._kmeans_start import start
from sparkring.models._output import Output
from sparkring.models._table import scored
from sparkring.models._tsqr import lead
from sparkring.models._unsupervised import Unsupervised

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._communicator import Communicator
    from sparkring.models._kmeans_lloyd import Clusters
    from sparkring.models._rows import Rows
    from sparkring.models._table import Array


class KMeans(Output, Unsupervised):
    """K-means on the rows of all ranks.

    Parameters
    ----------
    n_clusters : int
        The number of clusters.
    comm : Communicator, optional
        As for `LinearRegression`.
    init : {"k-means||"} or array of shape (clusters, features)
        The start: drawn by k-means||, or these centers.
    n_init : int
        The number of drawn starts, of which the best result counts.
    max_iter : int
        The largest number of iterations.
    tol : float
        The iterations end when the centers move by less than this part of the mean variance.
    random_state : int, optional
        The seed; by default another one for each fit. Starts also depend on the ranks and the order
        of the rows.

    Attributes
    ----------
    cluster_centers_ : array of shape (clusters, features)
        The centers.
    labels_ : array
        The cluster of each row of this rank, from 0 on. Only for rows in memory, so it differs from
        rank to rank. Models of a DataFrame of Spark have no labels: call ``predict``.
    inertia_ : float
        The weighted sum of squared distances to the centers, of all ranks.
    n_iter_ : int
        The number of iterations.

    References
    ----------
    B. Bahmani and others (2012). Scalable k-means++. Proceedings of the VLDB Endowment 5(7).

    G. Hamerly (2010). Making k-means even faster. SIAM International Conference on Data Mining.

    S. Lloyd (1982). Least squares quantization in PCM. IEEE Transactions on Information Theory 28.
    """

    _kind = "clusterer"

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        comm: Communicator | None = None,
        init: Any = "k-means||",
        n_init: int = 1,
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.comm = comm
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def predict(self, X: Any) -> Any:
        """Return the nearest cluster of each row. Not collective.

        For a DataFrame of Spark the result is a lazy DataFrame with a further column
        ``prediction``, which is -1 for rows with missing values.

        Parameters
        ----------
        X : array, table, or pyspark.sql.DataFrame
            Rows with the features of the fit.

        Returns
        -------
        array of int32 of shape (rows,), or pyspark.sql.DataFrame

        Raises
        ------
        InvalidError
            Before a fit, for other features, and for missing values in rows that are not of Spark.
        """
        return self._apply(X, "_predict", "prediction")

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, and return the cluster of each row of this rank. Collective.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`, with rows in memory.

        Returns
        -------
        array of int32 of shape (rows,)

        Raises
        ------
        InvalidError
            On every rank, for rows or parameters that are invalid or differ on one rank.
        """
        return self.fit(X, y, sample_weight).labels_

    def transform(self, X: Any) -> Any:
        """Return the distances of each row to the centers, as `set_output` says. Not collective.

        For a DataFrame of Spark the result is a lazy DataFrame with a further column
        ``transformed``, an array of doubles.

        Parameters
        ----------
        X : array, table, or pyspark.sql.DataFrame
            Rows with the features of the fit.

        Returns
        -------
        array of shape (rows, n_clusters), or a DataFrame of pandas, polars or Spark

        Raises
        ------
        InvalidError
            Before a fit, for other features, and for missing values in rows that are not of Spark.
        """
        return self._contained(self._apply(X, "_transform", "transformed"), X)

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, and return the distances of the same rows to the centers. Collective.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.

        Returns
        -------
        array of shape (rows, n_clusters), or another result of `transform`

        Raises
        ------
        InvalidError
            On every rank, for rows or parameters that are invalid or differ on one rank.
        """
        return self.fit(X, y, sample_weight).transform(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return minus the inertia of these rows. Not collective.

        Parameters
        ----------
        X : array or table of shape (rows, features)
            Rows with the features of the fit.
        y : ignored
            As scikit-learn passes it.
        sample_weight : array of shape (rows,), optional
            The weights of the rows; 1 by default.

        Returns
        -------
        float
            0 at most.

        Raises
        ------
        InvalidError
            Before a fit, for other features, for missing values, and without a row with a weight.
        """
        x = self._matrix(X)
        squares = np.sum((x - self.cluster_centers_[self._predict(x)]) ** 2, axis=1)
        _, weight = scored(squares, sample_weight, len(x))
        return -float(np.sum(weight * squares))

    def _new_features(self) -> int:
        return self.n_clusters

    def _predict(self, x: Array) -> NDArray[np.int32]:
        known = np.isfinite(x).all(axis=1)
        found = np.full(len(x), -1, np.int32)
        found[known] = nearest(x[known], None, self.cluster_centers_)[0]
        return found

    def _transform(self, x: Array) -> Array:
        gaps = [np.linalg.norm(x - center, axis=1) for center in self.cluster_centers_]
        return np.stack(gaps, axis=1)

    def _check(self) -> None:
        check_whole("n_clusters", self.n_clusters, 1)
        check_whole("n_init", self.n_init, 1)
        check_whole("max_iter", self.max_iter, 1)
        check_number("tol", self.tol, 0)
        check_seed(self.random_state)
        if isinstance(self.init, str) and self.init != "k-means||":
            raise InvalidError(f"init is {self.init!r}: it must be 'k-means||' or an array")

    def _fit(self, rows: Rows) -> None:
        found = moments.moments(rows)
        given = self._given(rows.width)
        if found.rows < self.n_clusters:
            raise InvalidError(
                f"n_clusters is {self.n_clusters}, and there are {found.rows} rows on all ranks"
            )
        tolerance = self.tol * (sum(found.variance.tolist()) / rows.width)
        best: Clusters | None = None
        for seed in self._seeds(rows, 1 if given is not None else self.n_init):
            if given is None:
                first = start(rows, found.mean, self.n_clusters, seed)
            else:
                first = given - found.mean
            clusters = lloyd.fit(rows, found.mean, first, self.max_iter, tolerance)
            if best is None or clusters.inertia < best.inertia:
                best = clusters
        assert best is not None
        self.cluster_centers_ = best.centers + found.mean
        self.inertia_, self.n_iter_ = best.inertia, best.iterations
        if best.labels is not None:
            self.labels_ = best.labels

    def _given(self, width: int) -> Array | None:
        if isinstance(self.init, str):
            return None
        given = doubles(self.init, "init")
        if given.shape != (self.n_clusters, width) or not np.isfinite(given).all():
            raise InvalidError(
                f"init has shape {given.shape}: it must be finite numbers of shape"
                f" {(self.n_clusters, width)}"
            )
        return given

    def _seeds(self, rows: Rows, count: int) -> list[int]:
        """Return a seed for each start, the same on all ranks."""

        def draw() -> dict[str, Any]:
            random = np.random.default_rng(self.random_state)
            return {"seeds": random.integers(0, 1 << 31, count)}

        return [int(seed) for seed in lead(rows.comm, draw)["seeds"]]
