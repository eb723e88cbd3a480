# SPDX-License-Identifier: Apache-2.0
"""What ring_apply() ships, in real Spark barrier tasks, with what sparklyr would hand to it.

This file plays sparklyr, which is not everywhere: it runs ring_apply()'s SQL, starts R for each
partition that has rows, with the closure and its three arguments, and brings back the rows.
r-package/tests/testthat/test-sparklyr.R does the same with sparklyr.
"""

import csv
import io
import json
import os
import subprocess
from pathlib import Path

import pytest
from pyspark import BarrierTaskContext, SparkFiles

SCRIPT = Path(__file__).with_name("apply.R")


def rscript(script, *arguments, text=""):
    """Run a part of the script; gives what it prints."""
    done = subprocess.run(
        ["Rscript", "--vanilla", str(script), *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return done.stdout


def worker(folder):
    """A function for mapPartitions, which does as sparklyr does."""

    def run(rows):
        rows = list(rows)
        if not rows:  # sparklyr does not start R
            return
        context = BarrierTaskContext.get()
        addresses = ", ".join(json.dumps(info.address) for info in context.getTaskInfos())
        barrier = f"list(address = list({addresses}), partition = {context.partitionId()}L)"
        told = [f"{row['chunk']} {row['text'].encode().hex()}" for row in rows]
        home = SparkFiles.getRootDirectory()  # of all tasks of an executor
        before = sorted(os.listdir(home))
        context.barrier()
        done = subprocess.run(
            ["Rscript", "--vanilla", SparkFiles.get("apply.R"), "work", folder],
            cwd=home,
            input="\n".join([barrier, *told]) + "\n",
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        assert sorted(os.listdir(home)) == before
        yield done.stdout

    return run


@pytest.fixture
def apply(spark, tmp_path):
    """`apply(frame)`: what ring_apply() would give, as text."""
    spark.sparkContext.addFile(str(SCRIPT))
    folder = str(tmp_path)

    def run(frame):
        hashes = spark.sql(rscript(SCRIPT, "sql", folder)).first()["parts"]
        *select, empty, pack = rscript(SCRIPT, "sql", folder, hashes).splitlines()
        frame.selectExpr(*select).union(spark.sql(empty)).createOrReplaceTempView("packing")
        rdd = spark.sql(pack).rdd
        assert rdd.getNumPartitions() == 4
        rscript(SCRIPT, "send", folder)
        rows = rdd.barrier().mapPartitions(worker(folder)).collect()
        return rscript(SCRIPT, "result", folder, text="".join(rows))

    return run


@pytest.fixture
def rows(spark):
    """3000 rows on four partitions, the second of which is empty."""
    frame = spark.range(0, 4000, 1, 4).where("id < 1000 OR id >= 2000")
    return frame.selectExpr(
        "id",
        "if(id % 1000 = 0, concat('é', char(31), char(30), '\"'), '') AS name",
        "date_add(date'2020-01-01', cast(id % 5 AS int)) AS day",
        "array(id, 0.5D) AS pair",
    )


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
    assert {row["tells"] for row in table} == {"FALSE"}
    brought = {Path(file).name for file in spark.sparkContext.listFiles}
    for row in table:
        files = {file for file in row["files"].split() if not file.startswith("__pycache__/")}
        assert files <= {*brought, "stdout", "stderr"}


def test_the_error_of_a_rank_reaches_the_driver(rows, apply):
    """With what it has printed, and also when another would go on for ever."""
    name = "if(id = 3000, 'busy', nullif(name, if(id = 2500, '', '-')))"
    nameless = rows.selectExpr("id", f"{name} AS name", "day", "pair")
    kind, rank, *message = apply(nameless).splitlines()
    assert (kind, rank) == ("ring_error_remote", "2")
    assert message[0].startswith("rank 2 on ")
    assert message[0].endswith(" failed: no name for 2500")
    assert "1. f(rows, comm, scale = args[[1L]], token = args[[2L]])" in "\n".join(message)
    assert message[-2:] == ["The last lines of its log:", "  looking at 1000 rows"]
