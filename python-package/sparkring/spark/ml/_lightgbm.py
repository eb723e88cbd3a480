# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""Training and predictions with LightGBM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lightgbm  # type: ignore[import-not-found, import-untyped, unused-ignore]
from lightgbm.basic import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    _ConfigAliases,
)

from sparkring._core import InvalidError
from sparkring.spark.ml import _output as output_of
from sparkring.spark.ml._boost import matrix

if TYPE_CHECKING:
    from sparkring._core import Communicator
    from sparkring.spark.ml._batch import Batch
    from sparkring.spark.ml._plan import Plan

OF_DATASET = ("feature_name", "categorical_feature")
OWN = {
    "num_iterations": "pass rounds",
    "machines": "the ranks find each other",
    "machine_list_filename": "the ranks find each other",
    "num_machines": "pass numProc",
    "local_listen_port": "each rank chooses a port",
    "pre_partition": "each rank has rows of its own",
}
LEARNERS = ("data", "data_parallel", "voting", "voting_parallel")


def train(comm: Communicator, plan: Plan, x: Any, own: Batch) -> bytes:
    """Train on all ranks; return the trees, the same on every rank."""
    given = checked(plan.modelParams)
    arguments = {name: given.pop(name) for name in OF_DATASET if name in given}
    options = {"tree_learner": "data", "pre_partition": True, "verbosity": -1}
    parameters = {**options, **given, **comm.lightgbm_config()}
    data = lightgbm.Dataset(x, own.label, weight=own.weight, **arguments)
    return bytes(lightgbm.train(parameters, data, plan.epochs).model_to_string().encode())


def checked(parameters: dict[str, Any]) -> dict[str, Any]:
    """Name parameters as LightGBM's documentation does, and refuse those without an effect."""
    names = {"feature_name": "feature_name"}
    for name, aliases in _ConfigAliases._get_all_param_aliases().items():
        names.update(dict.fromkeys([name, *aliases], name))
    found: dict[str, Any] = {}
    for given, value in parameters.items():
        name = names.get(given)
        if name is None:
            raise InvalidError(f"LightGBM has no parameter {given!r}: leave it out")
        if name in OWN:
            raise InvalidError(f"the parameter {given!r} has no effect here: {OWN[name]}")
        if name in found:
            raise InvalidError(f"the parameter {name!r} is given twice: {given!r} is its alias")
        if name == "tree_learner" and value not in LEARNERS:
            raise InvalidError(
                f"tree_learner is {value!r}, which trains each rank on its own rows alone: pass"
                " 'data' or 'voting'"
            )
        found[name] = value
    return found


class Predictor:
    """Trees that predict."""

    def __init__(self, plan: Plan, weights: bytes) -> None:
        self.plan, self.model = plan, lightgbm.Booster(model_str=weights.decode())

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """Return the outputs of some rows."""
        output = self.model.predict(matrix(inputs))
        return output_of.arrays(output, self.plan.postprocess, self.plan.outputCols)
