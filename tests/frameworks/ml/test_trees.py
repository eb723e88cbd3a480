# SPDX-License-Identifier: Apache-2.0
"""Estimators of XGBoost and LightGBM, and their parameters."""

from __future__ import annotations

import digits
import networks
import numpy as np
import pytest


@pytest.mark.parametrize("framework", ["xgboost", "lightgbm"])
def test_trees(spark, framework, tmp_path):
    import sparkring
    from sparkring.spark import ml

    x, y = digits.load_digits(return_X_y=True)
    frame = spark.createDataFrame(
        [(row.tolist(), int(label), i % 4 == 0) for i, (row, label) in enumerate(zip(x, y))],
        "x array<double>, y int, test boolean",
    )
    if framework == "xgboost":
        fit, parameters = ml.fit_xgboost, {"objective": "multi:softmax", "max_depth": 3}
    else:
        fit, parameters = ml.fit_lightgbm, {"objective": "multiclass", "num_leaves": 8}
    model = fit(
        frame.where("NOT test"),
        {**parameters, "num_class": 10},
        25,
        inputCols=["x"],
        labelCol="y",
        numProc=2,
        verbose=0,
        postprocess=None if framework == "xgboost" else networks.likeliest,
    )
    model.save(f"{tmp_path}/model")
    loaded = type(model).load(f"{tmp_path}/model")
    with pytest.raises(sparkring.InvalidError, match="no history"):
        loaded.history  # noqa: B018 (a property)
    found = loaded.transform(frame.where("test"))
    assert found.where("prediction = y").count() / found.count() >= digits.ACCURACY


def tree_estimator(framework, **params):
    from sparkring.spark.ml import LightGBMEstimator, XGBoostEstimator

    kind = XGBoostEstimator if framework == "xgboost" else LightGBMEstimator
    return kind(**{"numProc": 2, "verbose": 0, "labelCol": "y", **params})


CLASSIFIERS = {
    "xgboost": {"objective": "binary:logistic", "enable_categorical": True, "eval_metric": "error"},
    "lightgbm": {"objective": "binary", "categorical_feature": ["code"], "metric": "binary_error"},
}


@pytest.mark.parametrize("framework", CLASSIFIERS)
def test_trees_in_a_pipeline(spark, framework, tmp_path):
    """Nulls, a categorical column, early stopping, names, and the outputs of classifiers."""
    from pyspark.ml import Pipeline, PipelineModel
    from pyspark.ml.evaluation import BinaryClassificationEvaluator

    parameters = {**CLASSIFIERS[framework], "early_stopping_rounds": 2, "max_depth": 2}
    if framework == "xgboost":
        parameters["feature_types"] = ["c", "q"]
    estimator = tree_estimator(
        framework, modelParams=parameters, inputCols=["code", "x.1"], validation="held", rounds=50
    )
    Pipeline(stages=[estimator]).save(f"{tmp_path}/pipeline")
    pipeline = Pipeline.load(f"{tmp_path}/pipeline")
    frame = spark.range(0, 400, 1, 2).selectExpr(
        "if(id % 10 = 3, NULL, int(id * 7 % 20)) code",
        "if(id % 4 = 0, NULL, rand(1)) `x.1`",
        "double(id % 2) y",
        # Rank 0 of XGBoost has no row to train on; LightGBM needs rows on every rank.
        "id % 5 = 0 OR id < 200 held" if framework == "xgboost" else "id % 5 = 0 held",
    )
    model = pipeline.fit(frame)
    model.save(f"{tmp_path}/model")
    rows = PipelineModel.load(f"{tmp_path}/model").transform(frame)
    assert rows.where("prediction = y").count() >= 360  # a null may be of either class
    assert rows.schema["prediction"].dataType.simpleString() == "double"
    assert BinaryClassificationEvaluator(labelCol="y").evaluate(rows) > 0.8
    first = rows.select("prediction", "probability", "rawPrediction").first()
    assert first["probability"].toArray().sum() == pytest.approx(1)
    assert first["rawPrediction"][0] == -first["rawPrediction"][1]
    assert (first["probability"][1] > 0.5) == first["prediction"] == (first["rawPrediction"][1] > 0)
    trees = model.stages[0]
    assert trees.history.columns == [
        "epoch",
        f"val_{parameters.get('eval_metric', 'binary_error')}",
    ]
    assert trees.history.count() < 50
    booster = trees.network()
    names = booster.feature_names if framework == "xgboost" else booster.feature_name()
    assert names == ["code", "x.1"]
    if framework == "xgboost":
        assert booster.feature_types == ["c", "q"]
    renamed = trees.copy({trees.outputCols: ["class"]})
    assert renamed.transform(frame).columns == [*frame.columns, "class"]


