# SPDX-License-Identifier: Apache-2.0
"""Estimators of sparkring.spark.ml train real networks in the executors of a local cluster."""

from __future__ import annotations

import io
import os
import shutil
import sys
import zipfile
from pathlib import Path

import digits
import networks
import numpy as np
import pytest

HOME = os.environ.get("SPARK_HOME")
ROOT = Path(__file__).parents[2]
QUIET = ROOT / "demo" / "log4j2.properties"

if HOME:
    sys.path += [str(ROOT / "tests" / "spark"), *map(str, Path(HOME).glob("python/lib/*.zip"))]

pytestmark = pytest.mark.skipif(not HOME, reason="SPARK_HOME names no Spark, as scripts/test does")


@pytest.fixture(scope="module")
def spark():
    """A session with two executors of two cores each."""
    import cluster
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = (
            SparkSession.builder.master("local-cluster[2,2,1024]")
            .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={QUIET.as_uri()}")
            .config("spark.executor.extraJavaOptions", cluster.SMALL)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.rpc.message.maxSize", "24")
            .config("spark.python.daemon.module", "daemon_with_torch")
            .getOrCreate()
        )
        try:
            cluster.wait_for_executors(session.sparkContext, 2)
            yield session
        finally:
            cluster.stop(session)


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    """Return 203 rows of three numbers, sorted by the label, in files: executors are killed."""
    path = str(tmp_path_factory.mktemp("table") / "rows")
    frame = spark.range(203).selectExpr("id", *(f"rand({seed}) x{seed}" for seed in (1, 2, 3)))
    frame = frame.selectExpr("*", "x1 * x2 - x3 label", "cast(id % 3 as double) weight")
    frame.sort("label").write.parquet(path)
    return spark.read.parquet(path)


@pytest.fixture(scope="module")
def vectors(table):
    return assembler().transform(table)


def assembler():
    from pyspark.ml.feature import VectorAssembler

    return VectorAssembler(inputCols=["x1", "x2", "x3"], outputCol="features")


def torch_estimator(**params):
    from sparkring.spark.ml import TorchEstimator

    usual = {
        "model": "networks:dense",
        "loss": networks.square,
        "optimizer": networks.sgd,
        "inputCols": ["features"],
        "batchSize": 50,
        "epochs": 2,
        "numProc": 1,
        "verbose": 0,
    }
    return TorchEstimator(**{**usual, **params})


def weights_of(model):
    return np.concatenate([each.numpy().ravel() for each in model.network().state_dict().values()])


def numbers_of(model, *names):
    rows = model.history.select(*names).collect()
    return np.array([tuple(row) for row in rows])


# ---- Training


WEIGHTED = {"weightCol": "weight", "validation": 0.2, "batchSize": 30, "epochs": 3}


@pytest.fixture(scope="module")
def one(vectors):
    """Return the model of one rank."""
    return torch_estimator(**WEIGHTED).fit(vectors)


def test_four_ranks_get_the_weights_of_one(vectors, one):
    four = torch_estimator(**WEIGHTED, numProc=4).fit(vectors)
    assert np.abs(weights_of(one) - weights_of(four)).max() <= 1e-5
    names = ("epoch", "loss", "val_loss", "learning_rate")
    assert np.allclose(numbers_of(one, *names), numbers_of(four, *names), atol=1e-5)
    assert one.history.columns == [*names, "seconds"]
    assert numbers_of(one, "epoch", "learning_rate").tolist() == [[0, 0.1], [1, 0.1], [2, 0.1]]
    loss = numbers_of(one, "loss")
    assert loss[-1] < loss[0] / 2


