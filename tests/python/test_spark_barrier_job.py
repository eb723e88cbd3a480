# SPDX-License-Identifier: Apache-2.0
"""What Spark's errors mean for a stage; with Spark itself in tests/spark."""

from __future__ import annotations

import re
import sys
import traceback
import types

import pytest
import sparkring
from sparkring.spark._barrier_job import BarrierJob
from sparkring.spark._rank_result import SparkError
from sparkring.spark._task_main import Attempt

pytestmark = pytest.mark.quick

OUTPUT = types.SimpleNamespace(last_lines=lambda rank: [f"{rank} was here"], hosts={1: "10.0.0.7"})


def explain(text, directory=None):
    job = BarrierJob(None, 2, None, 1.0, print, OUTPUT)
    attempt = Attempt(b"", {}, 0, None, echo=True, directory=directory)
    return job.explain(SparkError(RuntimeError(text)), attempt)


@pytest.mark.parametrize(
    ("module", "what"),
    [
        ("sparkring", "no package sparkring: install this version there"),
        (
            "sparkring.spark._exit_barrier",
            "an old package sparkring, without sparkring.spark._exit_barrier: install this version"
            " there",
        ),
    ],
)
def test_executors_lack_a_module(module, what):
    with pytest.raises(sparkring.UnsupportedError, match=f"the executors' Python has {what}"):
        explain(f"PythonException: ...\nModuleNotFoundError: No module named '{module}'\n\n\tat x")


def test_tasks_of_this_machine_run_another_python():
    remedy = re.escape(f"no package sparkring: set PYSPARK_PYTHON={sys.executable} before")
    with pytest.raises(sparkring.UnsupportedError, match=remedy):
        explain("ModuleNotFoundError: No module named 'sparkring'", directory="/")


LOST = "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: "
MEMORY = r" \(probably out of memory: raise spark\.executor\.memoryOverhead\)"


@pytest.mark.parametrize(
    ("why", "advice"),
    [
        (LOST + "Command exited with code 137", MEMORY),
        (LOST + "Container from a bad node. Exit status: 137. Diagnostics: Killed", MEMORY),
        (LOST + "\nThe executor with id 1 exited with exit code 137(SIGKILL, OOM).", MEMORY),
        (LOST + "Container killed by YARN for exceeding physical memory limits. 5.5 GB", MEMORY),
        (LOST + "Container killed on request. Exit code is 143", r" \(preempted, or over .*\)"),
        (LOST + "Executor heartbeat timed out after 137000 ms", ""),
    ],
)
def test_a_lost_executor(why, advice):
    stages = "\n\tat org.apache.spark.scheduler.Task.run(Task.scala:141)" * 80
    lost = explain(
        "Job aborted due to stage failure: Could not recover from a failed barrier ResultStage."
        " Most recent failure reason: Stage failed because barrier task ResultTask(0, 1) finished"
        f" unsuccessfully.\n{why}{stages}"
    )
    assert re.search(f"^rank 1 on 10.0.0.7 was lost: {re.escape(why)}{advice}\n\n", str(lost))
    assert lost.log == ["1 was here"]
    printed = "".join(traceback.format_exception(lost))
    assert printed.count("Task.scala") == 0 and "Job aborted" in printed
    assert lost.__cause__.text.count("Task.scala") == 80


@pytest.mark.parametrize("module", ["sparkringer", "my.sparkring", "torch"])
def test_other_modules_are_not_ours(module):
    with pytest.raises(RuntimeError, match=module):
        explain(f"ModuleNotFoundError: No module named '{module}'")
