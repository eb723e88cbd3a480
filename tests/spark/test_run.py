# SPDX-License-Identifier: Apache-2.0
"""sparkring.spark.run on real Spark, on one executor and on two."""

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import numpy as np
import pytest
import sparkring
from cluster import alive, until
from conftest import BOTH, ONE_EXECUTOR, TWO_EXECUTORS, work_of
from notebook import PaperError, fail
from pyspark import cloudpickle
from pyspark.resource import (
    ExecutorResourceRequests,
    ResourceProfileBuilder,
    TaskResourceRequests,
)
from sparkring.spark import Checkpoint, RankError, run
from sparkring.spark import _attempts as attempts
from sparkring.spark import _classic as classic

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors do not have this file

ON_TWO = pytest.mark.parametrize("spark", [TWO_EXECUTORS], indirect=True)
ON_ONE = pytest.mark.parametrize("spark", [ONE_EXECUTOR], indirect=True)
SOON = 60  # seconds: far less than ranks would take that are not ended


def scale(comm, factor, plus=0.0):
    print(f"rank {comm.rank} works")
    os.system(f"echo a child of {comm.rank}")
    total = float(comm.allreduce(np.array(factor * comm.rank + plus)))
    return comm.rank, comm.size, comm.attempt, total, os.getpid()


def sums(comm, path, fails):
    """Twenty steps, each saved; at its first attempt rank 2 is killed in the middle."""
    checkpoint = Checkpoint(comm, path)
    first, weights = checkpoint.restore(default=(0, np.zeros(3)))
    for step in range(first, 20):
        if fails and comm.attempt == 0 and comm.rank == 2 and step == 10:
            os.kill(os.getpid(), signal.SIGKILL)
        weights = 0.9 * weights + comm.allreduce(np.arange(3) / (1 + comm.rank + step))
        checkpoint.save((step + 1, weights))
        comm.progress(step + 1, 20, weight=weights[1])
    return comm.attempt, first, weights.tobytes()


# ---- Results and output


@pytest.mark.quick
@BOTH
def test_results_and_output(spark, capfd):
    first = run(scale, args=(0.5,), kwargs={"plus": 1.0}, spark=spark)
    assert [value[:4] for value in first] == [(rank, 4, 0, 7.0) for rank in range(4)]
    output = capfd.readouterr().out.splitlines()
    lines = {line for rank in range(4) for line in (f"[{rank}] rank {rank} works",)}
    lines |= {f"[{rank}] a child of {rank}" for rank in range(4)}
    assert lines <= set(output)
    second = run(scale, args=(0.5,), num_proc=2, verbose=0)
    assert [value[:4] for value in second] == [(rank, 2, 0, 0.5) for rank in range(2)]
    assert not {value[-1] for value in first} & {value[-1] for value in second}
    output = capfd.readouterr()
    assert "[0]" not in output.out and "rank 0 works" not in output.out + output.err


def test_large_results(spark, tmp_path):
    """More than Spark carries, and than its JVM may collect; then through a folder."""

    def squares(comm, length):
        return np.arange(comm.rank, comm.rank + length) ** 2 if comm.rank != 1 else comm.rank

    for folder in (None, tmp_path):
        rows = run(squares, args=(3 << 20,), num_proc=3, spark=spark, verbose=0, results=folder)
        assert rows[1] == 1
        for rank in (0, 2):
            assert np.array_equal(rows[rank], np.arange(rank, rank + (3 << 20)) ** 2)
    assert list(tmp_path.iterdir()) == []


@ON_TWO
def test_a_result_that_cannot_be_carried(spark, monkeypatch):
    """No executor reaches this process: Spark carries what it can; for the rest there is advice."""
    monkeypatch.setattr(classic.Classic, "reach", lambda self: "192.0.2.1")
    assert run(lambda comm: bytes(2 << 20), num_proc=4, verbose=0) == [bytes(2 << 20)] * 4
    words = (
        r"rank [02] returned .* that takes 17 MiB.*192\.0\.2\.1, .*spark\.driver\.host.*results="
    )
    with pytest.raises(sparkring.UnsupportedError, match=words):
        run(lambda comm: bytes((17 << 20) * (1 - comm.rank % 2)), num_proc=4, verbose=0)


@ON_TWO
def test_logs_have_the_output(spark):
    run(lambda comm: print(f"rank {comm.rank} in the log"), num_proc=4, verbose=1)
    logs = work_of(spark.sparkContext.applicationId).glob("*/stderr")
    text = "".join(log.read_text() for log in logs)
    for rank in range(4):
        assert f"rank {rank} in the log" in text


