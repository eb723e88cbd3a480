# SPDX-License-Identifier: Apache-2.0
"""sparkring.spark.run, and sparkring.init() in a user's own function, through Spark Connect.

The server and its two executors are processes of this machine. PySpark brings it from 4.0 on, and
wants to be a process of its own: scripts/setup connect makes the environment that these run in.
"""

import os
import shutil
import signal
import sys
import threading
import time
import warnings
from itertools import chain

import numpy as np
import pytest
import sparkring
from cluster import alive, until
from conftest import QUIET, TWO_EXECUTORS, work_of
from notebook import PaperError, fail
from pyspark import __version__, cloudpickle
from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests
from sparkring.data import parquet, write_parquet
from sparkring.spark import Checkpoint, RankError, explained, run
from sparkring.spark._connect import Connect

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors do not have this file


def missing():
    """Return why there can be no server here, if so."""
    if int(__version__.partition(".")[0]) < 4:
        return f"PySpark {__version__} brings no server of Spark Connect: scripts/setup connect"
    try:
        import grpc_status  # noqa: F401
    except ImportError as error:
        return f"Spark Connect needs more packages, see scripts/setup connect: {error}"
    return None


pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture(scope="module")
def connected():
    """A session of Spark Connect; its server is started for it."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tries to set again what the server was started with
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        settings = {
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={QUIET.as_uri()}",
            "spark.executor.memory": "1g",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        builder = SparkSession.builder.appName("sparkring tests").remote(TWO_EXECUTORS)
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    work = work_of(session.conf.get("spark.app.id"))
    yield session
    session.stop()
    shutil.rmtree(work)


def scale(comm, factor):
    print(f"rank {comm.rank} works")
    comm.progress(1, 1)
    total = float(comm.allreduce(np.array(factor * comm.rank)))
    return comm.rank, comm.size, comm.attempt, total, os.getpid()


def sleep(comm, folder):
    (folder / str(comm.rank)).write_text(str(os.getpid()))
    time.sleep(1000)


# ---- run()


def test_results_and_output(connected, capfd):
    first = run(scale, args=(0.5,))  # the active session, and as many ranks as there are slots
    assert [value[:4] for value in first] == [(rank, 4, 0, 3.0) for rank in range(4)]
    lines = capfd.readouterr().out.splitlines()
    assert {f"[{rank}] rank {rank} works" for rank in range(4)} <= set(lines)
    second = run(scale, args=(0.5,), num_proc=2, spark=connected, verbose=0)
    assert [value[:4] for value in second] == [(rank, 2, 0, 0.5) for rank in range(2)]
    assert not {value[-1] for value in first} & {value[-1] for value in second}


def test_results_larger_than_a_message(connected):
    found = run(lambda comm: np.full(1 << 20, comm.rank), num_proc=2, verbose=0)
    assert [array.sum() for array in found] == [0, 1 << 20]


def test_exception_of_the_rank_at_fault(connected):
    with pytest.raises(PaperError) as caught:
        run(fail, args=("raise",), num_proc=4, max_restarts=1, verbose=0)
    cause = caught.value.__cause__
    assert isinstance(cause, RankError)
    assert (cause.rank, cause.attempt, cause.log) == (1, 1, ["rank 1 was here"])
    assert cause.host and "in fail" in cause.remote_traceback


def test_killed_rank(connected):
    with pytest.raises(RankError, match=r"^rank 1 on .* was killed by SIGKILL") as caught:
        run(fail, args=("kill",), num_proc=4)
    assert (caught.value.rank, caught.value.log) == (1, ["rank 1 was here"])


def test_interrupt_ends_the_ranks(connected, tmp_path):
    def interrupt():
        until(lambda: len(list(tmp_path.iterdir())) == 2)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run(sleep, args=(tmp_path,), num_proc=2, verbose=0)
    thread.join()
    processes = [int(path.read_text()) for path in tmp_path.iterdir()]
    until(lambda: not any(map(alive, processes)))
    assert connected.getTags() == set()


def test_too_few_slots(connected):
    with pytest.raises(sparkring.InvalidError, match=r"^5 ranks need") as caught:
        run(scale, args=(1.0,), num_proc=5)
    assert f"{TWO_EXECUTORS} has 4: 2 executors x (2 cores / 1 per task)" in str(caught.value)


def test_slots_that_others_hold(connected, tmp_path):
    def held(batches):
        (tmp_path / "held").touch()
        time.sleep(1000)
        yield from batches

    def hold():
        connected.addTag("holder")
        with pytest.raises(Exception, match=r"CANCELED|canceled|cancelled"):
            connected.range(0, 1, 1, 1).mapInArrow(held, "id long").collect()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        until((tmp_path / "held").exists)
        with pytest.raises(sparkring.TimeoutError, match="other jobs of this application hold"):
            run(scale, args=(1.0,), num_proc=4, timeout=2, verbose=0)
    finally:
        connected.interruptTag("holder")
        holder.join()


def test_another_thread_is_cancelled(connected, tmp_path):
    """It finds the session, its tags stay, and a cancelled job is one sentence."""
    caught = []

    def cell():
        connected.addTag("cell")
        try:
            run(sleep, args=(tmp_path,), num_proc=2, verbose=0)
        except BaseException as error:
            caught.append(error)
        caught.append(connected.getTags())

    thread = threading.Thread(target=cell)
    thread.start()
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    connected.interruptTag("cell")
    thread.join()
    error, tags = caught
    assert isinstance(error, sparkring.AbortedError)
    assert str(error).startswith("Spark has ended the job of the ranks: ")
    assert "\n" not in str(error)
    assert tags == {"cell"}
    processes = [int(path.read_text()) for path in tmp_path.iterdir()]
    until(lambda: not any(map(alive, processes)))


def test_resources(connected):
    two = ResourceProfileBuilder().require(TaskResourceRequests().cpus(2)).build
    assert run(lambda comm: comm.size, resources=two, verbose=0) == [2, 2]
    with pytest.raises(sparkring.InvalidError, match=r"2 executors x \(2 cores / 2 per task\)"):
        run(scale, args=(1.0,), num_proc=3, resources=two)


def test_relative_checkpoint(connected):
    with pytest.raises(sparkring.InvalidError, match="job is relative, and each executor has"):
        run(lambda comm: Checkpoint(comm, "job"), num_proc=1, verbose=0)


# ---- The rows of a DataFrame; test_dataframe.py has more


def ids(comm, rows):
    if not hasattr(rows, "columns"):
        rows = [x for batch in rows for x in batch.column("id").to_pylist()]
    else:
        rows = rows["id"].tolist()
    return rows, float(comm.allreduce(np.array(float(sum(rows)))))


def rows_0_6_13(session):
    frame = session.range(0, 300, 1, 3)
    return frame.where("id BETWEEN 100 AND 105 OR id BETWEEN 200 AND 212")


PARTS = [[], list(range(100, 106)), list(range(200, 213))]


@pytest.mark.parametrize("rows", ["pandas", "batches"])
def test_rows_of_partitions(connected, rows):
    found = run(ids, frame=rows_0_6_13(connected), rows=rows, verbose=0)
    assert found == [(part, float(sum(map(sum, PARTS)))) for part in PARTS]


def look(comm, rows):
    return list(rows.columns), rows.iloc[:, 0].tolist(), rows.iloc[:, 1].tolist()


def test_names_nulls_and_lists(connected):
    """Names with dots and backticks, and twice; null structs; lists of several lengths."""
    struct = "if(id % 2 = 1, NULL, named_struct('k.l', id))"
    frame = connected.sql(f"SELECT {struct}, sequence(0L, id), id FROM range(0, 4, 1, 2)")
    frame = frame.toDF("a.b", "q`x", "a.b")
    for num_proc in (None, 2):
        for first, (names, structs, lists) in zip(
            (0, 2), run(look, frame=frame, num_proc=num_proc, verbose=0)
        ):
            assert names == ["a.b", "q`x", "a.b"]
            assert structs == [{"k.l": first}, None]
            assert [values.tolist() for values in lists] == [
                list(range(first + 1)),
                list(range(first + 2)),
            ]


def test_rows_that_are_dealt_out(connected):
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql.functions import array, lit

    found = run(ids, num_proc=4, frame=rows_0_6_13(connected), verbose=0)
    assert [len(part) for part, _ in found] == [5, 5, 5, 4]
    assert [x for part, _ in found for x in part] == list(chain(*PARTS))
    vectors = connected.range(2).select(array_to_vector(array("id", lit(0.5))).alias("v"))
    found = run(lambda comm, rows: rows["v"].tolist(), num_proc=1, frame=vectors, verbose=0)
    assert [list(vector) for vector in found[0]] == [[0, 0.5], [1, 0.5]]
    one = connected.range(0, 10, 1, 2)
    assert [part for part, _ in run(ids, frame=one.union(one), verbose=0)] == 2 * [
        list(range(5)),
        list(range(5, 10)),
    ]


def test_tables_without_rows(connected):
    some = rows_0_6_13(connected)
    assert run(ids, frame=some.where("id < 0"), verbose=0) == [([], 0.0)] * 3
    one = connected.range(0, 10, 1, 2)
    assert run(ids, frame=one.union(one).where("id < 0"), verbose=0) == [([], 0.0)] * 4
    empty = connected.createDataFrame([], "id bigint")
    assert run(ids, frame=empty, verbose=0) == [([], 0.0)]
    assert run(ids, frame=some.where("id < 0").repartition(3), num_proc=2, verbose=0) == [
        ([], 0.0),
        ([], 0.0),
    ]


def test_another_number_of_tasks_than_counted(connected, monkeypatch):
    """Spark plans a frame anew in each job."""
    monkeypatch.setattr(Connect, "partitions", lambda self, frame: 3)
    with pytest.raises(sparkring.UnsupportedError, match=r"Spark started 2 tasks for 3 ranks"):
        run(ids, frame=connected.range(0, 10, 1, 2), verbose=0)


def test_a_restart_and_results_that_stay_in_spark(connected):
    def work(comm, rows):
        comm.barrier()
        if comm.attempt == 0 and comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return rows.assign(attempt=comm.attempt)

    frame = run(
        work,
        frame=rows_0_6_13(connected),
        schema="id long, attempt int",
        max_restarts=1,
        verbose=0,
    )
    expected = [(x, 1) for x in chain(*PARTS)]
    assert [tuple(row) for row in frame.collect()] == expected
    assert tuple(frame.take(1)[0]) in expected  # of any partition, on Connect
    assert frame.union(frame).count() == 38


# ---- Rows


def ids_of(comm, path):
    with parquet(path, comm, 16, shuffle=2, equalize="join") as data:
        return [row for batch in data for row in batch["id"].tolist()]


def test_rows_of_a_frame(connected, tmp_path):
    def frame():
        return connected.range(500).selectExpr("id", "id / 2 half")

    with pytest.raises(sparkring.InvalidError, match="a directory that all of them see"):
        write_parquet(frame())
    path = write_parquet(frame(), tmp_path)
    assert write_parquet(frame(), tmp_path) == path
    assert write_parquet(frame().where("id > 3"), tmp_path) != path
    assert write_parquet(frame().selectExpr("id half", "half id"), tmp_path) != path
    ranks = run(ids_of, args=(path,), num_proc=3, verbose=0)
    assert sorted(row for ids in ranks for row in ids) == list(range(500))


# ---- A function of one's own


def average(frames):
    import pandas as pd

    ids = pd.concat(frames)["id"]
    with sparkring.init() as comm:
        total, count = comm.allreduce(np.array([ids.sum(), len(ids)], dtype=np.float64))
        yield pd.DataFrame({"rank": [comm.rank], "mean": [total / count]})


def test_map_in_pandas(connected):
    frame = connected.range(1000).repartition(4)
    rows = frame.mapInPandas(average, "rank long, mean double", barrier=True).collect()
    assert sorted((row["rank"], row["mean"]) for row in rows) == [
        (rank, 499.5) for rank in range(4)
    ]


def test_limits_are_explained(connected):
    frame = connected.range(0, 4, 1, 4).coalesce(2)
    stage = frame.mapInPandas(average, "rank long, mean double", barrier=True)
    with pytest.raises(sparkring.UnsupportedError, match="put repartition"), explained():
        stage.collect()