def test_a_rank_without_rows(spark, vectors):
    """Four ranks and three rows: each epoch is a step of gradient descent over all rows."""
    import torch

    rows = vectors.collect()[:3]
    frame = spark.createDataFrame(rows, vectors.schema)
    model = torch_estimator(model=networks.counting, numProc=4).fit(frame)
    torch.manual_seed(0)
    network = networks.dense({})
    optimizer = networks.sgd({}, network.parameters())
    x = torch.tensor(np.array([row["features"].toArray() for row in rows], np.float32))
    y = torch.tensor([row["label"] for row in rows], dtype=torch.float32)
    for _ in range(2):
        optimizer.zero_grad()
        ((network(x)[:, 0] - y) ** 2).mean().backward()
        optimizer.step()
    trained = model.network()
    # Two rows a step where there is one; after each epoch the mean of all ranks.
    assert trained.seen == ((2 * 3 / 4 + 2) * 3 + 2 * 3 / 4) / 4
    for one, other in zip(trained.parameters(), network.parameters()):
        assert (one - other).abs().max() <= 1e-6


# ---- Saving


def test_a_pipeline_is_saved_and_loaded(table, tmp_path):
    from pyspark.errors import AnalysisException
    from pyspark.ml import Pipeline, PipelineModel

    pipeline = Pipeline(stages=[assembler(), torch_estimator(seed=3, modelParams={"width": 4})])
    pipeline.save(f"{tmp_path}/pipeline")
    loaded = Pipeline.load(f"{tmp_path}/pipeline")
    estimator = loaded.getStages()[1]
    assert estimator.getModelParams() == {"width": 4}
    assert estimator.uid == pipeline.getStages()[1].uid
    assert estimator.getOrDefault("loss") == "networks:square"

    model = loaded.fit(table)
    model.save(f"{tmp_path}/model")
    with pytest.raises(AnalysisException, match="already exists"):
        model.stages[1].save(f"{tmp_path}/model/stages/1_{estimator.uid}")
    model.write().overwrite().save(f"{tmp_path}/model")
    again = PipelineModel.load(f"{tmp_path}/model")
    expected = model.transform(table).select("id", "prediction")
    assert expected.schema["prediction"].dataType.simpleString() == "float"
    assert again.transform(table).select("id", "prediction").collect() == expected.collect()
    network = again.stages[1].network()
    features = np.array(table.select("x1", "x2", "x3").collect(), np.float32)
    import torch

    with torch.no_grad():
        output = network(torch.from_numpy(features))[:, 0].numpy()
    assert np.allclose([row["prediction"] for row in expected.collect()], output, atol=1e-6)
    assert again.stages[1].history.collect() == model.stages[1].history.collect()


def test_a_function_without_an_import_path(spark, tmp_path):
    import sparkring
    import torch
    from sparkring.spark.ml import TorchModel

    width = 5
    model = TorchModel(model=lambda params: networks.dense({"width": width}))
    file = io.BytesIO()
    torch.save(networks.dense({"width": width}).state_dict(), file)
    model._weights = file.getvalue()
    with pytest.raises(sparkring.InvalidError, match="model is a function without an import path"):
        model.save(f"{tmp_path}/model")
    model.setCloudpickle(True).write().overwrite().save(f"{tmp_path}/model")
    loaded = type(model).load(f"{tmp_path}/model")
    assert np.array_equal(weights_of(loaded), weights_of(model))


@pytest.mark.long
def test_a_large_model(spark, tmp_path):
    """The weights are larger than a task may be; they and the metadata belong together."""
    import sparkring
    from sparkring.spark.ml import TorchModel

    model = TorchModel(model="networks:dense")
    model._weights = os.urandom(26 << 20)
    model.save(f"{tmp_path}/model")
    assert TorchModel.load(f"{tmp_path}/model")._weights == model._weights
    model._weights = model._weights[:100]
    model.save(f"{tmp_path}/other")
    shutil.rmtree(f"{tmp_path}/other/weights")
    shutil.copytree(f"{tmp_path}/model/weights", f"{tmp_path}/other/weights")
    with pytest.raises(sparkring.InvalidError, match="not those of its metadata"):
        TorchModel.load(f"{tmp_path}/other")


