# SPDX-License-Identifier: Apache-2.0
"""Each parameter of XGBoost's and LightGBM's interfaces is used, or refused by its name."""

from __future__ import annotations

import inspect
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ranks import open_comm, run

HOME = os.environ.get("SPARK_HOME")
if HOME:
    sys.path += map(str, Path(HOME).glob("python/lib/*.zip"))

pytestmark = pytest.mark.skipif(not HOME, reason="SPARK_HOME names no Spark, as scripts/test does")

DATA = {"self", "data", "X", "y", "dtrain", "train_set"}
# Parameters, and whether two ranks get the trees that one process gets from all rows.
XGBOOST = [
    ({}, True),
    ({"monotone_constraints": {"b": 1}}, None),
    ({"feature_weights": [0.0, 1.0, 0.0], "colsample_bytree": 0.34}, True),
    ({"interaction_constraints": [["a"], ["b", "c"]]}, True),
    ({"monotone_constraints": [-1, 0, 0]}, True),  # JSON makes lists of tuples
    ({"objective": "reg:quantileerror", "quantile_alpha": 0.9}, None),
    ({"booster": "gblinear"}, "gblinear to each rank's own rows, .* 2 ranks: set numProc to 1"),
    ({"objective": "survival:cox"}, "or use CoxPH of sparkring.models"),
    ({"objective": "survival:aft"}, r"survival:aft needs bounds of labels.*xgboost.train\(\)"),
    ({"objective": "rank:ndcg"}, "the objective rank:ndcg needs queries: set qidCol"),
]
LIGHTGBM = [
    ({}, True),
    ({"tree_learner": "voting"}, None),
    ({"feature_contri": [0.1, 1.0, 1.0], "extra_trees": True}, None),
    ({"linear_tree": True}, "linear_tree for one machine only, and there are 2 ranks"),
    ({"interaction_constraints": [[0], [1, 2]]}, "or use XGBoostEstimator"),
    ({"monotone_constraints_method": "advanced"}, "or pass 'basic'"),
]

CASES = [("xgboost", *case) for case in XGBOOST] + [("lightgbm", *case) for case in LIGHTGBM]


def names_of(*functions):
    """List the arguments of functions."""
    found = {name for each in functions for name in inspect.signature(each).parameters}
    return sorted(found - DATA)


def test_parameters_of_xgboost_have_an_effect_or_a_remedy():
    import sparkring
    import xgboost
    from sparkring.spark.ml import _xgboost

    def accepts(name):
        try:
            _xgboost.of_booster({name: 1}, 3, ["a", "b", "c"])
        except (AttributeError, TypeError, ValueError, xgboost.core.XGBoostError) as error:
            if isinstance(error, sparkring.InvalidError):
                assert re.match(f"the parameter '{name}' has no effect here: ", str(error))
                return False
        return True

    model = xgboost.XGBModel
    names = names_of(xgboost.train, xgboost.DMatrix, model, model.fit, xgboost.XGBRanker.fit)
    used = {name for name in names if accepts(name)}
    assert {"max_depth", "eval_metric", "random_state", "feature_weights", "missing"} <= used
    assert not {"n_estimators", "xgb_model", "callbacks", "qid", "label", "verbose"} & used


def test_parameters_of_lightgbm_have_an_effect_or_a_remedy():
    import lightgbm
    import sparkring
    from sparkring.spark.ml import _lightgbm

    def accepts(name):
        try:
            _lightgbm.checked({name: "data"})
        except sparkring.InvalidError as error:
            assert re.match(f"the parameter '{name}' has no effect here: ", str(error))
            return False
        return True

    model = lightgbm.LGBMModel
    names = names_of(lightgbm.train, lightgbm.Dataset, lightgbm.cv, model, model.fit)
    aliases = lightgbm.basic._ConfigAliases._get_all_param_aliases()
    used = {name for name in {*names, *aliases} if accepts(name)}
    assert {"max_depth", "metric", "random_state", "feature_name"} <= used
    assert not {"n_estimators", "weight_column", "predict_raw_score", "two_round", "task"} & used


def test_remedies_exist():
    from sparkring.spark.ml import LightGBMEstimator, XGBoostEstimator, _tree_parameters

    kinds = {"xgboost": XGBoostEstimator, "lightgbm": LightGBMEstimator}
    for framework, remedies in _tree_parameters.REMEDIES.items():
        for remedy in remedies.values():
            for name in re.findall(r"\bset (\w+)", remedy):
                assert kinds[framework]().hasParam(name), name
    with pytest.raises(TypeError, match=r"no Param 'missing': .* go into modelParams"):
        XGBoostEstimator(missing=0.0)


def rows():
    random = np.random.default_rng(1)
    x = random.integers(0, 8, (200, 3)).astype(float)
    return x, x[:, 0] - 10 * (x[:, 1] > 3) + x[:, 2] ** 2 / 8


def train():
    """Train trees on the rows of both ranks; return predictions, or the texts of errors."""
    for path in Path(HOME).glob("python/lib/*.zip"):
        sys.path.append(str(path))
    import sparkring
    from sparkring.spark.ml import _plan, _tree_rank

    found = []
    with open_comm() as comm:
        x, y = rows()
        mine = slice(comm.rank, None, comm.size)
        own = _tree_rank.TreeRows(x[mine], y[mine], None, None, None)
        for framework, parameters, _ in CASES:
            plan = SimpleNamespace(**SETTINGS, settings=SETTINGS, modelParams=parameters)
            plan.module = _plan.importlib.import_module(_plan.MODULES[framework])
            try:
                trained = plan.module.train(comm, plan, own, None)
                _tree_rank.check_alike(comm, trained)
                found.append(plan.module.Predictor(plan, trained.weights)([x])[0])
            except sparkring.InvalidError as error:
                found.append(str(error))
    return found


SETTINGS = {
    "epochs": 3,
    "seed": 0,
    "inputCols": ["a", "b", "c"],
    "labels": [("a", None), ("b", None), ("c", None)],
    "shapes": [[], [], []],
    "transformation": None,
    "postprocess": None,
    "outputCols": None,
    "baseMarginCol": None,
    "qidCol": None,
}


def test_trees_of_two_ranks():
    for (framework, parameters, expected), first, second in zip(CASES, *run(2, train)):
        if isinstance(expected, str):
            assert first == second
            assert re.search(expected, first)
            continue
        assert np.array_equal(first, second), parameters
        if expected:
            assert first == pytest.approx(alone(framework, parameters), rel=1e-5), parameters


def alone(framework, parameters):
    """Train on all rows without sparkring."""
    x, y = rows()
    if framework == "lightgbm":
        import lightgbm

        return lightgbm.train({"verbosity": -1, **parameters}, lightgbm.Dataset(x, y), 3).predict(x)
    import xgboost

    weights = {"feature_weights": parameters.get("feature_weights")}
    others = {
        name: tuple(value) if name == "monotone_constraints" else value
        for name, value in parameters.items()
        if name not in weights
    }
    matrix = xgboost.DMatrix(x, y, feature_names=["a", "b", "c"], **weights)
    return xgboost.train(others, matrix, 3).predict(matrix)


@pytest.mark.parametrize(("framework", "name"), [("xgboost", "random_state"), ("lightgbm", "seed")])
def test_seed_of_the_estimator(framework, name):
    from sparkring.spark.ml import _plan

    module = _plan.importlib.import_module(_plan.MODULES[framework])
    assert module.seed_of(SimpleNamespace(seed=7), {}) == {"seed": 7}
    assert module.seed_of(SimpleNamespace(seed=7), {name: 3}) == {}
