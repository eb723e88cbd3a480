# SPDX-License-Identifier: Apache-2.0
"""Params and functions of estimators that are refused."""

from __future__ import annotations

import networks
import numpy as np
import pytest
from estimators import torch_estimator


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