def test_modules_of_a_later_model_replace_those_of_an_earlier(monkeypatch):
    """A worker of Spark stays, and predicts with models of other versions of a module."""
    import importlib

    from sparkring.spark._sources import Sources
    from sparkring.spark.ml import _prediction as prediction

    def version_after(number):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("nets_of_a_test.py", f"version = {number}")
        prediction._install(Sources(file.getvalue()))
        return importlib.import_module("nets_of_a_test").version

    monkeypatch.setattr(sys, "path", [*sys.path])
    before = len(sys.path)
    assert [version_after(number) for number in (1, 1, 2, 1, 2, 2)] == [1, 1, 2, 1, 2, 2]
    assert len(sys.path) == before + 2
    prediction._directories.close()


# ---- Columns


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def test_types_of_inputs_and_outputs(spark):
    import sparkring
    from pyspark.sql import functions

    rows = [
        (i % 7 / 7, i % 5, [[0.0, 1.0, 2.0], [float(i), 1.0, 0.0]], bytes([i] * 4), i % 3)
        for i in range(40)
    ]
    sql = "number double, code int, matrix array<array<double>>, image binary, label int"
    frame = spark.createDataFrame(rows, sql)
    names = ["class", "top", "scores", "vector", "sure", "name"]
    model = torch_estimator(
        model=networks.several,
        loss=networks.entropy,
        transformation=networks.pixels,
        postprocess=networks.scores,
        inputCols=["number", "code", "matrix", "image"],
        outputCols=names,
        numProc=2,
    ).fit(frame)
    found = model.transform(frame)
    assert found.columns == [*frame.columns, *names]
    kinds = [found.schema[name].dataType.simpleString() for name in names]
    assert kinds == ["bigint", "float", "array<float>", "array<double>", "boolean", "string"]
    assert plan_of(found).count("ArrowEvalPython") == 1
    assert "ArrowEvalPython" not in plan_of(found.select("label"))
    row = found.first()
    assert row["class"] == int(np.argmax(row["scores"]))
    assert row["top"] == max(row["scores"])
    assert row["sure"] == (row["top"] > 0)
    assert row["name"] == "abc"[row["class"]]
    types = ["double", "float", "array<float>", "vector", "boolean", "string"]
    found = model.setOutputTypes(types).transform(frame)
    kinds = [found.schema[name].dataType.typeName() for name in names]
    assert kinds == ["double", "float", "array", "vectorudt", "boolean", "string"]
    with pytest.raises(sparkring.InvalidError, match="a column of this name"):
        model.transform(frame.withColumnRenamed("label", "CLASS"))
    for column, null in (("number", "null"), ("code", "null"), ("matrix", "array(array(0, null))")):
        nulls = frame.withColumn(column, functions.expr(null).cast(frame.schema[column].dataType))
        with pytest.raises(Exception, match=f"'{column}' has nulls"):
            model.transform(nulls).select("class").collect()
    again = found.first()
    assert again["class"] == row["class"]
    assert np.array_equal(again["vector"].toArray(), row["vector"])


def test_arrays_of_arrow_are_viewed():
    """Rows that do not lie behind each other in one array are copied."""
    import pyarrow
    import sparkring
    from sparkring.spark.ml._prediction import _stacked

    expected = np.arange(12.0).reshape(4, 3)
    column = pyarrow.array([[-1.0, -1.0], *expected.tolist()]).slice(1)
    rows = column.to_pandas().to_numpy()
    viewed = _stacked(rows, [3])
    assert np.array_equal(viewed, expected)
    assert np.shares_memory(viewed, rows[0])
    assert np.array_equal(_stacked(rows[1:3], [3]), expected[1:3])
    assert np.array_equal(_stacked(rows[::-1], [3]), expected[::-1])
    for place in range(4):
        rows[place] = rows[place].copy()
    assert np.array_equal(_stacked(rows, [3]), expected)
    with pytest.raises(sparkring.InvalidError, match=r"has 3 numbers, and those .* have 4"):
        _stacked(rows, [2, 2])


