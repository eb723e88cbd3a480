# SPDX-License-Identifier: Apache-2.0
"""Estimators train in the executors of a local cluster: weights, epochs, restarts."""

from __future__ import annotations

import os
from pathlib import Path

import networks
import numpy as np
import pytest
from estimators import (
    WEIGHTED,
    assembler,
    numbers_of,
    prepared,
    steps_of_attempts,
    torch_estimator,
    weights_of,
)


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
