# SPDX-License-Identifier: Apache-2.0
"""Statistical models of the rows of all ranks, in the manner of scikit-learn.

Each rank passes its own rows, which may be none, and all ranks get the same model. ``fit`` is
collective. ``predict``, ``transform`` and ``score`` work on the given rows alone. Rows are NumPy
arrays, tables of pandas, polars or Arrow, or sparse arrays of SciPy, of which some rows at a time
become dense. Dates, durations, and whole numbers that doubles do not hold are refused. Models with
few sums also take an iterable of batches, which each pass takes from the start, so the rows may be
larger than the memory. ``fit`` and ``predict`` take a DataFrame of Spark, too. The estimators work
in Pipeline and the searches of scikit-learn, which need not be installed. A search on several ranks
needs a score of the rows of all ranks, such as
``scoring=lambda model, x, y: comm.allreduce(model.score(x, y), op="avg")``. R's package has the
same models.

Examples
--------
>>> from sparkring.models import GeneralizedLinearModel, LinearRegression
>>> with sparkring.init() as comm:
...     model = GeneralizedLinearModel(comm=comm, family="poisson").fit(x, y)
>>> print(model.summary())
>>> model = LinearRegression().fit(frame, y="price", features=["size", "age"])  # of Spark
>>> model.predict(frame).show()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sparkring.models._cox import CoxPH
from sparkring.models._elastic_net import ElasticNet, ElasticNetCV, Lasso
from sparkring.models._glm import GeneralizedLinearModel
from sparkring.models._kmeans import KMeans
from sparkring.models._linear import LinearRegression, Ridge
from sparkring.models._penalised import LogisticRegression, PoissonRegressor
from sparkring.models._quantile import quantile, table
from sparkring.models._scaler import StandardScaler
from sparkring.models._storage import read
from sparkring.models._summary import Summary
from sparkring.models._svd import PCA, TruncatedSVD

if TYPE_CHECKING:
    import os

__all__ = [
    "PCA",
    "CoxPH",
    "ElasticNet",
    "ElasticNetCV",
    "GeneralizedLinearModel",
    "KMeans",
    "Lasso",
    "LinearRegression",
    "LogisticRegression",
    "PoissonRegressor",
    "Ridge",
    "StandardScaler",
    "Summary",
    "TruncatedSVD",
    "load",
    "quantile",
    "table",
]


def load(path: str | os.PathLike[str]) -> Any:
    """Read the estimator that ``save`` has written.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    estimator
        With ``comm=None``.

    Raises
    ------
    InvalidError
        For a file of another kind, or of a later format.
    OSError
        When the file cannot be read.
    """
    name, state = read(path, __all__)
    kind = globals()[name]
    estimator = kind.__new__(kind)
    estimator.__setstate__(state)
    return estimator


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)
