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
from sparkring.spark.ml import _tree_parameters as tree_parameters
from sparkring.spark.ml import _tree_rank as tree_rank
from sparkring.spark.ml._tree_rank import Trained, TreeRows

if TYPE_CHECKING:
    from collections.abc import Container

    from sparkring._communicator import Communicator
    from sparkring.spark.ml._plan import Plan
    from sparkring.spark.ml._shard import Arrays

NEEDS_ROWS = False
OF_TRAIN = ("early_stopping_rounds", "maximize")
OF_MATRIX = ("enable_categorical", "feature_names", "feature_types", "feature_weights", "missing")
UNUSED = re.compile(r"Parameters: \{(.*)\} are not used")
BINARY = ("binary:logistic", "binary:logitraw")
CLASSES = ("multi:softmax", "multi:softprob")


def train(comm: Communicator, plan: Plan, own: TreeRows, valid: Arrays | None) -> Trained:
    """Train on all ranks; return the trees, the same on every rank."""
    width = own.x.shape[1]
    names = plan.modelParams.get("feature_names") or names_of(plan, width)
    given = {**seed_of(plan, plan.modelParams), **plan.modelParams}
    parameters = of_booster(given, width, names, plan.settings)
    check_ranks(comm.size, parameters, plan)
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
    trees = "".join(booster.get_dump())
    return Trained(bytes(booster.save_raw()), trees, found.get("validation", {}))


def matrix_of(rows: TreeRows, plan: Plan) -> Any:
    """Make the matrix of rows."""
    given = chosen(plan.modelParams, OF_MATRIX)
    given.setdefault("feature_names", names_of(plan, rows.x.shape[1]))
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


def names_of(plan: Plan, width: int) -> list[str] | None:
    """Name the features."""
    return tree_rank.feature_names(plan, width, "[]<")


def seed_of(plan: Plan, parameters: dict[str, Any]) -> dict[str, int]:
    """Return the seed of the estimator, unless the parameters have one."""
    return {} if {"seed", "random_state"} & parameters.keys() else {"seed": plan.seed}


def check_ranks(size: int, parameters: dict[str, Any], plan: Plan) -> None:
    """Refuse what XGBoost computes of each rank's own rows."""
    objective = str(parameters.get("objective", ""))
    if parameters.get("booster") == "gblinear":
        reason = "XGBoost fits the booster gblinear to each rank's own rows"
        tree_parameters.refuse_ranks(size, reason, "use a linear model of sparkring.models")
    if objective == "survival:cox":
        reason = "XGBoost takes the risk sets of survival:cox from each rank's own rows"
        tree_parameters.refuse_ranks(size, reason, "use CoxPH of sparkring.models")
    if parameters.get("lambdarank_unbiased"):
        reason = "XGBoost estimates lambdarank_unbiased from each rank's own rows"
        tree_parameters.refuse_ranks(size, reason, "leave it out")
    if objective == "survival:aft":
        remedy = tree_parameters.REMEDIES["xgboost"]["label_lower_bound"]
        raise InvalidError(f"survival:aft needs bounds of labels, which no column holds: {remedy}")
    if objective.startswith("rank:") and plan.qidCol is None:
        raise InvalidError(f"the objective {objective} needs queries: set qidCol")


def _numbered(groups: Any) -> tuple[Any, Any]:
    """Return the numbers of queries, and the rows of each: XGBoost takes 32 bits."""
    return np.arange(len(groups) - 1), np.diff(groups)


def chosen(parameters: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return some of the parameters."""
    return {name: value for name, value in parameters.items() if name in names}


def of_booster(
    parameters: dict[str, Any],
    width: int,
    names: list[str] | None = None,
    params: Container[str] = (),
) -> dict[str, Any]:
    """Return the other parameters, after a Booster has used all of them on a row of zeros."""
    others = OF_MATRIX + OF_TRAIN
    booster = {name: value for name, value in parameters.items() if name not in others}
    for name, value in booster.items():
        tree_parameters.check("xgboost", name)
        if name == "monotone_constraints" and isinstance(value, list):  # JSON has no tuples
            booster[name] = tuple(value)
    check = {**booster, "verbosity": 1, "validate_parameters": True}
    with warnings.catch_warnings(record=True) as found, xgboost.config_context(verbosity=1):
        warnings.simplefilter("always")
        row = xgboost.DMatrix(np.zeros((1, width)), np.zeros(1), feature_names=names)
        xgboost.Booster(check, [row]).save_config()
    for warning in found:
        unused = UNUSED.search(str(warning.message))
        if unused:
            for name in re.findall(r'"(\w+)"', unused[1]):
                tree_parameters.check("xgboost", name, params=params)
            raise InvalidError(
                f"XGBoost does not use the parameters {unused[1].strip()}: leave them out. Known"
                f" are those of its booster and objective, and {', '.join(others)}"
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
