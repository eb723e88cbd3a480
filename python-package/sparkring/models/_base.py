# SPDX-License-Identifier: Apache-2.0
"""The base of all estimators, in the manner of scikit-learn, which need not be installed.

A constructor only stores its arguments. ``fit`` is collective. Its results are attributes whose
names end in an underscore, the same bits on every rank. ``predict``, ``transform`` and ``score``
work on the given rows alone, and need no communicator.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sparkring._arguments import check_communicator
from sparkring._communicator import Communicator
from sparkring._core import InvalidError
from sparkring._init import init
from sparkring._opening import current
from sparkring.models import _spark as spark
from sparkring.models import _storage as storage
from sparkring.models._rows import Rows
from sparkring.models._sklearn import not_fitted
from sparkring.models._table import (
    check_finite,
    dense,
    is_sparse,
    numbers_in,
    numbers_of,
    scored,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from typing_extensions import Self

    from sparkring.models._table import Array


ELEMENTS = 1 << 20  # of sparse rows that are an array at a time


@contextlib.contextmanager
def communicator(given: Communicator | None) -> Iterator[Communicator]:
    """Find the communicator: the argument, that of this process, or a new one for the block."""
    found = current() if given is None else check_communicator(given)
    if found is not None:
        yield found
        return
    with init() as opened:
        yield opened


class Estimator:
    """An estimator.

    Attributes
    ----------
    n_features_in_ : int
        The number of features of the fit.
    feature_names_in_ : array of str
        Their names, where ``X`` was a table.
    """

    _kind: ClassVar[str] = ""  # "regressor", "classifier", "clusterer" or "transformer"
    _required: ClassVar[tuple[str, ...]] = ("y",)

    comm: Communicator | None
    n_features_in_: int

    # ---- Parameters

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor by name.

        Parameters
        ----------
        deep : bool
            Ignored; scikit-learn passes it.

        Returns
        -------
        dict
        """
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the constructor.

        Parameters
        ----------
        **params : object
            Arguments by name.

        Returns
        -------
        estimator
            This estimator.

        Raises
        ------
        InvalidError
            For a name that is no argument.
        """
        for name, value in params.items():
            if name not in self._names():
                raise InvalidError(
                    f"{type(self).__name__} has no parameter {name!r}: there are {self._names()}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        given = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if name != "comm" and repr(value) != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    # ---- The fit

    def _fit_rows(
        self,
        X: Any,
        roles: dict[str, Any],
        features: Sequence[str] | None,
        options: dict[str, Any],
    ) -> Self:
        """Fit rows of this rank, or a DataFrame of Spark."""
        features = [features] if isinstance(features, str) else features
        if spark.is_frame(X):
            spark.fit(self, X, roles, features, options)
            return self
        if options:
            raise TypeError(
                f"fit() takes {sorted(options)} for a DataFrame of Spark only: X is of type"
                f" {type(X).__name__}"
            )
        with communicator(self.comm) as comm:
            settings = {"estimator": type(self).__name__, **self.get_params()}
            del settings["comm"]
            rows = Rows(comm, X, features, roles, settings, self._required)
            self._check()
            self._forget()
            self._fit(rows)
            self.n_features_in_ = rows.width
            self._columns = rows.columns
            if rows.names is not None:
                self.feature_names_in_ = np.array(rows.names)
        return self

    def _check(self) -> None:
        """Refuse invalid parameters, which are the same on all ranks."""

    def _fit(self, rows: Rows) -> None:
        """Set the attributes. Collective."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Remove the results of an earlier fit."""
        for name in [name for name in vars(self) if _is_result(name)]:
            delattr(self, name)

    # ---- Rows after the fit

    def _features(self, X: Any, complete: bool = True) -> Any:
        """Read rows with the features of the fit, which may be sparse.

        Raises
        ------
        InvalidError
            Before a fit; for other features; and for missing values, unless they stay NaN because
            the rows need not be ``complete``.
        """
        if not self.__sklearn_is_fitted__():
            raise not_fitted(type(self).__name__)
        columns = getattr(self, "_columns", None)
        is_table = hasattr(X, "columns") or hasattr(X, "schema")
        x = numbers_of(X, columns if is_table else None, {}).x
        if is_table and len(x) == 0:  # a column of arrays has no width here
            return np.zeros((0, self.n_features_in_))
        if x.shape[1] != self.n_features_in_:
            raise InvalidError(
                f"X has {x.shape[1]} features, but {type(self).__name__} is expecting"
                f" {self.n_features_in_} features as input"
            )
        if complete:
            check_finite(x, list(getattr(self, "feature_names_in_", [])), limit=np.inf)
        return x

    def _matrix(self, X: Any, complete: bool = True) -> Array:
        """Read rows with the features of the fit as an array."""
        return dense(self._features(X, complete))

    def _apply(self, X: Any, method: str, output: str) -> Any:
        """Call the method for rows, or for the rows of a DataFrame of Spark, lazily."""
        if spark.is_frame(X):
            return spark.apply(self, X, method, output)
        x, of_rows = self._features(X), getattr(self, method)
        if not is_sparse(x):
            return of_rows(x)
        step = max(1000, ELEMENTS // max(1, x.shape[1]))
        starts = range(0, max(1, x.shape[0]), step)
        return np.concatenate([of_rows(dense(x[first : first + step])) for first in starts])

    # ---- Copies and files

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "comm": None}

    def __copy__(self) -> Self:
        """Copy parameters and results. The copy shares the communicator, unlike a pickle."""
        copied = type(self).__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy as `__copy__`, with the values of all attributes."""
        copied = copy.copy(self)
        memo[id(self.comm)] = self.comm
        vars(copied).update(copy.deepcopy(vars(self), memo))
        return copied

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take a state, also of a version with fewer parameters."""
        defaults = inspect.signature(type(self)).parameters
        vars(self).update({name: part.default for name, part in defaults.items()})
        vars(self).update(state)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write parameters and results to a file, without the communicator.

        The file is an archive of NumPy (``.npz``) with JSON, so a later version reads it, and
        reading runs no code. `load` reads it.

        Parameters
        ----------
        path : str or path
            The file, which is replaced if it exists.
        """
        storage.save(self, path)

    # ---- scikit-learn

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def __sklearn_clone__(self) -> Self:
        """Copy without results. A communicator cannot be copied, so the copy shares it."""
        params = self.get_params()
        comm = params.pop("comm")
        kind: Any = type(self)
        copied: Self = kind(comm=comm, **copy.deepcopy(params))
        if "_output" in vars(self):
            vars(copied)["_output"] = vars(self)["_output"]
        return copied

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn, the only caller."""
        from sklearn import utils  # type: ignore[import-untyped, import-not-found, unused-ignore]

        needs_y = "y" in self._required
        tags = utils.Tags(
            estimator_type=self._kind if self._kind != "transformer" else None,
            target_tags=utils.TargetTags(required=needs_y),
        )
        tags.input_tags.sparse = True
        tags.target_tags.positive_only = self._is_positive()
        if self._kind == "classifier":
            tags.classifier_tags = utils.ClassifierTags()
        if self._kind == "regressor":
            tags.regressor_tags = utils.RegressorTags()
        if hasattr(self, "transform"):
            tags.transformer_tags = utils.TransformerTags()
        return tags

    def _is_positive(self) -> bool:
        """Return whether responses must be positive."""
        return False

    @property
    def _estimator_type(self) -> str:
        """The kind, for scikit-learn before 1.6."""
        return self._kind


