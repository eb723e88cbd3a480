# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of slots, and what barrier stages cannot be. Spark itself is in tests/spark."""

from __future__ import annotations

import types

import pytest
import sparkring
from sparkring.spark import _slot_check as slot_check
from sparkring.spark import run
from sparkring.spark._classic import Classic
from sparkring.spark._slot_check import Cluster, Executor

pytestmark = pytest.mark.quick


def cluster(cores, task_cpus=1, expected=None, master="spark://host:7077", needs=""):
    executors = tuple(Executor(f"host{index}", size) for index, size in enumerate(cores))
    total = sum(size // task_cpus for size in cores)
    return Cluster(master, total, executors, task_cpus, needs, expected)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (cluster([4], master="local[4]"), "4 cores / 1 per task"),
        (cluster([4]), "1 executor x (4 cores / 1 per task)"),
        (cluster([8, 8], 3), "2 executors x (8 cores / 3 per task)"),
        (cluster([8, 5], 2), "executors with 8 + 5 cores / 2 per task, each rounded down"),
        (cluster([2], 1, 3), "1 executor x (2 cores / 1 per task), and 2 executors are missing"),
        (
            cluster([2], needs="1 gpu"),
            "1 executor x (2 cores / 1 per task), where a task needs 1 gpu, too",
        ),
        (cluster([]), "no executor has registered"),
    ],
)
def test_arithmetic(given, text):
    assert slot_check.arithmetic(given) == text


def test_what_to_do():
    text = slot_check.explain(cluster([4], 2, master="local[4]"), 3)
    assert text.endswith("To go on, pass num_proc=2 or less, or start Spark with local[6]")
    text = slot_check.explain(cluster([4, 4]), 16)
    assert "pass num_proc=8 or less, or start more or larger executors" in text
    assert "look at why none has started" in slot_check.explain(cluster([]), 2)


@pytest.mark.parametrize(
    ("given", "complete"),
    [
        (cluster([4], master="local[4]"), True),
        (cluster([]), False),
        (cluster([4]), None),
        (cluster([4], expected=2), False),
        (cluster([4, 4], expected=2), True),
    ],
)
def test_executors_that_may_still_come(given, complete):
    assert given.complete is complete
    begun = context()
    assert slot_check.patience(begun, True, 0) == 0
    assert slot_check.patience(begun, False, 0) == slot_check.MISSING
    assert slot_check.patience(begun, None, 0) == 2


def test_expected_executors():
    assert slot_check.expected_executors("local-cluster[3,2,1024]", "") == 3
    assert slot_check.expected_executors("yarn", "7") == 7
    assert slot_check.expected_executors("spark://host:7077", "") is None


def context(master="yarn", **settings):
    conf = {name.replace("_", "."): value for name, value in settings.items()}
    return Classic(types.SimpleNamespace(master=master, getConf=lambda: conf, startTime=0))


def test_dynamic_allocation():
    settings = {"spark_dynamicAllocation_enabled": "true"}
    with pytest.raises(sparkring.UnsupportedError, match=r"dynamicAllocation\.enabled is true"):
        slot_check.check_settings(context(**settings))
    slot_check.check_settings(context("local[2]", **settings))
    slot_check.check_settings(context(spark_speculation="true"))


def test_gpus_that_a_master_of_one_machine_has_not():
    gpus = {"spark_task_resource_gpu_amount": "0.5"}
    with pytest.raises(sparkring.UnsupportedError, match=r"\[2\] has none to .* comm\.gpus\(1\)"):
        slot_check.check_settings(context("local[2]", **gpus))
    slot_check.check_settings(context(**gpus))
    assert slot_check.gpus_of_task(context(**gpus), None) == 1
    assert slot_check.gpus_of_task(context(), None) == 0


def test_resources():
    with pytest.raises(sparkring.InvalidError, match="resources is of type dict"):
        slot_check.check_settings(context(), {"cpus": 2})


def test_a_spark_that_reports_nothing():
    """Then Spark itself finds that there are too few slots."""
    mute = context()
    mute.context.defaultParallelism = 3
    assert slot_check.wait_for(mute, None, None, timeout=1) == 3
    assert slot_check.wait_for(mute, None, 8, timeout=1) == 8


def test_which_spark():
    pytest.importorskip("pyspark", reason="the errors of a Spark that is there")
    with pytest.raises(sparkring.InvalidError, match="there is no Spark session"):
        run(print, num_proc=1)
    with pytest.raises(sparkring.InvalidError, match="spark is of type int"):
        run(print, num_proc=1, spark=3)
