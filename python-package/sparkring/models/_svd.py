# SPDX-License-Identifier: Apache-2.0
"""Principal components and singular vectors, from the triangle of all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import InvalidError
from sparkring.models import _moments as moments
from sparkring.models._base import Transformer
from sparkring.models._checks import check_flag, check_number, check_whole
from sparkring.models._tsqr import lead

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring._core import Communicator
    from sparkring.models._rows import Rows
    from sparkring.models._table import Array


class PCA(Transformer):
    """Principal components of the rows of all ranks.

    The rows are decomposed by TSQR, which squares nothing, so small singular values keep their
    digits.

    Parameters
    ----------
    comm : Communicator, optional
        As for `LinearRegression`.
    n_components : int or float, optional
        The number of components, or the part of the variance that they explain at least, between 0
        and 1; by default all.
    whiten : bool
        Whether transformed columns have the variance 1.

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
    """

    def __init__(
        self,
        *,
        comm: Communicator | None = None,
        n_components: float | None = None,
        whiten: bool = False,
    ) -> None:
        self.comm = comm
        self.n_components = n_components
        self.whiten = whiten

    def _check(self) -> None:
        check_flag("whiten", self.whiten)
        if isinstance(self.n_components, float):
            if check_number("n_components", self.n_components, 0, 1) in (0.0, 1.0):
                raise InvalidError("n_components is a part of the variance: between 0 and 1")
        elif self.n_components is not None:
            check_whole("n_components", self.n_components, 1)

    def _fit(self, rows: Rows) -> None:
        around = moments.centered(rows, response=False)
        if around.rows < 2:
            raise InvalidError("PCA needs two rows or more on all ranks")
        most = min(around.rows, rows.width)
        check_most(self.n_components, most)

        def decompose() -> dict[str, Any]:
            assert around.triangle is not None
            singular, right = directions(around.triangle[1:, 1:])
            return {"singular": singular[:most], "right": right[:most], "mean": around.means()}

        found = lead(rows.comm, decompose)
        variance = found["singular"] ** 2 / (around.rows - 1)
        total = variance.sum()
        ratio = variance / total if total > 0 else np.zeros(most)
        count = self._count(ratio, most)
        self.components_ = found["right"][:count]
        self.singular_values_ = found["singular"][:count]
        self.explained_variance_ = variance[:count]
        self.explained_variance_ratio_ = ratio[:count]
        self.mean_ = found["mean"]
        self.n_components_, self.n_samples_ = count, around.rows
        self.noise_variance_ = float(variance[count:].mean()) if count < most else 0.0

    def _count(self, ratio: Array, most: int) -> int:
        if self.n_components is None:
            return most
        if not isinstance(self.n_components, float):
            return int(self.n_components)
        count = int(np.searchsorted(np.cumsum(ratio), self.n_components, side="right")) + 1
        return min(count, most)

    def _transform(self, x: Array) -> Array:
        found: Array = (x - self.mean_) @ self.components_.T
        return found / self._deviations() if self.whiten else found

    def _deviations(self) -> Array:
        """Return the deviation of each component; 1 for rounding noise, which stays small."""
        found = np.sqrt(self.explained_variance_)
        noise = 10 * self.n_features_in_ * np.finfo(float).eps * found.max()
        return np.where(found > noise, found, 1.0)

    def inverse_transform(self, X: Any) -> Array:
        """Return rows of the features of the fit for transformed rows. Not collective."""
        x = np.asarray(X, np.float64)
        if self.whiten:
            x = x * self._deviations()
        found: Array = x @ self.components_ + self.mean_
        return found

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the new columns."""
        return self._prefixed(self.n_components_)


class TruncatedSVD(Transformer):
    """The first singular vectors of the rows of all ranks, which are not centered.

    Parameters
    ----------
    comm : Communicator, optional
        As for `LinearRegression`.
    n_components : int
        The number of components.

    Attributes
    ----------
    components_ : array of shape (components, features)
        The right singular vectors. The largest element of each is positive.
    singular_values_ : array
        The singular values.
    explained_variance_, explained_variance_ratio_ : array
        The variance of each transformed column, and its part of the variance of the features.
    """

    def __init__(self, *, comm: Communicator | None = None, n_components: int = 2) -> None:
        self.comm = comm
        self.n_components = n_components

    def _check(self) -> None:
        check_whole("n_components", self.n_components, 1)

    def _fit(self, rows: Rows) -> None:
        joined = moments.centered(rows, response=False, shifted=False)
        count = self.n_components
        check_most(count, min(joined.rows, rows.width))

        def decompose() -> dict[str, Any]:
            assert joined.triangle is not None
            singular, right = directions(joined.triangle[:, 1:])
            right = right[:count]
            # Of the first row of R, the means: what is below is the spread around the means.
            below = joined.triangle[1:, 1:]
            return {
                "singular": singular[:count],
                "right": right,
                "variance": np.sum((below @ right.T) ** 2, axis=0) / joined.rows,
                "total": np.sum(below**2) / joined.rows,
            }

        found = lead(rows.comm, decompose)
        self.components_ = found["right"]
        self.singular_values_ = found["singular"]
        self.explained_variance_ = found["variance"]
        total = float(found["total"])
        self.explained_variance_ratio_ = found["variance"] / (total if total > 0 else 1.0)

    def _transform(self, x: Array) -> Array:
        found: Array = x @ self.components_.T
        return found

    def inverse_transform(self, X: Any) -> Array:
        """Return rows of the features of the fit for transformed rows. Not collective."""
        found: Array = np.asarray(X, np.float64) @ self.components_
        return found

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the new columns."""
        return self._prefixed(self.n_components)


def check_most(count: Any, most: int) -> None:
    """Refuse more components than there are."""
    if count is not None and not isinstance(count, float) and count > most:
        raise InvalidError(f"n_components is {count}, and the rows of all ranks have {most}")


def directions(triangle: Array) -> tuple[Array, Array]:
    """Return the singular values and right vectors, with a positive largest element."""
    _, singular, right = np.linalg.svd(triangle)
    largest = np.take_along_axis(right, np.abs(right).argmax(axis=1)[:, None], axis=1)
    return singular, right * np.where(largest < 0, -1.0, 1.0)
