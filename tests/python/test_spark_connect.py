# SPDX-License-Identifier: Apache-2.0
"""What is made of the little that Spark Connect reports, and of Spark's words for limits.

A server of it is in tests/spark/test_connect.py.
"""

from __future__ import annotations

import types

import pytest
import sparkring
from sparkring.spark import _barrier_job as barrier_job
from sparkring.spark import _connect as connect
from sparkring.spark import _preflight as preflight
from sparkring.spark import _slot_check as slot_check
from sparkring.spark import _stage as stage
from sparkring.spark import _task_main as task_main
from sparkring.spark import explained, run
from sparkring.spark._connect import Connect
from sparkring.spark._rank_result import RankError, RankResult, SparkError
from sparkring.spark._task_main import Attempt

CHAIN = (
    "[SPARK-24820][SPARK-24821]: Barrier execution mode does not allow the following pattern of RDD"
    " chain within a barrier stage"
)
FAILED = "Stage failed because barrier task ResultTask(2, 1) finished unsuccessfully.\n"


class Frame:
    """A data frame of a client of Spark 4."""

    def __init__(self, splits=2):
        self.splits = splits

    def _explain_string(self):
        return f"== Physical Plan ==\n*(1) Range (0, 1, step=1, splits={self.splits})\n\n\n"

    def mapInArrow(self, func, schema, barrier=False, profile=None):  # noqa: N802 (Spark's name)
        """Do nothing; its parameters count."""


class LateFrame(Frame):
    """An executor of two cores comes between two looks."""

    def _explain_string(self):
        plan = super()._explain_string()
        self.splits = min(self.splits + 2, 4)
        return plan


class OldFrame(Frame):
    """A data frame of a client of Spark 3.5."""

    def mapInArrow(self, func, schema, barrier=False):  # noqa: N802
        """Do nothing."""


def session(frame=None, version="4.1.0", endpoint="localhost:15002", **settings):
    """A session of Spark Connect, as far as `Connect` asks it."""
    settings = {name.replace("_", "."): value for name, value in settings.items()}
    found = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    found.version = version
    found.range = lambda *_: frame or Frame()
    found.conf = types.SimpleNamespace(get=lambda name, default: settings.get(name, default))
    found.client = types.SimpleNamespace(_builder=types.SimpleNamespace(endpoint=endpoint))
    return found


def made(*frame, **known):
    return Connect(session(*frame, **known))


# ---- The cluster


@pytest.mark.parametrize(
    ("splits", "settings", "room", "text"),
    [
        (4, {"spark_master": "local[4]"}, 4, "4 cores / 1 per task"),
        (9, {"spark_master": "local[4]", "spark_default_parallelism": "9"}, 4, "4 cores / 1 per"),
        (6, {"spark_master": "local[*]", "spark_task_cpus": "2"}, 3, "6 cores / 2 per task"),
        (6, {"spark_master": "local-cluster[2,3,1024]"}, 6, "2 executors x (3 cores / 1 per task)"),
        (
            8,
            {"spark_master": "yarn", "spark_executor_cores": "4", "spark_task_cpus": "3"},
            2,
            "2 executors x (4 cores / 3 per task)",
        ),
        (
            4,
            {"spark_master": "yarn", "spark_executor_cores": "4", "spark_executor_instances": "3"},
            4,
            "1 executor x (4 cores / 1 per task), and 2 executors are missing",
        ),
        (
            8,
            {"spark_master": "spark://host:7077"},
            8,
            "executors with 8 cores together / 1 per task",
        ),
    ],
)
def test_slots(splits, settings, room, text):
    cluster = slot_check.read(made(Frame(splits), **settings))
    assert cluster.slots == room
    assert slot_check.arithmetic(cluster).startswith(text)
    assert f"has {room}: " in slot_check.explain(cluster, 100)


def test_executors_that_come_between_two_looks():
    """All ranks are there, not those of the executors that came first."""
    spark = made(LateFrame(2), spark_master="local-cluster[2,2,1024]")
    assert slot_check.wait_for(spark, None, None, timeout=10) == 4


def test_slots_that_nobody_knows():
    spark = made(Frame(7), spark_master="yarn", spark_default_parallelism="7")
    assert slot_check.read(spark).slots is None
    assert slot_check.wait_for(spark, None, None, timeout=1) == 7
    assert slot_check.wait_for(spark, None, 20, timeout=1) == 20


def test_resources():
    wanted = {"cpus": types.SimpleNamespace(amount=2.0)}
    profile = types.SimpleNamespace(taskResources=wanted, executorResources={}, id=3)
    spark = made(Frame(8), spark_master="spark://host:7077", spark_executor_cores="4")
    slot_check.check_settings(spark, profile)
    cluster = slot_check.read(spark, profile)
    assert (cluster.slots, cluster.task_cpus) == (4, 2)
    with pytest.raises(sparkring.UnsupportedError, match=r"from Spark 4\.0 on"):
        slot_check.check_settings(made(OldFrame(), version="3.5.9"), profile)


