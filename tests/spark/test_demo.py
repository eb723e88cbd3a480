# SPDX-License-Identifier: Apache-2.0
"""The demo in both languages, on executors that are processes of one host, and on four hosts."""

import secrets
import sys
from pathlib import Path

import pytest
import tasks
from conftest import FOUR_HOSTS, TWO_EXECUTORS
from pyspark import cloudpickle
from sparkring.spark import run

DEMO = Path(__file__).parents[2] / "demo"

sys.path.append(str(DEMO))

import digits  # noqa: E402 (it is in that folder)

for module in (sys.modules[__name__], digits):  # executors do not have these files
    cloudpickle.register_pickle_by_value(module)

pytestmark = pytest.mark.parametrize("spark", [TWO_EXECUTORS, FOUR_HOSTS], indirect=True)


def test_digits(spark, capfd, monkeypatch):
    """What demo/digits.py does, for half as long; the ranks take their quarter of the images."""
    monkeypatch.setattr(digits, "EPOCHS", digits.EPOCHS // 2)
    everything = digits.read_digits(spark).toPandas()

    def work(comm):
        return digits.learn(comm, everything[everything.id % comm.size == comm.rank])

    digits.prove(run(work, num_proc=4), everything)
    assert "held-out images" in capfd.readouterr().out


def test_iris(spark, four):
    spark.sparkContext.addFile(str(DEMO / "iris.R"))
    outputs = four(tasks.r_program("iris.R", secrets.token_hex(32)))
    assert "all 4 ranks hold the same weights: TRUE" in outputs[0]
    assert outputs[1:] == ["", "", ""]
