# SPDX-License-Identifier: Apache-2.0
"""The loader of Parquet files on ranks of real Spark, from a DataFrame."""

import os
import pickle
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import sparkring
from conftest import ONE_EXECUTOR, TWO_EXECUTORS
from pyspark import cloudpickle
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql.types import ArrayType, FloatType, LongType, StringType, StructField, StructType
from sparkring.data import parquet, write_parquet
from sparkring.data._parquet import spark_table
from sparkring.spark import Checkpoint, run

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors do not have this file

ROWS = 500
FIELDS = {
    "id": LongType(),
    "label": StringType(),
    "array": ArrayType(FloatType(), False),
    "vector": VectorUDT(),
}


@pytest.fixture
def frame(spark):
    """Six partitions of unequal lengths, some of them empty, with vectors of both kinds."""

    def rows(index, _):
        for row in range(index * (index - 1) * ROWS // 30, index * (index + 1) * ROWS // 30):
            dense = Vectors.dense([1.0, row])
            yield row, f"row {row}", [float(row)], dense if row % 2 else Vectors.sparse(2, {1: row})

    rdd = spark.sparkContext.parallelize(range(6), 6).mapPartitionsWithIndex(rows)
    return spark.createDataFrame(rdd, StructType([StructField(*pair) for pair in FIELDS.items()]))


@pytest.fixture(autouse=True)
def _delete():
    yield
    spark_table._delete()


def take(comm, path, epochs):
    found = []
    with parquet(path, comm, 16, shuffle=2, epochs=epochs, equalize="join") as data:
        for _ in range(epochs):
            ids = []
            for batch in data:
                ids += batch["id"].tolist()
                assert batch["label"].tolist() == [f"row {row}" for row in batch["id"]]
                assert (batch["array"][:, 0] == batch["id"]).all()
                assert batch["vector"].tolist() == [[float(row % 2), row] for row in batch["id"]]
            found.append(ids)
    return found


@pytest.mark.parametrize("spark", [TWO_EXECUTORS], indirect=True)
def test_rows_of_a_frame(spark, frame):
    path = write_parquet(frame.where("id >= 0"), row_group_size=4096)
    assert write_parquet(frame.where("id >= 0"), row_group_size=4096) == path  # the same plan
    assert write_parquet(frame.where("id >= 7"), row_group_size=4096) != path
    assert write_parquet(frame.where("id >= 0")) != path
    assert Path(path).parent.stat().st_mode & 0o777 == 0o700
    ranks = run(take, args=(path, 2), num_proc=3, spark=spark, verbose=0)
    for epoch in range(2):
        assert Counter(row for ids in ranks for row in ids[epoch]) == Counter(range(ROWS))
    assert {len(ids[0]) for ids in ranks} == {ROWS // 3, ROWS // 3 + 1}
    child = os.fork()
    if child == 0:
        spark_table._delete()
        os._exit(0)
    os.waitpid(child, 0)
    assert Path(path).exists()  # they are the parent's
    spark_table._delete()
    assert not Path(path).parent.exists()


def with_checkpoint(comm, path, folder):
    """Take rows, each step saved; rank 1 is killed in its first attempt."""
    checkpoint = Checkpoint(comm, folder)
    state, ids = checkpoint.restore(default=(None, []))
    with parquet(path, comm, 16, shuffle=True, seed=3, state=state, equalize="join") as data:
        for batch in data:
            if comm.attempt == 0 and comm.rank == 1 and batch.step == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            ids = ids + [
                row for part in comm.allgather_object(batch["id"]) for row in part.tolist()
            ]
            checkpoint.save((data.state(), ids))
    return comm.attempt, ids


@pytest.mark.parametrize("spark", [ONE_EXECUTOR], indirect=True)
def test_rows_after_a_kill(spark, frame, tmp_path):
    path = write_parquet(frame, row_group_size=4096)
    arguments = {"args": (path, str(tmp_path / "states")), "spark": spark, "verbose": 0}
    ranks = run(with_checkpoint, num_proc=3, max_restarts=1, **arguments)
    assert [attempt for attempt, _ in ranks] == [1, 1, 1]
    assert sorted(ranks[0][1]) == list(range(ROWS))


@pytest.mark.parametrize("spark", [ONE_EXECUTOR], indirect=True)
def test_names_of_columns_are_part_of_a_frame(spark):
    """Spark's own comparison of plans leaves them out."""
    frame = spark.range(3).selectExpr("id a", "id + 10 b")
    one, other = frame.selectExpr("a x", "b y"), frame.selectExpr("a y", "b x")
    assert one.sameSemantics(other)
    paths = [write_parquet(one), write_parquet(other)]
    assert [columns_of(path) for path in paths] == [
        ([0, 1, 2], [10, 11, 12]),
        ([10, 11, 12], [0, 1, 2]),
    ]


def columns_of(path):
    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        (batch,) = parquet(path, comm, 3)
        return tuple(sorted(batch[name].tolist()) for name in "xy")


@pytest.mark.parametrize("spark", [ONE_EXECUTOR], indirect=True)
def test_files_are_deleted_on_request(spark):
    frame = spark.range(3)
    path = write_parquet(frame)
    assert type(pickle.loads(pickle.dumps(path))) is str
    path.delete()
    assert not Path(path).parent.exists()
    with write_parquet(frame) as other:
        assert other != path and Path(other).exists()
    assert not Path(other).exists()


@pytest.mark.parametrize("spark", [ONE_EXECUTOR], indirect=True)
def test_a_frame_on_the_driver(spark, frame):
    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        assert sorted(take(comm, frame, 1)[0]) == list(range(ROWS))
        with pytest.raises(sparkring.InvalidError, match="pass a DataFrame of Spark"):
            write_parquet("a path")


@pytest.mark.parametrize("spark", [ONE_EXECUTOR], indirect=True)
def test_a_write_that_fails_leaves_nothing(spark, frame, tmp_path):
    with pytest.raises(Exception, match=r"boom"):
        write_parquet(frame.selectExpr("if(id > 100, raise_error('boom'), id) id"), tmp_path)
    assert list(tmp_path.iterdir()) == []


PROGRAM = """
import sys
from pyspark.sql import SparkSession
from sparkring.data import write_parquet
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
path = write_parquet(spark.range(10), sys.argv[1])
assert list(__import__("pathlib").Path(path).glob("*.parquet"))
raise SystemExit(3)
"""


@pytest.mark.parametrize("spark", [ONE_EXECUTOR], indirect=True)
def test_files_are_deleted_when_the_process_ends(spark, tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "the tables")]
    job = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    assert job.returncode == 3, job.stderr
    assert list((tmp_path / "the tables").iterdir()) == []
