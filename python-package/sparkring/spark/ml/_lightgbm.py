# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""Training and predictions with LightGBM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lightgbm  # type: ignore[import-not-found, import-untyped, unused-ignore]

from sparkring.spark.ml import _output as output_of
from sparkring.spark.ml._boost import matrix

if TYPE_CHECKING:
    from sparkring._core import Communicator
    from sparkring.spark.ml._batch import Batch
    from sparkring.spark.ml._plan import Plan


def train(comm: Communicator, plan: Plan, x: Any, own: Batch) -> bytes:
    """Train on all ranks; return the trees, the same on every rank."""
    options = {"tree_learner": "data", "pre_partition": True, "verbose": -1}
    parameters = {**options, **plan.modelParams, **comm.lightgbm_config()}
    data = lightgbm.Dataset(x, own.label, weight=own.weight)
    return bytes(lightgbm.train(parameters, data, plan.epochs).model_to_string().encode())


class Predictor:
    """Trees that predict."""

    def __init__(self, plan: Plan, weights: bytes) -> None:
        self.plan, self.model = plan, lightgbm.Booster(model_str=weights.decode())

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """Return the outputs of some rows."""
        output = self.model.predict(matrix(inputs))
        return output_of.arrays(output, self.plan.postprocess, self.plan.outputCols)