def test_invalid_settings(vectors):
    import sparkring
    from sparkring.spark import ml
    from sparkring.spark.ml import _feed as feed

    with pytest.raises(TypeError, match="has no Param 'epoch'"):
        torch_estimator(epoch=3)
    with pytest.raises(TypeError, match="from 1 on"):
        torch_estimator(epochs=0)
    with pytest.raises(TypeError, match="from 0 to 4294967295"):
        torch_estimator(seed=-1)
    with pytest.raises(TypeError, match="is not a function"):
        torch_estimator(model="networks.dense")
    with pytest.raises(TypeError, match="JSON"):
        torch_estimator(modelParams={"x": object()})
    estimator = torch_estimator()
    assert "rows of a step" in estimator.explainParam("batchSize")
    for params, message in (
        ({"inputCols": ["y"]}, "there is no column 'y'"),
        ({"labelCol": "text"}, "'text' is of type string"),
        ({"model": "networks:missing"}, "networks:missing cannot be imported"),
        ({"optimizer": None}, "optimizer is not set"),
        ({"data": "stream", "callbacks": networks.spoil}, "callbacks need"),
    ):
        frame = vectors.selectExpr("*", "'a' text")
        with pytest.raises(sparkring.InvalidError, match=message):
            estimator.copy().setParams(**params).fit(frame)
    for params, message in (({"epochs": 3}, "no Param 'epochs'"), ({"model": min}, "no effect on")):
        with pytest.raises(TypeError, match=message):
            ml.fit_xgboost(vectors, {}, inputCols=["features"], **params)
    with pytest.raises(sparkring.InvalidError, match="2 rows of 'x' for 3 rows"):
        feed.apply(lambda arrays: {"x": arrays["x"][1:]}, ["x"], [np.zeros(3)])


# ---- The best epoch, callbacks and steps of one's own


def test_the_best_epoch_is_not_the_last(vectors):
    frame = vectors.withColumn("held", vectors["id"] % 4 == 0)
    estimator = torch_estimator(callbacks=networks.spoil, validation="held", epochs=9, patience=2)
    model = estimator.fit(frame)
    losses = numbers_of(model, "val_loss")[:, 0]
    assert len(losses) == 4
    assert np.argmin(losses) == 1
    assert losses[1] < losses[3] / 10
    assert numbers_of(model, "learning_rate")[:, 0].tolist() == [0.1, 0.1, 0.0, 0.0]
    held = model.transform(frame.where("held"))
    mean = held.selectExpr("avg(pow(prediction - label, 2))").first()[0]
    assert np.isclose(mean, losses[1], rtol=1e-4)
    last = estimator.fit(frame, {estimator.restore: "last"})
    assert np.isclose(numbers_of(last, "val_loss")[-1, 0], losses[3], rtol=1e-4)
    assert np.abs(weights_of(last) - weights_of(model)).max() > 0.1


def test_callbacks_metrics_and_a_step_of_ones_own(vectors, tmp_path):
    model = torch_estimator(
        callbacks="networks:record",
        metrics=networks.absolute,
        trainStep=networks.clipped_step,
        validation=0.25,
        modelParams={"record": f"{tmp_path}/record", "last": 1, "most": 1e-9},
        timeline=f"{tmp_path}/timeline",
        epochs=9,
        numProc=2,
        batchSize=100,
        verbose=0,
    ).fit(vectors)
    columns = ["epoch", "loss", "own", "val_error", "val_loss", "learning_rate", "seconds"]
    assert model.history.columns == columns
    assert np.ptp(numbers_of(model, "val_loss")) < 1e-6  # with such small steps
    epoch = ["step 0 ['loss', 'own']", "step 1 ['loss', 'own']"]
    logs = ["loss", "own", "val_error", "val_loss"]
    calls = Path(f"{tmp_path}/record").read_text().splitlines()
    assert calls == ["begin", *epoch, f"epoch 0 {logs}", *epoch, f"epoch 1 {logs}", "end"]
    assert "allreduce" in Path(f"{tmp_path}/timeline/timeline.json").read_text()


def prepared(frame, **params):
    from sparkring.spark.ml._columns import prepare

    return prepare(frame, torch_estimator(**params)._values())


