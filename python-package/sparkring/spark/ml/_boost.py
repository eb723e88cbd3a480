# SPDX-License-Identifier: Apache-2.0
# mypy: allow-subclassing-any, allow-untyped-calls
"""Trees of XGBoost and LightGBM over a DataFrame: functions that train, and their models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring.spark.ml import _columns as columns_of
from sparkring.spark.ml import _feed as feeds
from sparkring.spark.ml import _output as output_of
from sparkring.spark.ml._batch import make
from sparkring.spark.ml._estimator import Fit, turn
from sparkring.spark.ml._model import NetworkModel
from sparkring.spark.ml._plan import Plan
from sparkring.spark.ml._settings import TrainingSettings
from sparkring.spark.ml._shard import Shard
from sparkring.spark.ml._training import Progress

if TYPE_CHECKING:
    from sparkring._core import Communicator


# Params that trees share with networks, beside those of the model.
TRAINING = {"labelCol", "weightCol", "classWeights", "numProc", "timeline", "timeout", "verbose"}


class XGBoostModel(NetworkModel):
    """Trees of XGBoost that `fit_xgboost` has trained. `network` returns the Booster."""

    __module__ = "sparkring.spark.ml"
    _framework = "xgboost"


class LightGBMModel(NetworkModel):
    """Trees of LightGBM that `fit_lightgbm` has trained. `network` returns the Booster."""

    __module__ = "sparkring.spark.ml"
    _framework = "lightgbm"


def fit_xgboost(
    frame: Any, parameters: Mapping[str, Any], rounds: int = 10, **params: Any
) -> XGBoostModel:
    """Train trees of XGBoost on the rows of a DataFrame, on the ranks of a ring.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The rows.
    parameters : dict
        The parameters of ``xgboost.train``.
    rounds : int
        The number of rounds.
    **params
        Params of `TorchEstimator`: ``inputCols``, whose numbers, arrays and vectors become one
        matrix, ``labelCol``, ``weightCol``, ``classWeights``, ``numProc``, ``timeline``,
        ``timeout``, ``verbose``, and the Params of the model, such as ``outputCols``.

    Returns
    -------
    XGBoostModel
        Its ``transform`` appends the predictions of the Booster.

    Examples
    --------
    >>> model = fit_xgboost(frame, {"objective": "reg:squarederror"}, 50, inputCols=["features"])
    >>> model.transform(frame)
    """
    model: XGBoostModel = _fit(XGBoostModel(), frame, parameters, rounds, params)
    return model


def fit_lightgbm(
    frame: Any, parameters: Mapping[str, Any], rounds: int = 100, **params: Any
) -> LightGBMModel:
    """Train trees of LightGBM on the rows of a DataFrame, with its data-parallel learner.

    As `fit_xgboost`, with the parameters of ``lightgbm.train``. Every rank needs rows.
    """
    model: LightGBMModel = _fit(LightGBMModel(), frame, parameters, rounds, params)
    return model


def _fit(
    model: Any, frame: Any, parameters: Mapping[str, Any], rounds: int, params: dict[str, Any]
) -> Any:
    known = {param.name for param in model.params} - {"model", "modelParams"} | TRAINING
    for name in params:
        if name not in known:
            raise TypeError(
                f"{name} has no effect on trees: pass options of training in the parameters of"
                f" {model._framework}. Params are {', '.join(sorted(known))}"
            )
    settings = TrainingSettings()._set_params(
        {"modelParams": parameters, "epochs": rounds, **params}
    )
    plan = Plan(model._framework, settings._values())
    rows = columns_of.prepare(frame, plan.settings)
    with turn:
        progress = Fit(plan, rows).launch(train, (plan,), frame=rows, rows="batches")
    return settings._copyValues(model._take(progress))


# ---- On a rank -----------------------------------------------------------------------------------


def train(comm: Communicator, rows: Iterable[Any], plan: Plan) -> Progress | None:
    """Train the trees."""
    shard = Shard()
    for batch in filter(len, rows):
        shard.append(feeds.read(batch, plan))
    shard.close(comm)
    feeds.check_rows(shard.total)
    own = make(shard.all(), shard.rows, shard.total)
    weights = plan.module.train(comm, plan, matrix(own.inputs), own)
    shapes = comm.gather_object(plan.shapes)
    if shapes is None:  # on all ranks except 0
        return None
    found = plan.module.Predictor(plan, weights)(make(shard.spare, 1, 1).inputs)
    return Progress(
        best_weights=weights,
        shapes=next(each for each in shapes if each is not None),
        outputs=output_of.describe(found),
    )


def matrix(inputs: list[Any]) -> Any:
    """Put the inputs side by side."""
    return np.concatenate([values.reshape(len(values), -1) for values in inputs], axis=1)