def _is_result(name: str) -> bool:
    return name == "_columns" or (name.endswith("_") and not name.startswith("_"))


class Regressor(Estimator):
    """An estimator that predicts numbers."""

    _kind = "regressor"

    def predict(self, X: Any) -> Any:
        """Predict rows. Not collective.

        Parameters
        ----------
        X : array, table, or pyspark.sql.DataFrame
            Rows with the features of the fit. Columns of a table are found by name.

        Returns
        -------
        array of shape (rows,), or pyspark.sql.DataFrame
            For a DataFrame of Spark a lazy DataFrame with a further column ``prediction``, which is
            NaN for rows with missing values.

        Raises
        ------
        InvalidError
            For missing values in rows that are not of Spark.
        """
        return self._apply(X, "_predict", "prediction")

    def _predict(self, x: Array) -> Array:
        raise NotImplementedError

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R squared of the predictions of these rows. Not collective.

        If all ``y`` are equal, the score is 1 for predictions without an error, else 0.

        Parameters
        ----------
        X : array or table of shape (rows, features)
            Rows with the features of the fit.
        y : array of shape (rows,)
            The responses.
        sample_weight : array of shape (rows,), optional
            The weights of the rows; 1 by default.

        Returns
        -------
        float
            1 at most; negative for predictions that are worse than the mean of ``y``.

        Raises
        ------
        InvalidError
            Before a fit, for other features, for missing values, and without a row with a weight.
        """
        predicted = np.asarray(self.predict(X))
        given, weight = scored(y, sample_weight, len(predicted))
        response = numbers_in(given, "y")
        mean = np.average(response, weights=weight)
        rest = float(np.sum(weight * (response - predicted) ** 2))
        return explained(rest, float(np.sum(weight * (response - mean) ** 2)))


def explained(rest: float, total: float) -> float:
    """Return the explained part of a sum, of which some is left."""
    if total == 0:
        return 1.0 if rest == 0 else 0.0
    return 1 - rest / total
