# SPDX-License-Identifier: Apache-2.0
"""K-means on the rows of all ranks: Lloyd's iterations from the start of `_kmeans_start`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkring._agree import agree
from sparkring._core import InvalidError
from sparkring.models import _moments as moments
from sparkring.models._base import Estimator
from sparkring.models._checks import check_number, check_whole
from sparkring.models._doubles import doubles
from sparkring.models._kmeans_start import nearest, start
from sparkring.models._output import Output
from sparkring.models._table import scored
from sparkring.models._tsqr import lead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from typing_extensions import Self

    from sparkring._core import Communicator
    from sparkring.models._rows import Block, Rows
    from sparkring.models._table import Array


class KMeans(Output, Estimator):
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
        The seed; by default another one for each fit. Starts also depend on the ranks of the rows.

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

    S. Lloyd (1982). Least squares quantization in PCM. IEEE Transactions on Information Theory 28.
    """

    _kind = "clusterer"
    _required = ()

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
        KMeans
            This estimator.

        Raises
        ------
        InvalidError
            On every rank, for rows or parameters that are invalid or differ on one rank.
        """
        self._fit_rows(X, {"sample_weight": sample_weight}, features, options)
        return self

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

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the distances.

        Parameters
        ----------
        input_features : ignored
            As scikit-learn passes it.

        Returns
        -------
        array of str of shape (n_clusters,)
        """
        return self._prefixed(self.n_clusters)

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

    def _predict(self, x: Array) -> NDArray[np.int32]:
        middle = self.cluster_centers_.mean(axis=0)
        known = np.isfinite(x).all(axis=1)
        found = np.full(len(x), -1, np.int32)
        found[known] = nearest(x[known] - middle, self.cluster_centers_ - middle)[0]
        return found

    def _transform(self, x: Array) -> Array:
        gaps = [np.linalg.norm(x - center, axis=1) for center in self.cluster_centers_]
        return np.stack(gaps, axis=1)

    def _check(self) -> None:
        check_whole("n_clusters", self.n_clusters, 1)
        check_whole("n_init", self.n_init, 1)
        check_whole("max_iter", self.max_iter, 1)
        check_number("tol", self.tol, 0)
        if self.random_state is not None:
            check_whole("random_state", self.random_state, 0)
        if isinstance(self.init, str) and self.init != "k-means||":
            raise InvalidError(f"init is {self.init!r}: it must be 'k-means||' or an array")

    def _fit(self, rows: Rows) -> None:
        found = moments.moments(rows)
        given = self._given(rows.width)
        if found.rows < self.n_clusters:
            raise InvalidError(
                f"n_clusters is {self.n_clusters}, and there are {found.rows} rows on all ranks"
            )
        tolerance = self.tol * math.fsum(found.variance) / rows.width
        best: Clusters | None = None
        for seed in self._seeds(rows, 1 if given is not None else self.n_init):
            if given is None:
                first = start(rows, found.mean, self.n_clusters, seed)
            else:
                first = given - found.mean
            clusters = lloyd(rows, found.mean, first, self.max_iter, tolerance)
            if best is None or clusters.inertia < best.inertia:
                best = clusters
        assert best is not None
        self.cluster_centers_ = best.centers + found.mean
        self.inertia_, self.n_iter_ = best.inertia, best.iterations
        if rows.in_memory:
            labels: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]
            rows.each(lambda block: labels.append(nearest(block.x - found.mean, best.centers)[0]))
            self.labels_ = np.concatenate(labels)

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


class Clusters(NamedTuple):
    """The end of Lloyd's iterations, with centers around the mean of all rows."""

    centers: Array
    inertia: float
    iterations: int


def lloyd(rows: Rows, mean: Array, centers: Array, max_iter: int, tolerance: float) -> Clusters:
    """Move the centers to the means of their rows, until they stay. Collective.

    Rows are around the mean of all rows, which keeps the digits of distances.
    """
    for iteration in range(1, max_iter + 1):  # noqa: B007
        sums, _ = assign(rows, mean, centers)
        moved = means_of(rows, mean, centers, sums)
        shift = math.fsum(((moved - centers) ** 2).ravel())  # the same bits on all processors
        centers = moved
        if shift <= tolerance:
            break
    _, inertia = assign(rows, mean, centers)
    return Clusters(centers, inertia, iteration)


def assign(rows: Rows, mean: Array, centers: Array) -> tuple[Array, float]:
    """Return weights and weighted sums of the rows of each cluster, and the inertia. Collective."""
    k, width = centers.shape

    def of_block(block: Block) -> Array:
        x = block.x - mean
        labels = nearest(x, centers)[0]
        squares = np.sum((x - centers[labels]) ** 2, axis=1)
        sums = np.zeros((k, width + 1))
        member = np.zeros((k, len(x)))
        member[labels, np.arange(len(x))] = block.weight
        sums[:, 0], sums[:, 1:] = member.sum(axis=1), member @ x
        return np.append(sums.ravel(), block.weight @ squares)

    total = rows.total(k * (width + 1) + 1, of_block)
    return total[:-1].reshape(k, width + 1), float(total[-1])


def means_of(rows: Rows, mean: Array, centers: Array, sums: Array) -> Array:
    """Return the means of the clusters. An empty cluster gets a row that is far from its center."""
    known = sums[:, 0] > 0
    moved = np.array(centers)
    moved[known] = sums[known, 1:] / sums[known, :1]
    empty = np.flatnonzero(~known)
    if len(empty) > 0:
        moved[empty] = farthest(rows, mean, centers, len(empty))
    return moved


def farthest(rows: Rows, mean: Array, centers: Array, count: int) -> Array:
    """Return the rows that are farthest from their centers, of all ranks. Collective."""
    own = np.zeros((0, 1 + rows.width))

    def take(block: Block) -> None:
        nonlocal own
        x = (block.x - mean)[block.weight > 0]
        squares = np.sum((x - centers[nearest(x, centers)[0]]) ** 2, axis=1)
        own = np.concatenate([own, np.concatenate([squares[:, None], x], axis=1)])
        own = own[np.argsort(-own[:, 0], kind="stable")[:count]]

    rows.each(take)
    everything = rows.comm.allgatherv(agree(rows.comm, lambda: own))
    best = everything[np.argsort(-everything[:, 0], kind="stable")[:count]]
    return np.resize(best[:, 1:], (count, rows.width))
