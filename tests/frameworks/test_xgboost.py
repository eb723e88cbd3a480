# SPDX-License-Identifier: Apache-2.0
"""XGBoost's collective training, with rank 0's tracker."""

from __future__ import annotations

import time

import digits
from ranks import open_comm, run

PARAMETERS = {"objective": "multi:softmax", "num_class": 10, "max_depth": 3, "nthread": 1}
ROUNDS = 25


def train():
    with open_comm() as comm:
        return fit(comm)


def fit(comm):
    import xgboost
    from xgboost import collective

    data = digits.load(comm.rank, comm.size)
    with collective.CommunicatorContext(**comm.xgboost_config()):
        assert (collective.get_rank(), collective.get_world_size()) == (comm.rank, comm.size)
        booster = xgboost.train(PARAMETERS, xgboost.DMatrix(data.x, data.y), ROUNDS)
    guess = booster.predict(xgboost.DMatrix(data.test_x))
    return float((guess == data.test_y).mean()), bytes(booster.save_raw())


def test_ranks_train_one_model():
    (first, model), (second, same) = run(2, train)
    assert first == second >= digits.ACCURACY
    assert model == same


def replace():
    from xgboost import collective

    with open_comm() as comm:
        for _ in range(2):
            with collective.CommunicatorContext(**comm.xgboost_config()):
                assert collective.broadcast(comm.rank, 1) == 1
                time.sleep(comm.rank)  # rank 0 configures again while the other one still trains
    return True


def test_one_communicator_can_train_twice():
    assert run(2, replace) == [True, True]
