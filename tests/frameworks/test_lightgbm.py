# SPDX-License-Identifier: Apache-2.0
"""LightGBM's data-parallel training."""

from __future__ import annotations

import digits
from ranks import open_comm, run

PARAMETERS = {"objective": "multiclass", "num_class": 10, "num_leaves": 8, "num_threads": 1}
ROUNDS = 25


def train():
    import lightgbm

    with open_comm() as comm:
        data = digits.load(comm.rank, comm.size)
        parameters = {
            **PARAMETERS,
            **comm.lightgbm_config(),
            "tree_learner": "data",
            "pre_partition": True,
            "verbose": -1,
        }
        booster = lightgbm.train(parameters, lightgbm.Dataset(data.x, data.y), ROUNDS)
    guess = booster.predict(data.test_x).argmax(1)
    return float((guess == data.test_y).mean()), booster.model_to_string().split("parameters:")[0]


def test_ranks_train_one_model():
    (first, model), (second, same) = run(2, train)
    assert first == second >= digits.ACCURACY
    assert model == same
