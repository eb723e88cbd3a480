# SPDX-License-Identifier: Apache-2.0
"""Principal components and singular vectors, from the triangle of all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring import _numerics as numerics
from sparkring._core import InvalidError
from sparkring.models import _moments as moments
from sparkring.models import _svd_random as svd_random
from sparkring.models._checks import check_choice, check_flag, check_number, check_seed, check_whole
from sparkring.models._doubles import doubles
from sparkring.models._tsqr import lead
from sparkring.models._unsupervised import Transformer

if TYPE_CHECKING:
    from sparkring._communicator import Communicator
    from sparkring.models._rows import Rows
    from sparkring.models._table import Array


class Components(Transformer):
    """Coordinates along directions of the rows."""

    components_: Array

    def inverse_transform(self, X: Any) -> Array:
        """Return rows of the features of the fit for transformed rows. Not collective.

        Parameters
        ----------
        X : array of shape (rows, components)
            Rows that `transform` has returned.

        Returns
        -------
        array of shape (rows, features)
        """
        return self._restore(doubles(X, "X"))

    def _transform(self, x: Array) -> Array:
        found: Array = x @ self.components_.T
        return found

    def _restore(self, x: Array) -> Array:
        found: Array = x @ self.components_
        return found


class PCA(Components):
    """Principal components of the rows of all ranks.

    The rows are decomposed by TSQR, which squares nothing, so small singular values keep their
    digits.

    Parameters
    ----------
    n_components : int or float, optional
        The number of components, or the part of the variance that they explain at least, between 0
        and 1; by default all.
    comm : Communicator, optional
        As for `LinearRegression`.
    whiten : bool
        Whether transformed columns have the variance 1.
    svd_solver : {"auto", "full", "randomized"}
        The way: ``"full"``, by TSQR, for up to some thousand features; ``"randomized"``, by
        projections to ``n_components + 10`` random directions; or ``"auto"``, which is
        ``"randomized"`` for more than 2000 features, if ``n_components`` is a whole number.
    iterated_power : int
        The iterations of ``"randomized"``.
    random_state : int, optional
        The seed of the directions.

    Attributes
    ----------
    components_ : array of shape (components, features)
        The components. The largest loading of each is positive.
    explained_variance_, explained_variance_ratio_ : array
        The variance of each component, and its part of the variance.
    singular_values_ : array
        The singular values of the rows around their means.
    mean_ : array
        The mean of each column.
    n_components_, n_samples_ : int
        The number of components, and of rows.
    noise_variance_ : float
        The mean variance of the components that are left out.

    References
    ----------
    J. Demmel, L. Grigori, M. Hoemmen and J. Langou (2012). Communication-optimal parallel and
    sequential QR and LU factorizations. SIAM Journal on Scientific Computing 34(1).

    N. Halko, P. Martinsson and J. Tropp (2011). Finding structure with randomness. SIAM Review
    53(2).
    """

    def __init__(
        self,
        n_components: float | None = None,
        *,
        comm: Communicator | None = None,
        whiten: bool = False,
        svd_solver: str = "auto",
        iterated_power: int = 2,
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.comm = comm
        self.whiten = whiten
        self.svd_solver = svd_solver
        self.iterated_power = iterated_power
        self.random_state = random_state

    def _check(self) -> None:
        check_flag("whiten", self.whiten)
        if isinstance(self.n_components, float):
            if check_number("n_components", self.n_components, 0, 1) in (0.0, 1.0):
                raise InvalidError("n_components is a part of the variance: between 0 and 1")
        elif self.n_components is not None:
            check_whole("n_components", self.n_components, 1)
        check_choice("svd_solver", self.svd_solver, ("auto", "full", "randomized"))
        check_whole("iterated_power", self.iterated_power, 0)
        check_seed(self.random_state)
        if self.svd_solver == "randomized" and not self._has_count():
            raise InvalidError("svd_solver='randomized' needs n_components, a whole number")

    def _has_count(self) -> bool:
        return self.n_components is not None and not isinstance(self.n_components, float)

    def _fit(self, rows: Rows) -> None:
        if self._has_count() and svd_random.is_wanted(self.svd_solver, rows):
            self._fit_randomly(rows)
        else:
            self._fit_fully(rows)

    def _fit_randomly(self, rows: Rows) -> None:
        found = moments.moments(rows)
        most = min(found.rows, rows.width)
        check_most(self.n_components, most)
        singular, right = svd_random.decompose(
            rows, found.mean, int(self.n_components or 0), self.iterated_power, self.random_state
        )
        total = found.squares.sum() / max(1, found.rows - 1)
        self._take(found.rows, found.mean, singular, right, total, most)

    def _fit_fully(self, rows: Rows) -> None:
        around = moments.joined(rows, response=False, ones=True)
        most = min(around.rows, rows.width)
        check_most(self.n_components, most)

        def decompose() -> dict[str, Any]:
            assert around.triangle is not None
            singular, right = directions(around.triangle[1:, 1:])
            return {"singular": singular[:most], "right": right[:most], "mean": around.means()}

        found = lead(rows.comm, decompose)
        total = (found["singular"] ** 2).sum() / max(1, around.rows - 1)
        self._take(around.rows, found["mean"], found["singular"], found["right"], total, most)

    def _take(
        self, rows: int, mean: Array, singular: Array, right: Array, total: float, most: int
    ) -> None:
        """Set the attributes. There may be more singular values than components."""
        if rows < 2:
            raise InvalidError("there is 1 sample on all ranks, and PCA needs two rows or more")
        variance = singular**2 / (rows - 1)
        ratio = variance / total if total > 0 else np.zeros(len(variance))
        count = self._count(ratio, most)
        self.components_, self.singular_values_ = right[:count], singular[:count]
        self.explained_variance_ = variance[:count]
        self.explained_variance_ratio_ = ratio[:count]
        self.mean_, self.n_components_, self.n_samples_ = mean, count, rows
        rest = max(0.0, float(total - variance[:count].sum()))
        if len(variance) == most:
            rest = float(variance[count:].sum())
        self.noise_variance_ = rest / (most - count) if count < most else 0.0

    def _count(self, ratio: Array, most: int) -> int:
        if self.n_components is None:
            return most
        if not isinstance(self.n_components, float):
            return int(self.n_components)
        count = int(np.searchsorted(np.cumsum(ratio), self.n_components, side="right")) + 1
        return min(count, most)

    def _transform(self, x: Array) -> Array:
        found = super()._transform(x - self.mean_)
        return found / self._deviations() if self.whiten else found

    def _deviations(self) -> Array:
        """Return the deviation of each component; 1 for rounding noise, which stays small."""
        found = np.sqrt(self.explained_variance_)
        noise = 10 * self.n_features_in_ * np.finfo(float).eps * found.max()
        return np.where(found > noise, found, 1.0)

    def _restore(self, x: Array) -> Array:
        return super()._restore(x * self._deviations() if self.whiten else x) + self.mean_

    def _new_features(self) -> int:
        return self.n_components_


class TruncatedSVD(Components):
    """The first singular vectors of the rows of all ranks, which are not centered.

    Parameters
    ----------
    n_components : int
        The number of components.
    comm : Communicator, optional
        As for `LinearRegression`.
    algorithm : {"auto", "exact", "randomized"}
        As ``svd_solver`` of `PCA`, with ``"exact"`` for ``"full"``.
    n_iter : int
        The iterations of ``"randomized"``.
    random_state : int, optional
        The seed of the directions of ``"randomized"``.

    Attributes
    ----------
    components_ : array of shape (components, features)
        The right singular vectors. The largest element of each is positive.
    singular_values_ : array
        The singular values.
    explained_variance_, explained_variance_ratio_ : array
        The variance of each transformed column, and its part of the variance of the features.
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        comm: Communicator | None = None,
        algorithm: str = "auto",
        n_iter: int = 2,
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.comm = comm
        self.algorithm = algorithm
        self.n_iter = n_iter
        self.random_state = random_state

    def _check(self) -> None:
        check_whole("n_components", self.n_components, 1)
        check_choice("algorithm", self.algorithm, ("auto", "exact", "randomized"))
        check_whole("n_iter", self.n_iter, 0)
        check_seed(self.random_state)

    def _fit(self, rows: Rows) -> None:
        if svd_random.is_wanted(self.algorithm, rows):
            self._fit_randomly(rows)
        else:
            self._fit_fully(rows)

    def _fit_randomly(self, rows: Rows) -> None:
        around = moments.moments(rows)
        check_most(self.n_components, min(around.rows, rows.width))
        nothing = np.zeros(rows.width)
        singular, right = svd_random.decompose(
            rows, nothing, self.n_components, self.n_iter, self.random_state
        )
        variance = singular**2 / around.rows - (right @ around.mean) ** 2
        self._take(singular, right, variance, float(around.variance.sum()))

    def _fit_fully(self, rows: Rows) -> None:
        joined = moments.before_ones(rows)
        count = self.n_components
        check_most(count, min(joined.rows, rows.width))

        def decompose() -> dict[str, Any]:
            assert joined.triangle is not None
            singular, right = directions(joined.triangle[:-1, :-1])
            right, around = right[:count], around_means(joined.triangle, joined.rows)
            return {
                "singular": singular[:count],
                "right": right,
                "variance": np.sum((around @ right.T) ** 2, axis=0) / joined.rows,
                "total": np.sum(around**2) / joined.rows,
            }

        found = lead(rows.comm, decompose)
        self._take(found["singular"], found["right"], found["variance"], float(found["total"]))

    def _take(self, singular: Array, right: Array, variance: Array, total: float) -> None:
        """Set the attributes."""
        self.components_, self.singular_values_ = right, singular
        self.explained_variance_ = variance
        self.explained_variance_ratio_ = variance / (total if total > 0 else 1.0)

    def _new_features(self) -> int:
        return self.n_components


def check_most(count: Any, most: int) -> None:
    """Refuse more components than there are."""
    if count is not None and not isinstance(count, float) and count > most:
        raise InvalidError(f"n_components is {count}, and the rows of all ranks have {most}")


def around_means(triangle: Array, rows: int) -> Array:
    """Return a matrix with the cross products of columns around their means.

    The last column of the triangle is of ones.
    """
    found: Array = (
        triangle[:, :-1] - np.outer(triangle[:, -1], triangle[:, -1] @ triangle[:, :-1]) / rows
    )
    return found


def directions(triangle: Array) -> tuple[Array, Array]:
    """Return the singular values and right vectors, with a positive largest element."""
    singular, right = np.empty(len(triangle)), np.array(triangle, order="C")
    numerics.svd(right, singular)
    return singular, right