def test_rows_for_validation_and_weights(spark, vectors):
    from pyspark.sql import functions

    many = spark.range(5000).selectExpr("id x", "id % 7 label", "id % 2 + 1 weight")
    one = prepared(many, inputCols=["x"], validation=0.2)
    marked = one.where("valid").select("input0").orderBy("input0").collect()
    assert 850 < len(marked) < 1150
    other = prepared(many.repartition(7), inputCols=["x"], validation=0.2)
    assert other.where("valid").select("input0").orderBy("input0").collect() == marked
    wide = prepared(many, inputCols=["x"], validation=0.2, classWeights=[2.0] * 2000)
    assert wide.where("valid").select("input0").orderBy("input0").collect() == marked
    seeded = prepared(many, inputCols=["x"], validation=0.2, seed=1)
    assert seeded.where("valid").select("input0").orderBy("input0").collect() != marked
    indicator = many.withColumn(
        "held", functions.expr("CASE WHEN x < 3 THEN 1 WHEN x < 5 THEN 0 END")
    )
    held = prepared(indicator, inputCols=["x"], validation="held")
    assert held.groupBy("valid").count().orderBy("valid").collect() == [(False, 4997), (True, 3)]
    for classes in ({0: 3.0, 6: 5}, [3.0, 1, 1, 1, 1, 1, 5.0]):
        weighted = prepared(many, inputCols=["x"], weightCol="weight", classWeights=classes)
        found = weighted.where("input0 < 8").orderBy("input0").select("weight").collect()
        assert [row[0] for row in found] == [3, 2, 1, 2, 1, 2, 5, 6]


# ---- Tuning


def test_cross_validation_in_parallel(vectors, tmp_path):
    from pyspark.ml.evaluation import RegressionEvaluator
    from pyspark.ml.tuning import CrossValidator, CrossValidatorModel

    estimator = torch_estimator(batchSize=100, epochs=1)
    chosen = {estimator.epochs: 2, estimator.modelParams: {"rate": 0.3}}
    frame = vectors.selectExpr("*", "int(id % 2) fold")
    pair = CrossValidator(
        estimator=estimator,
        estimatorParamMaps=[chosen],
        evaluator=RegressionEvaluator(),
        numFolds=2,
        foldCol="fold",
        parallelism=2,
        collectSubModels=True,
    ).fit(frame)
    alone = estimator.fit(frame.where("fold = 1"), chosen)
    assert np.array_equal(weights_of(alone), weights_of(pair.subModels[0][0]))
    assert not np.array_equal(weights_of(alone), weights_of(pair.bestModel))
    assert pair.bestModel.getModelParams() == {"rate": 0.3}
    pair.save(f"{tmp_path}/folds")
    loaded = CrossValidatorModel.load(f"{tmp_path}/folds")
    assert loaded.avgMetrics == pair.avgMetrics
    assert len(loaded.bestModel.history.collect()) == 2
    assert np.array_equal(weights_of(loaded.bestModel), weights_of(pair.bestModel))


# ---- Ways of the data, and restarts


def steps_of_attempts(path):
    """Return the number of steps of each attempt that `networks.kill_in_step` has counted."""
    attempts = Path(path).read_text().split()
    return [attempts.count(str(number)) for number in range(int(attempts[-1]) + 1)]


