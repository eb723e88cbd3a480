# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""Training and predictions with XGBoost."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

import xgboost  # type: ignore[import-not-found, import-untyped, unused-ignore]

from sparkring._core import InvalidError
from sparkring.spark.ml import _output as output_of
from sparkring.spark.ml._boost import matrix

if TYPE_CHECKING:
    from sparkring._core import Communicator
    from sparkring.spark.ml._batch import Batch
    from sparkring.spark.ml._plan import Plan

OF_MATRIX = ("enable_categorical", "feature_names", "feature_types", "missing")
UNUSED = re.compile(r"Parameters: \{(.*)\} are not used")


def train(comm: Communicator, plan: Plan, x: Any, own: Batch) -> bytes:
    """Train on all ranks; return the trees, the same on every rank."""
    parameters = of_booster(plan.modelParams, x.shape[1])
    with xgboost.collective.CommunicatorContext(**comm.xgboost_config()):
        data = xgboost.DMatrix(x, own.label, weight=own.weight, **of_matrix(plan.modelParams))
        return bytes(xgboost.train(parameters, data, plan.epochs).save_raw())


def of_matrix(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that are arguments of DMatrix."""
    return {name: value for name, value in parameters.items() if name in OF_MATRIX}


def of_booster(parameters: dict[str, Any], width: int) -> dict[str, Any]:
    """Return the other parameters, after a Booster without rows has used all of them."""
    chosen = {name: value for name, value in parameters.items() if name not in OF_MATRIX}
    check = {**chosen, "num_feature": width, "verbosity": 1, "validate_parameters": True}
    with warnings.catch_warnings(record=True) as found, xgboost.config_context(verbosity=1):
        warnings.simplefilter("always")
        xgboost.Booster(check).save_config()
    for warning in found:
        unused = UNUSED.search(str(warning.message))
        if unused:
            raise InvalidError(
                f"XGBoost does not use the parameters {unused[1].strip()}: leave them out. Known"
                f" are those of its booster and objective, and {', '.join(OF_MATRIX)}"
            )
    return chosen


class Predictor:
    """Trees that predict."""

    def __init__(self, plan: Plan, weights: bytes) -> None:
        self.plan, self.model = plan, xgboost.Booster(model_file=bytearray(weights))

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """Return the outputs of some rows."""
        data = xgboost.DMatrix(matrix(inputs), **of_matrix(self.plan.modelParams))
        return output_of.arrays(
            self.model.predict(data), self.plan.postprocess, self.plan.outputCols
        )