def environments(comm):
    """What this rank began with, what it has now, and what its children get."""
    began = Path("/proc/self/environ").read_bytes()
    now = b"\0".join(b"%b=%b" % pair for pair in os.environb.items())
    children = subprocess.run(["env", "-0"], stdout=subprocess.PIPE, check=True).stdout
    return [text.split(b"\0") for text in (began, now, children)]


def test_no_token_in_the_environment(spark, monkeypatch):
    """The ring has no token but keys of its own; those of this module come with the closure."""
    make, keys = attempts.Attempt, []

    def note(*args, **kwargs):
        job = make(*args, **kwargs)
        keys.append(bytes.fromhex(job.address.key))
        return job

    monkeypatch.setattr(attempts, "Attempt", note)
    found = run(environments, num_proc=4)
    variables = {variable for rank in found for each in rank for variable in each}
    assert any(variable.startswith(b"PATH=") for variable in variables) and len(keys) == 1
    forms = [form for key in keys for form in (key, key.hex().encode())]
    assert not [variable for variable in variables if any(form in variable for form in forms)]
    names = {variable.partition(b"=")[0] for variable in variables} - set(os.environb)
    assert not [name for name in names if b"TOKEN" in name.upper() or b"SPARKRING" in name.upper()]


# ---- Failures


@pytest.mark.quick
def test_exception_of_the_rank_at_fault(spark):
    with pytest.raises(PaperError) as caught:
        run(fail, args=("raise",), num_proc=4, verbose=0)
    assert caught.value.sheets == 3
    cause = caught.value.__cause__
    assert isinstance(cause, RankError)
    assert (cause.rank, cause.attempt, cause.log) == (1, 0, ["rank 1 was here"])
    assert cause.host and f"rank 1 on {cause.host} failed with PaperError" in str(cause)
    assert "in fail" in cause.remote_traceback and "rank.py" not in cause.remote_traceback


@ON_ONE
def test_sys_exit_is_no_exit_of_the_driver(spark):
    with pytest.raises(RankError, match=r"failed with SystemExit(.|\n)*enough") as caught:
        run(fail, args=("exit",), num_proc=4, verbose=0)
    assert caught.value.rank == 1


ENDS = {
    "kill": r"was killed by SIGKILL \(probably out of memory: raise spark\.executor\.mem",
    "_exit": "failed with exit code 3",
    "worker": "was lost: .*Python worker exited unexpectedly",
}


@pytest.mark.quick
@ON_TWO
@pytest.mark.parametrize("how", ENDS)
def test_killed_rank(spark, how):
    before = executors(spark)
    with pytest.raises(RankError, match=rf"^rank 1 on \S+ {ENDS[how]}") as caught:
        run(fail, args=(how,), num_proc=4, verbose=0)
    error = caught.value
    assert (error.rank, error.log) == (1, ["rank 1 was here"]) and error.host
    assert "\n\tat " not in "".join(traceback.format_exception(error))
    if how == "worker":  # which only Spark can report
        assert "\n\tat " in error.__cause__.text
    else:
        assert error.__cause__ is None
    assert executors(spark) == before


DIE = """
import os, signal, time
from pyspark.sql import SparkSession
from sparkring.spark import RankError, run

builder = SparkSession.builder.master("local-cluster[2,1,1024]")
spark = builder.config("spark.ui.showConsoleProgress", "true").getOrCreate()

def die(comm, seconds):
    comm.barrier()
    if comm.rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(seconds)
    comm.barrier()

for seconds in (0, 1000):
    try:
        run(die, args=(seconds,), num_proc=2, verbose=0)
    except RankError as error:
        time.sleep(3)  # while Spark ends the other rank
        print(str(error)[:40], flush=True)
        print("----", file=__import__("sys").stderr, flush=True)
spark.stop()
"""


def test_spark_is_quiet_about_a_killed_rank(tmp_path):
    """Its task settles; only a rank that is at work has Spark end the stage, which it logs."""
    code = tmp_path / "die.py"
    code.write_text(DIE)
    job = subprocess.run(
        [sys.executable, str(code)], capture_output=True, text=True, timeout=400, check=True
    )
    assert job.stdout.count(" was killed by SIGKILL") == 2
    for step, output in enumerate(job.stderr.split("----\n")[:2]):
        assert "[Stage" not in output
        assert ("\tat " in output) == (step == 1)


