# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""Training and predictions with XGBoost."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import xgboost  # type: ignore[import-not-found, import-untyped, unused-ignore]

from sparkring._core import InvalidError
from sparkring.spark.ml import _tree_rank as tree_rank
from sparkring.spark.ml._tree_rank import Trained, TreeRows

if TYPE_CHECKING:
    from sparkring._core import Communicator
    from sparkring.spark.ml._plan import Plan
    from sparkring.spark.ml._shard import Arrays

NEEDS_ROWS = False
OF_TRAIN = ("early_stopping_rounds", "maximize")
OF_MATRIX = ("enable_categorical", "feature_names", "feature_types", "missing")
UNUSED = re.compile(r"Parameters: \{(.*)\} are not used")
BINARY = ("binary:logistic", "binary:logitraw")
CLASSES = ("multi:softmax", "multi:softprob")


def train(comm: Communicator, plan: Plan, own: TreeRows, valid: Arrays | None) -> Trained:
    """Train on all ranks; return the trees, the same on every rank."""
    parameters = of_booster(plan.modelParams, own.x.shape[1])
    options = chosen(plan.modelParams, OF_TRAIN)
    if "early_stopping_rounds" in options and valid is None:
        raise InvalidError(
            "early_stopping_rounds needs validation: a column, or a fraction of rows"
        )
    found: dict[str, dict[str, list[float]]] = {}
    with xgboost.collective.CommunicatorContext(**comm.xgboost_config()):
        evals = []
        if valid is not None:
            evals.append((matrix_of(tree_rank.rows_of(valid), plan), "validation"))
        data = matrix_of(own, plan)
        booster = xgboost.train(
            parameters,
            data,
            plan.epochs,
            evals=evals,
            evals_result=found,
            verbose_eval=False,
            **options,
        )
    if "early_stopping_rounds" in options and parameters.get("booster") != "gblinear":
        booster = booster[: booster.best_iteration + 1]
    # XGBoost itself takes them over from a matrix with rows only.
    booster.feature_names, booster.feature_types = data.feature_names, data.feature_types
    return Trained(bytes(booster.save_raw()), found.get("validation", {}))


def matrix_of(rows: TreeRows, plan: Plan) -> Any:
    """Make the matrix of rows."""
    given = chosen(plan.modelParams, OF_MATRIX)
    given.setdefault("feature_names", tree_rank.feature_names(plan, rows.x.shape[1], "[]<"))
    weight = rows.weight
    if rows.query is not None and weight is not None:  # XGBoost weights queries
        starts = rows.groups()[:-1]
        if (weight != np.repeat(weight[starts], np.diff(rows.groups()))).any():
            raise InvalidError(
                "weightCol differs within a query of qidCol: XGBoost weights queries"
            )
        weight = weight[starts]
    query = None if rows.query is None else np.repeat(*_numbered(rows.groups()))
    return xgboost.DMatrix(
        rows.x, rows.label, weight=weight, qid=query, base_margin=rows.margin, **given
    )


def _numbered(groups: Any) -> tuple[Any, Any]:
    """Return the numbers of queries, and the rows of each: XGBoost takes 32 bits."""
    return np.arange(len(groups) - 1), np.diff(groups)


def chosen(parameters: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return some of the parameters."""
    return {name: value for name, value in parameters.items() if name in names}


def of_booster(parameters: dict[str, Any], width: int) -> dict[str, Any]:
    """Return the other parameters, after a Booster without rows has used all of them."""
    others = OF_MATRIX + OF_TRAIN
    booster = {name: value for name, value in parameters.items() if name not in others}
    check = {**booster, "num_feature": width, "verbosity": 1, "validate_parameters": True}
    with warnings.catch_warnings(record=True) as found, xgboost.config_context(verbosity=1):
        warnings.simplefilter("always")
        xgboost.Booster(check).save_config()
    for warning in found:
        unused = UNUSED.search(str(warning.message))
        if unused:
            raise InvalidError(
                f"XGBoost does not use the parameters {unused[1].strip()}: leave them out, and pass"
                " the number of trees as rounds. Known are those of its booster and objective,"
                f" and {', '.join(others)}"
            )
    return booster


class Predictor:
    """Trees that predict."""

    def __init__(self, plan: Plan, weights: bytes) -> None:
        self.plan, self.model = plan, xgboost.Booster(model_file=bytearray(weights))

    def __call__(self, inputs: list[Any], margin: Any = None) -> list[Any]:
        """Return the outputs of some rows."""
        given = chosen(self.plan.modelParams, OF_MATRIX)
        given["feature_names"] = self.model.feature_names
        data = xgboost.DMatrix(tree_rank.matrix(inputs), base_margin=margin, **given)
        objective = self.plan.modelParams.get("objective")
        if self.plan.postprocess is not None or objective not in BINARY + CLASSES:
            return tree_rank.outputs_of([self.model.predict(data)], self.plan)
        raw = self.model.predict(data, output_margin=True)
        to_probability = tree_rank.sigmoid if objective in BINARY else tree_rank.softmax
        return tree_rank.outputs_of(tree_rank.scores(raw, to_probability(raw)), self.plan)
