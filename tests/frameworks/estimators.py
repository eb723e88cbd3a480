# SPDX-License-Identifier: Apache-2.0
"""Estimators of PyTorch for tests, and functions that read their models."""

from __future__ import annotations

from pathlib import Path

import networks
import numpy as np


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


WEIGHTED = {"weightCol": "weight", "validation": 0.2, "batchSize": 30, "epochs": 3}


def prepared(frame, **params):
    from sparkring.spark.ml._columns import prepare

    return prepare(frame, torch_estimator(**params)._values())


def steps_of_attempts(path):
    """Return the number of steps of each attempt that `networks.kill_in_step` has counted."""
    attempts = Path(path).read_text().split()
    return [attempts.count(str(number)) for number in range(int(attempts[-1]) + 1)]
