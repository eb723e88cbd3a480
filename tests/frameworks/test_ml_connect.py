# SPDX-License-Identifier: Apache-2.0
"""Estimators of sparkring.spark.ml through Spark Connect, in a pipeline of Spark 4.

CONNECT_HOME names the PySpark of .venv/connect, which brings the server, as scripts/test does.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import networks
import numpy as np
import pytest

HOME = os.environ.get("CONNECT_HOME")
QUIET = Path(__file__).parents[2] / "demo" / "log4j2.properties"

pytestmark = pytest.mark.skipif(
    not HOME, reason="CONNECT_HOME names no Spark, as scripts/test does"
)


@pytest.fixture(scope="module")
def connected():
    """A session of Spark Connect; its server is started for it."""
    if HOME:
        sys.path[:0] = [*map(str, Path(HOME).glob("python/lib/*.zip"))]
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tries to set again what the server was started with
        patch.setenv("SPARK_HOME", str(HOME))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = (
            SparkSession.builder.remote("local[2]")
            .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={QUIET.as_uri()}")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
    yield session
    session.stop()


def test_a_pipeline(connected, tmp_path):
    from pyspark.ml import Pipeline, PipelineModel
    from pyspark.ml.feature import VectorAssembler
    from sparkring.spark.ml import TorchEstimator

    table = connected.range(100).selectExpr("id", *(f"rand({i}) x{i}" for i in (1, 2, 3)))
    table = table.selectExpr("*", "x1 * x2 - x3 label")
    features = VectorAssembler(inputCols=["x1", "x2", "x3"], outputCol="features")
    estimator = TorchEstimator(
        model=networks.dense,
        loss=networks.square,
        optimizer=networks.sgd,
        inputCols=["features"],
        batchSize=20,
        epochs=2,
        validation=0.2,
        numProc=2,
        verbose=0,
    )
    pipeline = Pipeline(stages=[features, estimator])
    pipeline.write().overwrite().save(f"{tmp_path}/pipeline")
    model = Pipeline.load(f"{tmp_path}/pipeline").fit(table)
    model.write().overwrite().save(f"{tmp_path}/model")
    loaded = PipelineModel.load(f"{tmp_path}/model")
    expected = model.transform(table).select("id", "prediction").collect()
    assert loaded.transform(table).select("id", "prediction").collect() == expected
    assert np.isfinite([row["prediction"] for row in expected]).all()
    assert loaded.stages[1].history.count() == 2
    vector = loaded.stages[1].setOutputTypes(["vector"])
    assert vector.getOutputTypes() == ["vector"]


def test_tuning(connected):
    from pyspark.ml.evaluation import RegressionEvaluator
    from pyspark.ml.tuning import TrainValidationSplit
    from sparkring.spark.ml import TorchEstimator

    table = connected.range(100).selectExpr("rand(1) x", "rand(2) label")
    estimator = TorchEstimator(
        model=networks.dense,
        loss=networks.square,
        optimizer=networks.sgd,
        modelParams={"inputs": 1},
        inputCols=["x"],
        transformation=networks.column,
        data="parquet",
        numProc=1,
        verbose=0,
    )
    split = TrainValidationSplit(
        estimator=estimator,
        estimatorParamMaps=[{estimator.epochs: 1}, {estimator.epochs: 2}],
        evaluator=RegressionEvaluator(),
        parallelism=2,
    )
    model = split.fit(table)
    assert len(model.validationMetrics) == 2
    assert model.bestModel.history.count() in (1, 2)


@pytest.mark.parametrize("framework", ["XGBoost", "LightGBM"])
def test_trees(connected, framework, tmp_path):
    from pyspark.ml import PipelineModel
    from sparkring.spark import ml

    estimator = getattr(ml, f"{framework}Estimator")(
        modelParams={"objective": "binary:logistic" if framework == "XGBoost" else "binary"},
        inputCols=["a.b", "c"],
        rounds=20,
        numProc=2,
        verbose=0,
    )
    table = connected.range(200).selectExpr("id", "rand(1) `a.b`", "if(id % 3 = 0, NULL, 1) c")
    table = table.selectExpr("*", "double(`a.b` > 0.5) label")
    PipelineModel([estimator.fit(table)]).save(f"{tmp_path}/model")
    model = PipelineModel.load(f"{tmp_path}/model")
    rows = model.transform(table).select("label", "prediction", "probability").collect()
    assert sum(row["label"] == row["prediction"] for row in rows) >= 195
    booster = model.stages[0].network()
    names = booster.feature_names if framework == "XGBoost" else booster.feature_name()
    assert names == ["a.b", "c"]