def test_a_killed_executor(vectors, one, tmp_path):
    params = {"trainStep": networks.fatal_step, "modelParams": {"record": f"{tmp_path}/record"}}
    killed = torch_estimator(
        **WEIGHTED, **params, numProc=2, maxRestarts=1, checkpointSteps=4, directory=str(tmp_path)
    ).fit(vectors)
    rows = prepared(vectors, validation=0.2).where("NOT valid").count()
    assert steps_of_attempts(f"{tmp_path}/record")[1] == 3 * -(-rows // 30) - 4
    assert os.listdir(tmp_path) == ["record"]
    assert np.abs(weights_of(killed) - weights_of(one)).max() <= 1e-5
    names = ("epoch", "loss", "val_loss")
    assert np.allclose(numbers_of(killed, *names), numbers_of(one, *names), atol=1e-5)


@pytest.mark.long
def test_ways_of_the_data(spark, tmp_path):
    """Two ranks have the rows of a half of the table each."""
    settings = {"shuffle": False, "validation": "held", "epochs": 2}
    frame = spark.range(0, 200, 1, 2).selectExpr("id", *(f"rand({i}) x{i}" for i in (1, 2, 3)))
    frame = assembler().transform(frame).selectExpr("*", "x1 - x2 label", "id % 5 = 0 held")
    stream = torch_estimator(data="stream", **settings, numProc=None).fit(frame)
    settings.update(numProc=2, directory=str(tmp_path))
    files = torch_estimator(data="parquet", **settings).fit(frame)
    assert not os.listdir(tmp_path)
    assert np.abs(weights_of(stream) - weights_of(files)).max() <= 1e-6
    names = ("epoch", "loss", "val_loss")
    assert np.allclose(numbers_of(stream, *names), numbers_of(files, *names), atol=1e-6)
    assert len(numbers_of(stream, "loss")) == 2


@pytest.mark.long
def test_parquet_files_are_read_on_after_failures(vectors, tmp_path):
    """An epoch has 8 steps. Executors are killed within an epoch, and after its last step."""
    settings = {"batchSize": 26, "data": "parquet", "epochs": 3, "numProc": 2}
    settings["callbacks"] = "networks:fatal_schedule"
    expected = torch_estimator(**settings).fit(vectors)
    settings.update(trainStep="networks:fatal_step", checkpointSteps=4, maxRestarts=2)
    settings["modelParams"] = {"record": f"{tmp_path}/record"}
    killed = torch_estimator(**settings).fit(vectors)
    assert np.abs(weights_of(killed) - weights_of(expected)).max() <= 1e-6
    assert steps_of_attempts(f"{tmp_path}/record")[1:] == [12, 8]
    names = ("epoch", "loss", "learning_rate")
    assert np.allclose(numbers_of(killed, *names), numbers_of(expected, *names), atol=1e-6)
    assert numbers_of(killed, "learning_rate")[:, 0].tolist() == [0.1, 0.05, 0.025]


# ---- Keras


def keras_estimator(**params):
    from sparkring.spark.ml import KerasEstimator

    usual = {
        "model": networks.keras_dense,
        "loss": networks.keras_square,
        "optimizer": networks.keras_sgd,
        "metrics": networks.keras_error,
        "inputCols": ["features"],
        "batchSize": 50,
        "epochs": 2,
        "numProc": 1,
        "verbose": 0,
    }
    return KerasEstimator(**{**usual, **params})


def keras_weights(model):
    """Read the weights from the file of Keras: this process has no backend for all models."""
    import h5py

    found = {}
    with zipfile.ZipFile(io.BytesIO(model._weights)) as archive:
        file = h5py.File(io.BytesIO(archive.read("model.weights.h5")))
    file.visititems(lambda name, item: found.update({name: item}))
    assert not any(name.startswith("optimizer") for name in found)
    return {
        name: item[()]
        for name, item in found.items()
        if isinstance(item, h5py.Dataset) and "seed_generator" not in name
    }


@pytest.mark.parametrize("backend", ["tensorflow", pytest.param("jax", marks=pytest.mark.long)])
def test_two_ranks_of_keras_get_the_weights_of_one(vectors, backend):
    settings = {"backend": backend, "weightCol": "weight", "validation": 0.2}
    one = keras_estimator(**settings).fit(vectors)
    two = keras_estimator(**settings, numProc=2).fit(vectors)
    mine, others = keras_weights(one), keras_weights(two)
    assert mine.keys() == others.keys()
    assert len(mine) == 4
    assert all(np.abs(mine[name] - others[name]).max() <= 1e-5 for name in mine)
    names = ("epoch", "loss", "error", "val_loss", "val_error", "learning_rate")
    assert np.allclose(numbers_of(one, *names), numbers_of(two, *names), atol=1e-5)
    assert numbers_of(one, "loss")[-1] < numbers_of(one, "loss")[0]


@pytest.mark.long
def test_keras_goes_on_and_stops(vectors, tmp_path):
    import sparkring
    from sparkring.spark.ml import _keras_learner as learner

    settings = {"backend": "torch", "batchSize": 30, "epochs": 9, "validation": 0.2}
    settings["callbacks"] = networks.keras_stop
    expected = keras_estimator(**settings).fit(vectors)
    step = {"trainStep": networks.keras_fatal_step, "maxRestarts": 1, "checkpointSteps": 4}
    step["modelParams"] = {"record": f"{tmp_path}/record"}
    killed = keras_estimator(**settings, **step, numProc=2).fit(vectors)
    rows = prepared(vectors, validation=0.2).where("NOT valid").count()
    assert steps_of_attempts(f"{tmp_path}/record")[1] == 3 * -(-rows // 30) - 4
    names = ("epoch", "loss", "error", "val_loss", "learning_rate")
    assert np.allclose(numbers_of(killed, *names), numbers_of(expected, *names), atol=1e-5)
    assert len(numbers_of(killed, "epoch")) == 3
    assert numbers_of(killed, "learning_rate")[:, 0].tolist() == pytest.approx([0.1, 0.05, 0.025])
    mine, others = keras_weights(killed), keras_weights(expected)
    assert all(np.abs(mine[name] - others[name]).max() <= 1e-5 for name in mine)

    killed.save(f"{tmp_path}/model")
    loaded = type(killed).load(f"{tmp_path}/model")
    assert loaded.getBackend() == "torch"
    found = loaded.transform(vectors).select("id", "prediction")
    assert found.schema["prediction"].dataType.simpleString() == "float"
    features = np.array(vectors.select("x1", "x2", "x3").collect(), np.float32)
    output = loaded.network().predict_on_batch(features)[:, 0]
    assert "KERAS_BACKEND" not in os.environ  # later children choose anew
    assert np.allclose([row["prediction"] for row in found.collect()], output, atol=1e-6)
    plan = loaded.copy({loaded.model: "networks:keras_unbuilt"})._plan()
    with pytest.raises(sparkring.InvalidError, match="a network without weights"):
        learner.make_model(plan)


# ---- Trees


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


# ---- Functions that cannot be right


@pytest.mark.parametrize(
    ("name", "make", "text"),
    [
        (
            "model",
            lambda torch: torch.nn.Linear(3, 1),
            r"Linear is an object: pass a function that",
        ),
        ("loss", lambda torch: torch.nn.MSELoss(), "MSELoss is an object: pass a function that"),
        ("loss", lambda torch: torch.nn.MSELoss, r"a class: .*as in lambda params: MSELoss\(\)"),
        ("optimizer", lambda torch: torch.optim.Adam, "Adam is a class"),
    ],
)
def test_objects_in_place_of_functions(name, make, text):
    import torch

    with pytest.raises(TypeError, match=f'for param "{name}".*{text}'):
        torch_estimator(**{name: make(torch)})


def test_functions_of_other_arguments():
    """An error before a job starts, so no Spark is needed."""
    import sparkring
    from sparkring.spark.ml._plan import Plan
    from torch.nn import functional

    for name, function, text in [
        ("loss", functional.mse_loss, r"1 argument \(modelParams\), which it does not"),
        ("model", lambda: None, "1 argument"),
        (
            "optimizer",
            networks.square,
            r"2 arguments \(modelParams, and with PyTorch the parameters",
        ),
        ("trainStep", networks.square, r"2 arguments \(training, batch\)"),
    ]:
        estimator = torch_estimator(**{name: function})
        with pytest.raises(sparkring.InvalidError, match=f"^{name} is called with {text}"):
            estimator.fit(None)
    assert Plan("torch", torch_estimator()._values()).loss is networks.square
