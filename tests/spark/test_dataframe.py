# SPDX-License-Identifier: Apache-2.0
"""sparkring.spark.run on the rows of a DataFrame; test_connect.py has the same through Connect."""

import os
import signal
import sys
import time
from itertools import chain

import cluster as clusters
import numpy as np
import pytest
import sparkring
import tasks
from conftest import FRAMES, ONE_EXECUTOR, TWO_EXECUTORS
from pyspark import cloudpickle
from sparkring.spark import RankError, _dataframe, run

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors do not have this file

pytestmark = FRAMES
ON_TWO = pytest.mark.parametrize("spark", [TWO_EXECUTORS], indirect=True)
ON_ONE = pytest.mark.parametrize("spark", [ONE_EXECUTOR], indirect=True)

IDS = [[], list(range(100, 106)), list(range(200, 213))]
EVERY_TYPE = """SELECT id, cast(id AS int) AS n, if(id % 2 = 0, NULL, id / 3) AS x,
    if(id = 3, NULL, concat('é', id)) AS s, id > 2 AS b,
    date_add(date'2020-01-01', cast(id AS int)) AS d, timestamp'2020-03-29 00:30:00' AS t,
    array_repeat(id / 2, int(id)) AS a, cast(id AS decimal(10, 2)) AS m,
    map(concat('k', id), id) AS p, struct(id, timestamp'2020-03-29 00:30:00' AS t) AS q,
    array(timestamp'2020-03-29 00:30:00') AS u FROM range(0, 5, 1, 2)"""


def rows_0_6_13(session):
    """A table of three partitions."""
    frame = session.range(0, 300, 1, 3)
    return frame.where("id BETWEEN 100 AND 105 OR id BETWEEN 200 AND 212")


def ids(comm, rows, plus=0):
    """Give the ids of a rank, and their sum over all ranks."""
    if hasattr(rows, "to_pandas"):
        found = rows["id"].to_pylist()
    elif hasattr(rows, "to_numpy"):
        found = rows["id"].tolist()
    else:
        found = [x for batch in rows for x in batch.column("id").to_pylist()]
    return found, float(comm.allreduce(np.array(float(sum(found) + plus))))


# ---- Which rows a rank gets


@pytest.mark.parametrize("rows", ["pandas", "arrow", "batches"])
def test_ranks_get_the_rows_of_their_partitions(spark, rows):
    """In their order; and the rank without any takes part."""
    found = run(ids, kwargs={"plus": 1}, frame=rows_0_6_13(spark), rows=rows, verbose=0)
    assert [values for values, _ in found] == IDS
    assert {total for _, total in found} == {sum(map(sum, IDS)) + 3.0}


def test_rows_are_dealt_out_in_their_order(spark):
    everything = list(chain(*IDS))
    found = run(ids, num_proc=4, frame=rows_0_6_13(spark), verbose=0)
    assert [len(values) for values, _ in found] == [5, 5, 5, 4]
    assert [x for values, _ in found for x in values] == everything
    found = run(ids, num_proc=4, frame=spark.range(2).repartition(3), verbose=0)
    assert sorted(len(values) for values, _ in found) == [0, 0, 1, 1]


def test_rows_that_were_not_counted_keep_their_order(spark, monkeypatch):
    """Spark may choose other partitions than those that it has counted."""
    monkeypatch.setattr(_dataframe, "counts_of", lambda frame: [10, 30])
    found = run(ids, num_proc=4, frame=spark.range(0, 90, 1, 3), verbose=0)
    assert [x for values, _ in found for x in values] == list(range(90))
    assert len(found[0][0]) == 10


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_sorted_rows_are_dealt_out(spark, adaptive):
    """Spark samples the table for each sort, and sorts it once here."""
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        frame = spark.range(0, 100_000, 1, 4).selectExpr("id", "hash(id) AS h").orderBy("h")
        found = run(lambda comm, rows: rows["h"].tolist(), num_proc=4, frame=frame, verbose=0)
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    assert [len(values) for values in found] == [25_000] * 4
    assert list(chain(*found)) == [row["h"] for row in frame.select("h").collect()]


@ON_ONE
def test_maps_are_dealt_out(spark):
    frame = spark.range(0, 6, 1, 3).selectExpr("map(id, id) AS m")
    found = run(lambda comm, rows: rows["m"].tolist(), num_proc=2, frame=frame, verbose=0)
    assert found == [[{i: i} for i in part] for part in (range(3), range(3, 6))]


