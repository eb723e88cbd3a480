# SPDX-License-Identifier: Apache-2.0
"""What ring_apply() ships, in real Spark barrier tasks, with what sparklyr would hand to it."""

import csv
import io
from datetime import date, datetime
from pathlib import Path

import pytest
import sparklyr


@pytest.fixture
def apply(spark, tmp_path):
    """`apply(frame)`: what ring_apply() would give, as text."""
    return lambda frame: sparklyr.ring_apply(spark, frame, tmp_path, "fit", scale=2)


@pytest.fixture
def rows(spark):
    return sparklyr.table(spark)


@pytest.mark.quick
def test_ranks_get_the_rows_of_their_partitions(spark, rows, apply):
    """In their order, exactly; and the rank without any takes part."""
    table = list(csv.DictReader(io.StringIO(apply(rows))))
    assert [row["rank"] for row in table] == ["0", "1", "2", "3"]
    assert [row["rows"] for row in table] == ["1000", "0", "1000", "1000"]
    total = 2 * sum([*range(1000), *range(2000, 4000)])
    assert {float(row["total"]) for row in table} == {total}
    assert {row["all"] for row in table} == {"6000"}
    assert [row["first"] for row in table] == ["0", "NA", "2000", "3000"]
    assert [row["names"] for row in table] == ['é\x1f\x1e"', "", 'é\x1f\x1e"', 'é\x1f\x1e"']
    assert float(table[2]["pair"]) == sum(range(2000, 3000)) + 500
    days = {row["day"] for row in table}
    assert days == {"2020-01-01 2020-01-05", "2020-01-03 2020-01-03"}
    brought = {Path(file).name for file in spark.sparkContext.listFiles}
    for row in table:
        files = {file for file in row["files"].split() if not file.startswith("__pycache__/")}
        assert files <= {*brought, "stdout", "stderr"}


@pytest.mark.quick
def test_the_error_of_a_rank_reaches_the_driver(rows, apply):
    """With what it has printed, and also when another would go on for ever."""
    name = "if(id = 3000, 'busy', nullif(name, if(id = 2500, '', '-')))"
    nameless = rows.selectExpr("id", f"{name} AS name", "day", "pair")
    kind, rank, *message = apply(nameless).splitlines()
    assert (kind, rank) == ("ring_error_remote", "2")
    assert message[0].startswith("rank 2 on ")
    assert message[0].endswith(" failed: no name for 2500")
    assert "1. f(rows, comm, scale = args[[1L]])" in "\n".join(message)
    assert message[-2:] == ["The last lines of its log:", "  looking at 1000 rows"]


def test_rows_are_dealt_out_in_their_order(spark, rows, tmp_path):
    """Rank 0 has the first, and each has as many, whatever the partitions have."""
    output = sparklyr.ring_apply(spark, rows, tmp_path, "fit", deal=True, scale=1)
    table = list(csv.DictReader(io.StringIO(output)))
    assert [row["rows"] for row in table] == ["750"] * 4
    assert [row["first"] for row in table] == ["0", "750", "2500", "3250"]
    assert float(table[1]["pair"]) == sum([*range(750, 1000), *range(2000, 2500)]) + 375


def test_tables_that_stay_in_spark(spark, tmp_path):
    """The strings of ranks become rows in rank order, of the right types."""
    frame = sparklyr.kept(spark, tmp_path)
    assert frame.schema.simpleString() == (
        "struct<rank:int,x:double,n:int,l:boolean,s:string,d:date,t:timestamp,v:array<double>,"
        "b:binary,c:array<string>,e:array<date>,f:array<timestamp>,o:double,odd `name`:string>"
    )
    rows = [tuple(row) for row in frame.collect()]
    assert [row[0] for row in rows] == [1, 2, 2, 3, 3, 3]
    day, moment = date(2020, 2, 29), datetime.fromtimestamp(1e9 + 0.25)
    first = (True, 'é\n"\\\t', day, moment, [0.5, None], bytearray(b"\0\xff"))
    lists = (["a", None], [day, None], [moment])
    assert [row[1:] for row in rows if row[1] and row[1] > 0] == [
        (rank + 0.1, rank, *first, *lists, None if rank == 1 else 1.5, "low") for rank in (1, 2, 3)
    ]
    assert rows[2] == (2, *[None] * 13) and rows[4] == (3, *[None] * 13)
    last = (3, float("-inf"), -1, False, "", date(1969, 12, 31), datetime.fromtimestamp(0), [])
    assert rows[5] == (*last, bytearray(), [], [], None, 3.0, "high")


# Values that a conversion could change, a type each.
CARRIED = [
    "id",
    "cast(9223372036854775807 - id AS bigint)",
    "cast('1234567890123456789012345678.9012345678' AS decimal(38, 10)) + id",
    "if(id = 0, double('NaN'), 0.1D)",
    "cast(0.1 AS float)",
    "cast(id AS tinyint)",
    "id = 0",
    "if(id = 0, concat('é', char(10), char(34), char(92)), '')",
    "if(id = 0, binary('a'), cast(null AS binary))",
    "date_add(date'1969-12-31', cast(id AS int))",
    "date'0001-01-01'",
    "timestamp'2018-11-04 01:30:00.123456' + make_dt_interval(0, cast(id AS int))",
    "timestamp_ntz'2018-03-11 02:30:00.000001'",
    "array(timestamp'1890-01-01 00:00:00', null)",
    "struct(id AS a, cast(null AS string) AS `b c`, date'2001-02-03' AS d)",
    "array(struct(1.5BD AS k), null)",
    "interval 1 day",
    "null",
]


def test_columns_that_r_adds(spark, tmp_path):
    """Spark gets the other columns of a table back as they were, whatever their types."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.range(0, 3, 1, 2).selectExpr(*CARRIED)
        found = sparklyr.carried(spark, frame, tmp_path)
        *names, double, text = found.columns
        before = [field.dataType.simpleString() for field in frame.schema]
        after = [field.dataType.simpleString() for field in found.select(*names).schema]
        assert after == before
        same = found.select(*names).exceptAll(frame.toDF(*names))
        assert found.count() == 3 and same.count() == 0
        assert [tuple(row) for row in found.select(double, text).collect()] == [
            (0.0, 'é"'),
            (2.0, None),
            (4.0, 'é"'),
        ]
        with pytest.raises(Exception, match=r"rows of a Spark task on .*: no id"):
            sparklyr.carried(spark, spark.sql("SELECT cast(null AS int)"), tmp_path).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_large_values_come_past_spark(spark, rows, tmp_path):
    """Those of ranks 2 and 3 have 64 and 96 MB."""
    lines = sparklyr.ring_apply(spark, rows, tmp_path, "bulk").splitlines()
    lengths = [10 if rank == 1 else max(4_000_000 * rank, 0) for rank in range(4)]
    assert [int(line.split()[0]) for line in lines] == lengths
    assert float(lines[3].split()[1]) == pytest.approx(lengths[3] * (lengths[3] + 1) / 16)
