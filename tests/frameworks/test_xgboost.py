# SPDX-License-Identifier: Apache-2.0
"""XGBoost's collective training, with rank 0's tracker."""

from __future__ import annotations

import sys
import time

import digits
from ranks import launch, open_comm, run

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


FINALIZES_LATE = """
import sys, time, sparkring
from xgboost import collective
config = sparkring.xgboost_config()
with collective.CommunicatorContext(**config):
    collective.broadcast(1, 0)
    time.sleep(2 * collective.get_rank())
print("ended", config["dmlc_task_id"])
"""


def test_the_process_of_rank_0_ends_after_all_ranks_have_finalized():
    ended = launch(2, sys.executable, "-c", FINALIZES_LATE, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("ended") == 2