def test_tables_without_rows(spark):
    """Spark drops their plans; the ranks still have the columns."""

    def columns(comm, rows):
        comm.barrier()
        return len(rows), list(rows.columns)

    some, one = rows_0_6_13(spark), spark.range(0, 10, 1, 2)
    for frame in [
        some.where("id < 0"),
        spark.createDataFrame([], "id bigint"),
        some.where("id < 0").repartition(3),
        some.where("false"),
        one.union(one).where("id < 0"),
    ]:
        for num_proc in (None, 2):
            ranks = num_proc or max(1, frame.rdd.getNumPartitions())
            assert run(columns, num_proc=num_proc, frame=frame, verbose=0) == [(0, ["id"])] * ranks


def test_a_union_is_shuffled_first(spark):
    """Spark refuses it in a barrier stage."""
    one = spark.range(0, 10, 1, 2)
    found = run(ids, frame=one.union(one), verbose=0)
    half = [list(range(5)), list(range(5, 10))]
    assert [values for values, _ in found] == half + half


@ON_ONE
def test_too_few_slots(spark):
    with pytest.raises(sparkring.InvalidError, match=r"^5 ranks need"):
        run(ids, frame=spark.range(0, 9, 1, 5), verbose=0)


# ---- What a rank gets


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_pandas_are_those_of_spark(spark, zone):
    import pandas as pd

    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    try:
        frame = spark.sql(EVERY_TYPE)
        parts = run(lambda comm, rows: rows, frame=frame, verbose=0)
        expected = frame.toPandas().astype({"t": "datetime64[ns]"})  # Spark 3.5 has "us"
        pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), expected)
        kept = run(lambda comm, rows: rows, frame=frame, schema=frame.schema, verbose=0)
        assert sorted(kept.collect(), key=str) == sorted(frame.collect(), key=str)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
        spark.conf.unset("spark.sql.execution.arrow.pyspark.enabled")


def test_vectors_become_arrays(spark):
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql.functions import expr

    frame = spark.range(0, 3, 1, 2).select(
        "id", array_to_vector(expr("array(id, 0.5D)")).alias("v")
    )
    frame = frame.selectExpr("id", "if(id = 1, NULL, v) AS v")
    for num_proc in (None, 2):
        parts = run(lambda comm, rows: rows, frame=frame, num_proc=num_proc, verbose=0)
        found = [v if v is None else list(v) for rows in parts for v in rows["v"]]
        assert found == [[0, 0.5], None, [2, 0.5]]


NAMES = ["a.b", "q`x", "a.b", "ü s", "v"]


@pytest.mark.parametrize("rows", ["pandas", "arrow", "batches"])
@ON_ONE
def test_names_and_null_structs(spark, rows):
    """Names with dots and backticks, and twice; null structs whose fields are not nullable."""

    def look(comm, rows):
        if hasattr(rows, "iloc"):
            return list(rows.columns), rows.iloc[:, 3].tolist()
        (table,) = [rows] if hasattr(rows, "schema") else rows
        return table.schema.names, table.column(3).to_pylist()

    struct = "if(id % 2 = 1, NULL, named_struct('k.l', id))"
    frame = spark.sql(f"SELECT id, id, id, {struct}, array({struct}) FROM range(0, 4, 1, 2)")
    frame = frame.toDF(*NAMES)
    for num_proc in (None, 2):
        found = run(look, frame=frame, num_proc=num_proc, rows=rows, verbose=0)
        assert found == [(NAMES, [{"k.l": first}, None]) for first in (0, 2)]


@ON_ONE
def test_names_and_vectors_of_results(spark):
    from pyspark.ml.linalg import Vectors, VectorUDT
    from pyspark.sql.types import ArrayType, LongType, StructType

    def work(comm, rows):
        return rows.assign(v=[Vectors.dense([1.0, i]) if i else None for i in rows["a.b"]])

    schema = StructType().add("a.b", LongType()).add("v", VectorUDT())
    frame = spark.range(0, 4, 1, 2).toDF("a.b")
    found = run(work, frame=frame, schema=schema, verbose=0)
    assert found.schema == schema
    expected = [(i, Vectors.dense([1.0, i]) if i else None) for i in range(4)]
    assert [tuple(row) for row in found.collect()] == expected
    again = run(lambda comm, rows: rows, frame=found, schema=schema, verbose=0)
    assert [tuple(row) for row in again.collect()] == expected
    for wrong, text in [
        (StructType().add("v", ArrayType(VectorUDT())), "a class of Spark's own in the column 'v'"),
        (StructType().add("v", LongType()).add("v", LongType()), "several columns 'v'"),
    ]:
        with pytest.raises(sparkring.InvalidError, match=text):
            run(work, frame=frame, schema=wrong, verbose=0)


