# SPDX-License-Identifier: Apache-2.0
"""KerasEstimator, with its backends."""

from __future__ import annotations

import io
import os
import zipfile

import networks
import numpy as np
import pytest
from estimators import numbers_of, prepared, steps_of_attempts


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
