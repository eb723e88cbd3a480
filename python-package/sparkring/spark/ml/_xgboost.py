# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""Training and predictions with XGBoost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import xgboost  # type: ignore[import-not-found, import-untyped, unused-ignore]

from sparkring.spark.ml import _output as output_of
from sparkring.spark.ml._boost import matrix

if TYPE_CHECKING:
    from sparkring._core import Communicator
    from sparkring.spark.ml._batch import Batch
    from sparkring.spark.ml._plan import Plan


def train(comm: Communicator, plan: Plan, x: Any, own: Batch) -> bytes:
    """Train on all ranks; return the trees, the same on every rank."""
    with xgboost.collective.CommunicatorContext(**comm.xgboost_config()):
        data = xgboost.DMatrix(x, own.label, weight=own.weight)
        return bytes(xgboost.train(plan.modelParams, data, plan.epochs).save_raw())


class Predictor:
    """Trees that predict."""

    def __init__(self, plan: Plan, weights: bytes) -> None:
        self.plan, self.model = plan, xgboost.Booster(model_file=bytearray(weights))

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """Return the outputs of some rows."""
        output = self.model.predict(xgboost.DMatrix(matrix(inputs)))
        return output_of.arrays(output, self.plan.postprocess, self.plan.outputCols)