@ON_ONE
def test_batches_come_one_after_another(spark):
    """The rank may stop before the last, and its worker is fine for the next run."""

    def first(comm, batches):
        sizes = [next(batches).num_rows for _ in range(2)]
        comm.barrier()
        return sizes

    from sparkring.data import batches as equal

    def steps(comm, batches):
        return [len(batch["id"]) for batch in equal(batches, comm, 100, equalize="pad")]

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    try:
        frame = spark.range(0, 2_000_000, 1, 2)
        for _ in range(2):
            assert run(first, frame=frame, rows="batches", verbose=0) == [[7, 7]] * 2
        found = run(steps, frame=rows_0_6_13(spark), rows="batches", verbose=0)
        assert found[0] == found[1] == found[2]
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


# ---- Failures and restarts


@ON_TWO
def test_a_killed_rank_and_a_restart(spark, capfd):
    def work(comm, rows):
        comm.barrier()
        if comm.rank == 1 and comm.attempt == 0:
            print("rank 1 was here", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        comm.progress(1, 1)
        return comm.attempt, ids(comm, rows)

    frame = rows_0_6_13(spark)
    with pytest.raises(RankError, match=r"^rank 1 on \S+ was killed by SIGKILL") as caught:
        run(work, frame=frame, verbose=0)
    assert caught.value.log == ["rank 1 was here"]
    found = run(work, frame=frame, max_restarts=1)
    assert found == [(1, (values, float(sum(map(sum, IDS))))) for values in IDS]
    found = run(work, num_proc=2, frame=frame, max_restarts=1, verbose=0)
    assert [x for _, (values, _) in found for x in values] == list(chain(*IDS))
    output = capfd.readouterr().out
    assert "[1] rank 1 was here" in output
    assert "launching all ranks again (1 of 1 times)" in output


@ON_TWO
def test_an_exception_and_ranks_that_do_not_read(spark):
    def work(comm, batches):
        if comm.rank == 2:
            raise KeyError("no such row")
        time.sleep(1000)

    with pytest.raises(KeyError, match="no such row") as caught:
        run(work, frame=spark.range(0, 3_000_000, 1, 3), rows="batches", verbose=0)
    assert caught.value.__cause__.rank == 2


@ON_ONE
def test_a_table_that_spark_cannot_compute(spark):
    """Spark ends executors whose killed tasks wait in its barrier: the next test may need them."""
    frame = spark.range(0, 30, 1, 3).selectExpr("if(id = 25, raise_error('no row 25'), id) AS id")
    for rows in ("pandas", "batches"):
        with pytest.raises(RankError, match=r"^rank 2 .*was lost: (.|\n)*no row 25"):
            run(ids, frame=frame, rows=rows, verbose=0)


# ---- Results that stay in Spark


def losses(comm, rows, path=None):
    import pandas as pd

    if path:
        (path / f"{comm.rank}-{comm.attempt}").touch(exist_ok=False)
    count = len(rows)
    return pd.DataFrame(
        {
            "rank": np.full(count, comm.rank),
            "place": np.arange(count),
            "loss": np.where(np.arange(count) % 2, rows["id"] / 4, np.nan),
            "name": [f"é{i}" if i % 3 else None for i in rows["id"]],
            "more": 1,
        }
    )


SCHEMA = "rank int, place bigint, loss double, name string"


def test_results_stay_in_spark(spark, tmp_path):
    frame = run(losses, args=(tmp_path,), frame=rows_0_6_13(spark), schema=SCHEMA, verbose=0)
    assert frame.columns == ["rank", "place", "loss", "name"]
    rows = frame.collect()
    assert [(row["rank"], row["place"]) for row in rows] == [
        (rank, place) for rank in (1, 2) for place in range(len(IDS[rank]))
    ]
    assert [row["name"] for row in rows] == [
        f"é{i}" if i % 3 else None for rank in (1, 2) for i in IDS[rank]
    ]
    assert [row["loss"] for row in rows[:2]] == [None, 101 / 4]  # NaN of pandas is null
    # It is a table as any other, and no barrier stage.
    assert frame.take(1) == rows[:1]
    assert frame.union(frame).coalesce(1).count() == 38
    assert frame.groupBy("rank").count().count() == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-0", "1-0", "2-0"]


def test_no_rows_stay_in_spark(spark):
    nothing = run(lambda comm, rows: None, frame=rows_0_6_13(spark), schema=SCHEMA, verbose=0)
    assert nothing.columns == ["rank", "place", "loss", "name"]
    assert nothing.collect() == []


@ON_ONE
def test_tables_and_batches_of_arrow_stay_in_spark(spark):
    def work(comm, rows):
        (batch,) = rows.combine_chunks().to_batches() or [None]
        return [rows, batch] if batch else rows

    frame = spark.sql(EVERY_TYPE)
    found = run(work, frame=frame, rows="arrow", schema=frame.schema, verbose=0)
    assert found.schema.simpleString() == frame.schema.simpleString()
    assert sorted(found.collect(), key=str) == sorted(2 * frame.collect(), key=str)


@ON_ONE
def test_rows_that_do_not_fit(spark):
    for value, text in [
        (3, r"rank 0 that do not fit schema=: they are of type int\. Return a DataFrame"),
        ("no name", r"there is no column 'place', only 'rank'"),
    ]:

        def work(comm, rows, value=value):
            return rows[["id"]].rename(columns={"id": "rank"}) if value != 3 else value

        with pytest.raises(TypeError, match=text):
            run(work, num_proc=1, frame=rows_0_6_13(spark), schema=SCHEMA, verbose=0)


@ON_ONE
def test_a_restart_leaves_the_rows_of_the_last_attempt(spark):
    def work(comm, rows):
        comm.barrier()
        if comm.attempt == 0 and comm.rank == 1:
            raise KeyError("once")
        return rows.assign(attempt=comm.attempt)

    frame = run(
        work, frame=rows_0_6_13(spark), schema="id long, attempt int", max_restarts=1, verbose=0
    )
    assert [tuple(row) for row in frame.collect()] == [(i, 1) for i in chain(*IDS)]


@ON_TWO
def test_rows_are_lost_with_their_executor(spark):
    """In the run the ranks are launched again. After it Spark's error names the cause."""

    def work(comm, rows):
        comm.barrier()
        if comm.attempt == 0 and comm.rank == 2:
            os.kill(tasks.executor(), signal.SIGKILL)
            time.sleep(1000)
        return rows.assign(attempt=comm.attempt, executor=tasks.executor())

    schema = "id long, attempt int, executor int"
    frame = run(work, frame=rows_0_6_13(spark), schema=schema, max_restarts=1, verbose=0)
    rows = frame.collect()
    assert [(row["id"], row["attempt"]) for row in rows] == [(i, 1) for i in chain(*IDS)]
    os.kill(rows[-1]["executor"], signal.SIGKILL)
    with pytest.raises(Exception, match=r"Checkpoint block \S+ not found"):
        frame.collect()
    clusters.wait_for_executors(spark.sparkContext, 2)


# ---- Arguments


@ON_ONE
def test_invalid_arguments(spark):
    import pandas as pd

    frame = spark.range(3)
    for error, text, arguments in [
        (
            sparkring.InvalidError,
            "rows is 'polars': pass 'pandas', 'arrow' or 'b",
            {"rows": "polars"},
        ),
        (sparkring.InvalidError, "num_proc is negative, which is without Spark", {"num_proc": -2}),
        (
            sparkring.InvalidError,
            r"frame is of type pandas.*createDataFrame\(frame\)",
            {"frame": pd.DataFrame({"x": [1]})},
        ),
        (sparkring.InvalidError, "frame has no columns", {"frame": frame.select()}),
        (
            sparkring.InvalidError,
            "column 'v' has a type that Arrow does not have: cast it in Spark, or drop it",
            {"frame": frame.selectExpr("id", "INTERVAL '1-2' YEAR TO MONTH AS v")},
        ),
        (
            sparkring.InvalidError,
            "frame has a column of a type that PySpark does not have",
            {"frame": frame.selectExpr("id", "make_interval(1, 2) AS v")},
        ),
        (sparkring.InvalidError, "pass frame=", {"frame": None, "schema": SCHEMA}),
        (sparkring.InvalidError, "pass frame=", {"frame": None, "rows": "arrow"}),
    ]:
        with pytest.raises(error, match=text):
            run(ids, **{"frame": frame, **arguments})
    with pytest.raises(sparkring.InvalidError, match=r"f\(comm, rows, .*communicator and"):
        run(lambda comm: 1, frame=frame)
    with pytest.raises(sparkring.InvalidError, match="f is a script, which takes no rows"):
        run(__file__, frame=frame)
