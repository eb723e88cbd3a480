# SPDX-License-Identifier: Apache-2.0
"""The container of transformed rows: scikit-learn's ``set_output``, without scikit-learn."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring.models import _spark as spark
from sparkring.models._checks import check_choice

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self

OUTPUTS = ("default", "pandas", "polars")


class Output:
    """The part of an estimator that has ``transform`` and ``get_feature_names_out``."""

    _output: str | None = None  # the container of `transform`

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the result of `transform` for rows in memory, as in scikit-learn.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            An array, or a DataFrame of pandas or polars whose columns are `get_feature_names_out`.
            None changes nothing. ``sklearn.set_config(transform_output=...)`` chooses for
            estimators without a call of this method.

        Returns
        -------
        estimator
            This estimator.

        Raises
        ------
        InvalidError
            For another container.
        """
        if transform is not None:
            check_choice("transform", transform, OUTPUTS)
            self._output = transform
        return self

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the new columns.

        Parameters
        ----------
        input_features : ignored
            As scikit-learn passes it.

        Returns
        -------
        array of str
            The class in small letters with a number from 0 on, such as ``pca0`` and ``pca1``.
        """
        prefix = type(self).__name__.lower()
        return np.array([f"{prefix}{place}" for place in range(self._new_features())], object)

    def _new_features(self) -> int:
        raise NotImplementedError

    def _contained(self, found: Any, X: Any) -> Any:
        """Return transformed rows in the chosen container."""
        chosen = self._chosen_output()
        if spark.is_frame(X) or chosen == "default":
            return found
        if chosen == "polars":
            import polars  # type: ignore[import-not-found, unused-ignore]

            return polars.DataFrame(found, schema=list(self.get_feature_names_out()), orient="row")
        import pandas  # type: ignore[import-untyped, unused-ignore]

        index = X.index if isinstance(X, pandas.DataFrame) else None
        return pandas.DataFrame(found, index=index, columns=self.get_feature_names_out())

    def _chosen_output(self) -> str:
        """Return the container: that of `set_output`, or that of scikit-learn's settings."""
        if self._output is not None:
            return self._output
        sklearn = sys.modules.get("sklearn")
        chosen: str = "default" if sklearn is None else sklearn.get_config()["transform_output"]
        check_choice("transform_output of scikit-learn", chosen, OUTPUTS)
        return chosen