def test_a_spark_without_barrier_stages_for_it():
    pytest.importorskip("pyspark", reason="what is asked first is whether there is one")
    with pytest.raises(sparkring.UnsupportedError, match=r"with Spark 3\.4\.4: .* from 3\.5 on"):
        run(print, num_proc=1, spark=session(version="3.4.4"))


def test_where_executors_reach_the_client():
    assert made(endpoint="127.0.0.1:15002").reach() == "127.0.0.1"
    with pytest.raises(OSError, match="reports no address of its server"):
        made(endpoint="unix").reach()


def test_whether_ranks_share_folder_and_log(monkeypatch):
    """Not with a server that somebody else has started, though it may seem to be of this host."""
    monkeypatch.delenv("SPARK_LOCAL_REMOTE", raising=False)
    assert not made(spark_master="local[2]").here
    monkeypatch.setenv("SPARK_LOCAL_REMOTE", "1")
    assert made(spark_master="local[2]").here
    assert not made(spark_master="local[2]", endpoint="192.0.2.1:15002").here
    assert not made(spark_master="local[2]", endpoint="unix").here
    assert not made(spark_master="local-cluster[2,1,1024]").here


# ---- The stage


def test_outcomes_travel_in_pieces(monkeypatch):
    pytest.importorskip("pyarrow", reason="Spark Connect needs it, too")
    monkeypatch.setattr(stage, "PIECE", 10)
    ended = [RankResult(number, bytes(100), log=("a line",)) for number in range(3)]
    monkeypatch.setattr(task_main, "task", lambda job, _: iter([ended[job.number]]))
    jobs = [types.SimpleNamespace(number=number, table=None) for number in range(3)]
    cells = [batch.to_pylist()[0] for job in jobs for batch in stage.task(job, [])]
    assert len(cells) > 30
    rows = [tuple(cell.values()) for cell in reversed(cells)]
    assert stage.assemble(rows) == ended


def test_progress_shows_when_ranks_have_started():
    handlers, tags = [], []
    listening = types.SimpleNamespace(
        addTag=tags.append,
        removeTag=tags.remove,
        registerProgressHandler=handlers.append,
        removeProgressHandler=handlers.remove,
    )
    job = connect.ConnectJob(types.SimpleNamespace(session=listening), 4, None, 1, print, list)
    with job.named("a", "what"):
        assert (tags, job.started("a")) == (["a"], 0)
        done = types.SimpleNamespace(num_completed_tasks=1)
        handlers[0](stages=[done], inflight_tasks=3, operation_id="x", done=False)
        handlers[0](stages=[], inflight_tasks=0, operation_id="x", done=True)
        assert job.started("a") == 4
    assert (tags, handlers) == ([], [])


def test_a_server_that_reports_no_progress():
    old = types.SimpleNamespace(addTag=lambda _: None, removeTag=lambda _: None)
    job = connect.ConnectJob(types.SimpleNamespace(session=old), 4, None, 0.1, print, list)
    with job.named("a", "what"), barrier_job.Watch(job, "a") as watch:
        watch.thread.join(10)
        assert not watch.thread.is_alive()
    assert not watch.late


# ---- Spark's errors


def failing(text):
    output = types.SimpleNamespace(last_lines=lambda number: [f"{number}"], hosts={})
    plan = connect.ConnectJob(types.SimpleNamespace(), 4, None, 1, print, output)
    return plan.explain(SparkError(RuntimeError(text)), Attempt(b"", {}, 0, None, echo=True))


def test_what_spark_has_cut():
    lost = failing(
        f"{FAILED}...\nsparkring.spark.rank.RankFailed: rank 1 failed with KeyError <spar"
    )
    assert isinstance(lost, RankError)
    assert (lost.rank, lost.log) == (1, ["1"])
    assert "failed with KeyError; Spark has cut the rest" in str(lost)
    assert "was lost: it was hit" in str(failing(f"{FAILED}it was hit"))


@pytest.mark.parametrize(
    ("message", "kind", "text"),
    [
        ("[SPARK-24819]: Barrier", sparkring.InvalidError, r"repartition\(n\) the data to as many"),
        (CHAIN, sparkring.UnsupportedError, r"put repartition\(n\) between .*\(SPARK-24820 of"),
        ("[SPARK-24942]: Bar", sparkring.UnsupportedError, "dynamicAllocation.enabled is true"),
    ],
)
def test_limits(message, kind, text):
    with pytest.raises(kind, match=text) as caught, explained():
        raise RuntimeError(message)
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(kind, match=text):
        failing(message)
    java = types.SimpleNamespace(getMessage=lambda: message)
    error = RuntimeError("An error occurred")
    error.java_exception = java
    assert isinstance(preflight.explain(preflight.text_of(error)), kind)


def test_other_errors_pass():
    with pytest.raises(KeyError), explained():
        raise KeyError("a")
