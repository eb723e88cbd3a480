# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""Training and predictions with LightGBM."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import lightgbm  # type: ignore[import-not-found, import-untyped, unused-ignore]
import numpy as np
from lightgbm.basic import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    _ConfigAliases,
)

from sparkring._core import InvalidError
from sparkring.spark.ml import _tree_parameters as tree_parameters
from sparkring.spark.ml import _tree_rank as tree_rank
from sparkring.spark.ml._tree_rank import Trained, TreeRows

if TYPE_CHECKING:
    from collections.abc import Container

    from sparkring._communicator import Communicator
    from sparkring.spark.ml._plan import Plan
    from sparkring.spark.ml._shard import Arrays

NEEDS_ROWS = True
OF_DATASET = ("feature_name", "categorical_feature")
OF_TREES = "^(?:split_feature|threshold|leaf_value|leaf_coeff)=.*"  # counts may be a rank's own
LEARNERS = ("data", "data_parallel", "voting", "voting_parallel")


BINARY = ("binary",)
CLASSES = ("multiclass", "softmax")
ONE_OF_ALL = ("multiclassova", "multiclass_ova", "ova", "ovr")
IDENTITY = (
    "regression",
    "regression_l2",
    "regression_l1",
    "l1",
    "l2",
    "mae",
    "mse",
    "huber",
    "fair",
)
LOGARITHM = ("poisson", "gamma", "tweedie")


def train(comm: Communicator, plan: Plan, own: TreeRows, valid: Arrays | None) -> Trained:
    """Train on all ranks; return the trees, the same on every rank.

    LightGBM computes metrics of a rank's own rows. So all ranks get all rows for validation, and
    stop in the same round.
    """
    given = checked(plan.modelParams, plan.settings)
    check_ranks(comm.size, given)
    given.update(seed_of(plan, given))
    if plan.baseMarginCol is not None:
        inverse_of(objective_of(given))
    arguments = {name: given.pop(name) for name in OF_DATASET if name in given}
    names = tree_rank.feature_names(plan, own.x.shape[1], ' []{}":,')
    arguments.setdefault("feature_name", names or "auto")
    if "early_stopping_round" in given and valid is None:
        raise InvalidError(
            "early_stopping_rounds needs validation: a column, or a fraction of rows"
        )
    options = {"tree_learner": "data", "pre_partition": True, "verbosity": -1}
    data = dataset(own, arguments, None)
    others = []
    if valid is not None:
        parts = comm.allgather_object({name: np.array(values) for name, values in valid.items()})
        whole = {name: np.concatenate([part[name] for part in parts]) for name in valid}
        others = [dataset(tree_rank.rows_of(whole), arguments, data)]
    found: dict[str, dict[str, list[float]]] = {}
    booster = lightgbm.train(
        {**options, **given, **comm.lightgbm_config()},
        data,
        plan.epochs,
        valid_sets=others,
        valid_names=["validation"] * len(others),
        callbacks=[lightgbm.record_evaluation(found)] if others else None,
    )
    model = booster.model_to_string()
    trees = "".join(re.findall(OF_TREES, model, re.MULTILINE))
    return Trained(model.encode(), trees, dict(found.get("validation", {})))


def dataset(rows: TreeRows, arguments: dict[str, Any], reference: Any) -> Any:
    """Make the Dataset of rows."""
    group = None if rows.query is None else np.diff(rows.groups())
    return lightgbm.Dataset(
        rows.x,
        rows.label,
        reference=reference,
        weight=rows.weight,
        group=group,
        init_score=rows.margin,
        **arguments,
    )


def objective_of(given: dict[str, Any]) -> str:
    """Name the objective of checked parameters."""
    return str(given.get("objective", "regression"))


def inverse_of(objective: str, slope: float = 1.0) -> Any:
    """Return the function that makes predictions of margins."""
    if objective in IDENTITY:
        return np.asarray
    if objective in LOGARITHM:
        return np.exp
    if objective in BINARY + ONE_OF_ALL:
        return lambda margin: tree_rank.sigmoid(slope * margin)
    if objective in CLASSES:
        return tree_rank.softmax
    raise InvalidError(f"baseMarginCol has no meaning for the objective {objective!r} here")


def seed_of(plan: Plan, given: dict[str, Any]) -> dict[str, int]:
    """Return the seed of the estimator, unless the parameters have one; 0 leaves LightGBM's."""
    return {} if "seed" in given or not plan.seed else {"seed": plan.seed % 2**31}


def check_ranks(size: int, given: dict[str, Any]) -> None:
    """Refuse what LightGBM has on one machine only, and would change or crash on with several."""
    remedies = {
        "linear_tree": "leave it out",
        "interaction_constraints": "use XGBoostEstimator",
        "forcedsplits_filename": "leave it out",
    }
    for name, remedy in remedies.items():
        if given.get(name):
            reason = f"LightGBM has {name} for one machine only"
            tree_parameters.refuse_ranks(size, reason, remedy)
    if given.get("monotone_constraints_method", "basic") != "basic":
        reason = "LightGBM has only the monotone_constraints_method 'basic' for several machines"
        tree_parameters.refuse_ranks(size, reason, "pass 'basic'")


def checked(parameters: dict[str, Any], params: Container[str] = ()) -> dict[str, Any]:
    """Name parameters as LightGBM's documentation does, and refuse those without an effect."""
    names = {"feature_name": "feature_name"}
    for name, aliases in _ConfigAliases._get_all_param_aliases().items():
        names.update(dict.fromkeys([name, *aliases], name))
    found: dict[str, Any] = {}
    for given, value in parameters.items():
        name = names.get(given)
        if name is None:
            tree_parameters.check("lightgbm", given, params=params)
            raise InvalidError(f"LightGBM has no parameter {given!r}: leave it out")
        tree_parameters.check("lightgbm", name, given)
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

    def __call__(self, inputs: list[Any], margin: Any = None) -> list[Any]:
        """Return the outputs of some rows. LightGBM itself adds no margins to predictions."""
        x, given = tree_rank.matrix(inputs), checked(self.plan.modelParams)
        objective = objective_of(given)
        is_classifier = objective in BINARY + CLASSES + ONE_OF_ALL
        if margin is None and (self.plan.postprocess is not None or not is_classifier):
            return tree_rank.outputs_of([self.model.predict(x)], self.plan)
        raw = self.model.predict(x, raw_score=True) + (0 if margin is None else margin)
        if margin is None:
            found = self.model.predict(x)
        else:
            found = inverse_of(objective, float(given.get("sigmoid", 1.0)))(raw)
        if self.plan.postprocess is not None or not is_classifier:
            return tree_rank.outputs_of([found], self.plan)
        return tree_rank.outputs_of(tree_rank.scores(raw, found), self.plan)
