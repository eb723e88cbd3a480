# SPDX-License-Identifier: Apache-2.0
"""Estimators of Spark ML that train networks of PyTorch and Keras on the ranks of a ring.

They work in Pipeline, CrossValidator and TrainValidationSplit, and are saved and loaded as other
stages. The frameworks are imported on the ranks, and in the workers that predict.

Examples
--------
>>> from sparkring.spark.ml import TorchEstimator
>>> model = TorchEstimator(model="nets:make", loss="nets:loss", optimizer="nets:adam",
...                        inputCols=["features"]).fit(frame)
>>> model.transform(frame)
"""

from sparkring.spark.ml._boost import (
    LightGBMEstimator,
    LightGBMModel,
    XGBoostEstimator,
    XGBoostModel,
    fit_lightgbm,
    fit_xgboost,
)
from sparkring.spark.ml._keras import KerasEstimator, KerasModel
from sparkring.spark.ml._torch import TorchEstimator, TorchModel

__all__ = [
    "KerasEstimator",
    "KerasModel",
    "LightGBMEstimator",
    "LightGBMModel",
    "TorchEstimator",
    "TorchModel",
    "XGBoostEstimator",
    "XGBoostModel",
    "fit_lightgbm",
    "fit_xgboost",
]


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)
