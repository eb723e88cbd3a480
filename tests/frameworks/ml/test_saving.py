# SPDX-License-Identifier: Apache-2.0
"""Estimators and models are saved and loaded."""

from __future__ import annotations

import io
import os
import shutil
import sys
import zipfile

import networks
import numpy as np
import pytest
from estimators import assembler, torch_estimator, weights_of


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