@ON_TWO
def test_ranks_that_do_not_notice_are_ended(spark, tmp_path):
    """Their executors are not, nor is that of a rank which has ended well and waits for them."""

    def work(comm, folder):
        (folder / str(comm.rank)).write_text(str(os.getpid()))
        comm.barrier()
        if comm.rank == 3:
            raise PaperError(0)
        time.sleep(0 if comm.rank == 0 else 1000)

    before = executors(spark)
    with pytest.raises(PaperError) as caught:
        run(work, args=(tmp_path,), num_proc=4, verbose=0)
    assert caught.value.__cause__.rank == 3
    until(lambda: not any(alive(int(path.read_text())) for path in tmp_path.iterdir()))
    assert executors(spark) == before


def executors(spark):
    """The processes of all executors, as the tasks of a job see them."""

    def process(comm):
        factory = parent_of(os.getppid())  # from which Python workers come
        return parent_of(factory)

    return set(run(process, num_proc=4, verbose=0))


def parent_of(process):
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


# ---- Restarts


@ON_TWO
def test_restart_goes_on_from_the_checkpoint(spark, tmp_path, capfd):
    undisturbed = run(sums, args=(str(tmp_path / "a"), False), num_proc=4, verbose=0)
    assert {(attempt, first) for attempt, first, _ in undisturbed} == {(0, 0)}
    ended = run(sums, args=(str(tmp_path / "b"), True), num_proc=4, max_restarts=2)
    assert {(attempt, first) for attempt, first, _ in ended} == {(1, 10)}
    assert {weights for _, _, weights in ended} == {undisturbed[0][2]}
    output = capfd.readouterr()
    assert (
        "was killed by SIGKILL" in output.out
        and "launching all ranks again (1 of 2 times)" in output.out
    )
    assert "20" in output.out + output.err  # the bar or the line of its end


@ON_ONE
def test_restarts_end(spark):
    with pytest.raises(PaperError) as caught:
        run(fail, args=("raise",), num_proc=2, max_restarts=1, verbose=0)
    assert caught.value.__cause__.attempt == 1


# ---- Ctrl-C


def wait_for_ever(comm, folder):
    (Path(folder) / str(comm.rank)).touch()
    while True:
        comm.barrier()
        time.sleep(0.1)


@ON_ONE
def test_ctrl_c_is_a_keyboard_interrupt(spark, tmp_path):
    key = "spark.jobGroup.id"
    before = spark.sparkContext.getLocalProperty(key)

    def interrupt():
        while len(list(tmp_path.iterdir())) < 4:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    waiter = threading.Thread(target=interrupt, daemon=True)
    waiter.start()
    with pytest.raises(KeyboardInterrupt):
        run(wait_for_ever, args=(str(tmp_path),), num_proc=4, verbose=0)
    assert run(lambda comm: comm.size, num_proc=4, verbose=0, timeout=SOON) == [4] * 4
    assert spark.sparkContext.getLocalProperty(key) == before


# ---- Slots


def test_too_few_slots(spark):
    with pytest.raises(sparkring.InvalidError, match=r"^5 ranks need") as caught:
        run(scale, args=(1.0,), num_proc=5)
    room = {
        ONE_EXECUTOR: "local[4] has 4: 4 cores / 1 per task",
        TWO_EXECUTORS: f"{TWO_EXECUTORS} has 4: 2 executors x (2 cores / 1 per task)",
    }
    assert room[spark.sparkContext.master] in str(caught.value)
    assert "pass num_proc=4 or less" in str(caught.value)


@ON_TWO
def test_resources(spark):
    two = ResourceProfileBuilder().require(TaskResourceRequests().cpus(2)).build
    assert run(lambda comm: comm.size, resources=two, verbose=0) == [2, 2]
    with pytest.raises(sparkring.InvalidError, match=r"2 executors x \(2 cores / 2 per task\)"):
        run(scale, args=(1.0,), num_proc=3, resources=two)
    executors = ResourceProfileBuilder().require(ExecutorResourceRequests().cores(2)).build
    with pytest.raises(sparkring.UnsupportedError, match="asks for executors of its own"):
        run(scale, args=(1.0,), num_proc=1, resources=executors)
    gpu = ResourceProfileBuilder().require(TaskResourceRequests().resource("gpu", 1)).build
    with pytest.raises(
        sparkring.UnsupportedError, match=r"have no gpu: spark\.executor.*gpus\(1\)"
    ):
        run(scale, args=(1.0,), num_proc=1, resources=gpu)


