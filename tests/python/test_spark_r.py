# SPDX-License-Identifier: Apache-2.0
"""R as the ranks of PySpark: the parts that need no Spark. test-pyspark.R has the whole."""

import os

import pytest
from sparkring import UnsupportedError
from sparkring._launch.nameless_file import nameless_file
from sparkring.spark import _r as r


def test_a_host_without_r_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with nameless_file("test") as program, pytest.raises(UnsupportedError) as caught:
        r.run_rscript(["Rscript", "-e", r.MAIN], ["0"], program, [])
    assert str(caught.value) == (
        f"R is not installed on {os.uname().nodename}: there is no Rscript in /nowhere; install R"
        " and its package sparkring there"
    )


class Comm:
    """Takes reports of progress."""

    def __init__(self):
        self.reports = []

    def progress(self, step, total, **metrics):
        self.reports.append((step, total, metrics))


def test_reports_of_r_are_passed_on():
    comm = Comm()
    with r.reports_of(comm) as pipe:
        os.write(pipe, b"1 NA\n2.5 4 loss 0.25 a%20b NaN\n")
    (first, second) = comm.reports
    assert first == (1.0, None, {})
    assert second[:2] == (2.5, 4.0)
    assert second[2]["loss"] == 0.25
    assert second[2]["a b"] != second[2]["a b"]


def test_rows_that_stay_in_spark_are_a_table():
    pytest.importorskip("pyarrow")
    table = r.table_of(b'1\t1\t1\tQUJD\n1\t1\t-1\t{"a":["\xc3\xa9\\u0009"]}\n')
    assert table.to_pydict() == {
        "rank": [1, 1],
        "piece": [1, 1],
        "pieces": [1, -1],
        "text": ["QUJD", '{"a":["é\\u0009"]}'],
    }


def test_types_are_those_that_r_knows():
    types = pytest.importorskip("pyspark.sql.types")

    class Frame:
        schema = types.StructType(
            [
                types.StructField("n", types.IntegerType()),
                types.StructField("a", types.ArrayType(types.DoubleType())),
                types.StructField("m", types.DecimalType(10, 2)),
            ]
        )

    assert r.types_of(Frame) == {
        "n": "IntegerType",
        "a": "ArrayType(DoubleType,true)",
        "m": "DecimalType(10,2)",
    }
