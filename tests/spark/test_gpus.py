# SPDX-License-Identifier: Apache-2.0
"""GPUs of tasks, which Spark hands out without looking for them: two an executor, one a task."""

import os
import signal
import sys
from pathlib import Path

import pytest
import sparkring
from conftest import GPUS, ONE_EXECUTOR, TWO_EXECUTORS
from pyspark import cloudpickle
from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests
from sparkring.spark import run

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors do not have this file

WITH_GPUS = pytest.mark.parametrize("spark", [GPUS], indirect=True)
VISIBLE = "CUDA_VISIBLE_DEVICES"


def look(comm):
    """Return where this rank runs, and what it sees before and after it asks."""
    before = os.environ.get(VISIBLE)
    comm.torch_env()
    return os.getcwd(), before, comm.gpus(), os.environ.get(VISIBLE)


def by_executor(seen):
    folders = {folder for folder, *_ in seen}
    return [sorted(names for other, *names in seen if other == folder) for folder in folders]


@WITH_GPUS
def test_run(spark):
    seen = run(look, spark=spark, verbose=0)
    assert by_executor(seen) == [[["6", ["6"], "6"], ["7", ["7"], "7"]]] * 2


@WITH_GPUS
def test_resources(spark):
    both = ResourceProfileBuilder().require(TaskResourceRequests().resource("gpu", 2)).build
    seen = run(look, resources=both, verbose=0)
    assert by_executor(seen) == [[["6,7", ["6", "7"], "6,7"]]] * 2
    none = ResourceProfileBuilder().require(TaskResourceRequests().cpus(2)).build
    assert by_executor(run(look, resources=none, verbose=0)) == [[["6,7", ["6", "7"], "6,7"]]] * 2


def look_again(comm, folder):
    """Look in the process that replaces that of rank 1, and in the others after its loss."""
    while True:
        try:
            comm.barrier()
            if comm.rank == 1 and not Path(folder, "died").exists():
                Path(folder, "died").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            comm.barrier()
            return os.getcwd(), os.environ[VISIBLE]
        except sparkring.RingError:
            comm = comm.grow()


@WITH_GPUS
def test_a_replaced_rank_has_the_gpu_of_its_task(spark, tmp_path):
    options = {"max_restarts": 1, "recovery": "replace", "verbose": 0}
    seen = run(look_again, args=(str(tmp_path),), spark=spark, **options)
    assert by_executor(seen) == [[["6"], ["7"]]] * 2


def configure(rows):
    """For mapPartitions; it reads its rows, so Spark uses the process again."""
    list(rows)
    before = os.environ[VISIBLE]
    with sparkring.init() as comm:
        comm.torch_env()
    yield os.getcwd(), os.getpid(), before, os.environ[VISIBLE]


@WITH_GPUS
def test_tasks_of_a_worker_that_is_used_again(four):
    again = set()
    for _ in range(3):
        results = four(configure)
        assert (
            by_executor([(where, after) for where, _, _, after in results]) == [[["6"], ["7"]]] * 2
        )
        again |= {process for _, process, before, _ in results if before != "6,7"}
    assert again


def test_asked_and_none_came(spark, monkeypatch):
    monkeypatch.setattr("sparkring.spark._slot_check.gpus_of_task", lambda *_: 1000)
    error, text = {
        ONE_EXECUTOR: (sparkring.UnsupportedError, r"local\[4\] has none to assign"),
        TWO_EXECUTORS: (sparkring.InvalidError, r"sees no GPU|ask for [24]000"),
    }[spark.sparkContext.master]
    with pytest.raises(error, match=text):
        run(look, num_proc=4, verbose=0)