@ON_TWO
def test_modules_that_only_the_driver_has(spark, tmp_path, monkeypatch):
    """Spark's workers are not started from here: they have another folder and path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "only_driver.py").write_text(
        "import only_deeper\nclass Answer:\n    value = only_deeper.VALUE\n"
        "def work(comm):\n    return Answer()\ndef miss(comm):\n    import nowhere.at_all\n"
        "import os, signal\ndef die(comm):\n"
        "    print('in', os.path.dirname(__file__), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    (tmp_path / "only_deeper.py").write_text("VALUE = 42\n")
    (tmp_path / "train.py").write_text(
        "import sys, only_deeper, sparkring\nassert __name__ == '__main__'\n"
        "with sparkring.init(timeout=1) as comm:\n    total = comm.allreduce(only_deeper.VALUE)\n"
        "with sparkring.init() as comm:\n    sys.exit(comm.size * 42 - total + int(sys.argv[1]))\n"
    )
    import only_driver

    for answer in run(only_driver.work, num_proc=2, verbose=0):
        assert isinstance(answer, only_driver.Answer)
        assert answer.value == 42
    with pytest.raises(ModuleNotFoundError, match=r"the executors has no nowhere.*addPyFile\("):
        run(only_driver.miss, num_proc=2, verbose=0)
    with pytest.raises(RankError, match="SIGKILL") as killed:
        run(only_driver.die, num_proc=2, verbose=0)
    folder = Path(killed.value.log[-1].removeprefix("in "))
    assert "blockmgr-" in folder.parent.name  # which Spark removes at the end of the application
    assert not folder.exists()
    assert run(tmp_path / "train.py", args=["0"], num_proc=2, verbose=0) == [None, None]
    with pytest.raises(RankError, match="SystemExit: 3"):
        run(tmp_path / "train.py", args=["3"], num_proc=2, verbose=0)


@ON_ONE
def test_resources_where_spark_takes_none(spark):
    two = ResourceProfileBuilder().require(TaskResourceRequests().cpus(2)).build
    with pytest.raises(sparkring.UnsupportedError, match="this Spark takes no resources: "):
        run(scale, args=(1.0,), num_proc=1, resources=two)


@ON_ONE
def test_slots_that_others_hold(spark):
    context = spark.sparkContext
    before = context.getLocalProperty("spark.jobGroup.id")

    def hold():
        context.setJobGroup("holder", "holds a slot", interruptOnCancel=True)
        with pytest.raises(Exception, match="cancelled"):
            context.parallelize([0], 1).foreach(lambda _: time.sleep(1000))

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        while not any(
            context.statusTracker().getStageInfo(stage).numActiveTasks
            for stage in context.statusTracker().getActiveStageIds()
        ):
            time.sleep(0.05)
        with pytest.raises(sparkring.TimeoutError, match="other jobs of this application hold"):
            run(scale, args=(1.0,), num_proc=4, timeout=2)
    finally:
        context.cancelJobGroup("holder")
        holder.join()
    assert context.getLocalProperty("spark.jobGroup.id") == before
    assert run(lambda comm: comm.size, num_proc=2, verbose=0) == [2, 2]


@ON_ONE
def test_the_callers_group_cancels_the_ranks(spark):
    """Jobs of the ranks stay in the group of the caller, as a notebook has it."""
    context, begun, caught = spark.sparkContext, threading.Event(), []

    def cell():
        context.setJobGroup("cell", "my cell", interruptOnCancel=True)
        try:
            run(wait_long, num_proc=2, verbose=0)
        except BaseException as error:
            caught.append(error)
        caught.append(context.getLocalProperty("spark.jobGroup.id"))

    thread = threading.Thread(target=cell)
    thread.start()
    while not begun.is_set():
        tracker = context.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if sum(stage.numActiveTasks for stage in stages if stage) == 2:
            begun.set()
        time.sleep(0.05)
    context.cancelJobGroup("cell")
    thread.join(SOON)
    error, group = caught
    assert isinstance(error, sparkring.AbortedError)
    assert "Spark has ended the job of the ranks" in str(error)
    assert "\n" not in str(error)
    assert group == "cell"
    assert run(lambda comm: comm.size, num_proc=2, verbose=0) == [2, 2]


def wait_long(comm):
    for _ in range(1000):
        time.sleep(0.1)
        comm.barrier()