@pytest.mark.parametrize(
    ("framework", "objective"), [("xgboost", "rank:ndcg"), ("lightgbm", "lambdarank")]
)
def test_rankings_and_margins(spark, framework, objective):
    import sparkring

    frame = spark.range(0, 300, 1, 3).selectExpr(
        "concat('q', id % 30) q", "rand(1) a", "rand(2) b", "int(3 * rand(1)) y", "10 * rand(3) m"
    )
    ranked = tree_estimator(
        framework,
        modelParams={"objective": objective},
        inputCols=["a", "b"],
        qidCol="q",
        rounds=10,
    )
    rows = ranked.fit(frame).transform(frame).toPandas()
    best = [group.y[group.prediction.idxmax()] == group.y.max() for _, group in rows.groupby("q")]
    assert np.mean(best) > 0.9
    with pytest.raises(sparkring.InvalidError, match="qidCol is 'b' of type double"):
        ranked.copy({ranked.qidCol: "b"}).fit(frame)

    parameters = {} if framework == "xgboost" else {"objective": "regression"}
    margins = tree_estimator(
        framework,
        modelParams=parameters,
        inputCols=["a"],
        labelCol="sum",
        baseMarginCol="m",
        rounds=20,
    )
    frame = frame.selectExpr("*", "a + m AS sum")
    rows = margins.fit(frame).transform(frame).toPandas()
    assert np.abs(rows["prediction"] - rows["sum"]).max() < 0.5


@pytest.mark.parametrize("framework", ["xgboost", pytest.param("lightgbm", marks=pytest.mark.long)])
def test_trees_are_cross_validated(spark, framework):
    from pyspark.ml.evaluation import RegressionEvaluator
    from pyspark.ml.tuning import CrossValidator

    frame = spark.range(0, 200, 1, 2).selectExpr("rand(1) x", "rand(1) * 2 y")
    estimator = tree_estimator(framework, inputCols=["x"], numProc=1)
    folds = CrossValidator(
        estimator=estimator,
        estimatorParamMaps=[{estimator.rounds: 1}, {estimator.rounds: 20}],
        evaluator=RegressionEvaluator(labelCol="y"),
        numFolds=2,
        parallelism=2,
        seed=1,
    )
    model = folds.fit(frame)
    assert model.avgMetrics[1] < model.avgMetrics[0]
    booster = model.bestModel.network()
    rounds = booster.num_boosted_rounds if framework == "xgboost" else booster.num_trees
    assert rounds() == 20


def test_parameters_of_trees_are_used_or_refused():
    import sparkring
    from sparkring.spark.ml import _lightgbm, _xgboost

    used = {"objective": "reg:squarederror", "max_depth": 2, "eval_metric": ["mae", "rmse"]}
    of_matrix = {"enable_categorical": True, "feature_types": ["c", "q"]}
    assert _xgboost.of_booster({**used, **of_matrix}, 2) == used
    assert _xgboost.chosen({**used, **of_matrix}, _xgboost.OF_MATRIX) == of_matrix
    with pytest.raises(sparkring.InvalidError, match=r'not use .*"depth", "height"'):
        _xgboost.of_booster({**used, "verbosity": 0, "height": 3, "depth": 2}, 2)
    assert _lightgbm.checked({"num_leaf": 3, "cat_feature": [0], "feature_name": ["a"]}) == {
        "num_leaves": 3,
        "categorical_feature": [0],
        "feature_name": ["a"],
    }
    for parameters, text in [
        ({"nonsense": 3}, "no parameter 'nonsense'"),
        ({"num_trees": 3}, "'num_trees' has no effect here: pass rounds"),
        ({"num_leaf": 3, "num_leaves": 4}, "'num_leaves' is given twice"),
        ({"tree": "serial"}, "trains each rank on its own rows alone"),
    ]:
        with pytest.raises(sparkring.InvalidError, match=text):
            _lightgbm.checked(parameters)
