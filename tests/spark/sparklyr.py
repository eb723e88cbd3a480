# SPDX-License-Identifier: Apache-2.0
"""Plays sparklyr, which is not everywhere, in the calls of ring_apply() of apply.R.

It runs ring_apply()'s SQL, starts R for each partition that has rows, with the closure and its
three arguments, and brings back the rows. r-package/tests/testthat/test-sparklyr.R does the same
with sparklyr.
"""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

from pyspark import BarrierTaskContext, SparkFiles
from pyspark.sql import DataFrame

SCRIPT = Path(__file__).with_name("apply.R")


def table(spark):
    """3000 rows on four partitions, the second of which is empty."""
    frame = spark.range(0, 4000, 1, 4).where("id < 1000 OR id >= 2000")
    return frame.selectExpr(
        "id",
        "if(id % 1000 = 0, concat('é', char(31), char(30), '\"'), '') AS name",
        "date_add(date'2020-01-01', cast(id % 5 AS int)) AS day",
        "array(id, 0.5D) AS pair",
    )


def ring_apply(spark, frame, folder, function, deal=False, **arguments):
    """What ring_apply() of a function of apply.R prints on the driver, whose the folder is.

    With `deal` the rows are dealt out as for a `num_proc`.

    That has what is sent to the tasks, the secrets that were drawn, and `errors`, the driver's
    standard error.
    """
    spark.sparkContext.addFile(str(SCRIPT))
    rdd = files(spark, frame, folder, deal)
    assert rdd.getNumPartitions() == 4
    call = [function, *(f"{name}={value}" for name, value in arguments.items())]
    errors = folder / "errors"
    with errors.open("w") as file:
        driver = start("drive", folder, *call, errors=file)
    with driver:
        try:
            assert driver.stdout.readline() == "sent\n", errors.read_text()
            rows = rdd.barrier().mapPartitions(worker(str(folder))).collect()
            output, _ = driver.communicate("".join(rows), timeout=400)
        finally:
            driver.kill()
    assert driver.returncode == 0, errors.read_text()
    return output


def files(spark, frame, folder, deal):
    """Deal the rows of a table out to files of four ranks; their names are the rows."""
    hashes = spark.sql(asked("sql", folder)).first()["parts"]
    counts = counted(spark, frame, folder) if deal else []
    *select, lines, command = asked("sql", folder, hashes, *counts).splitlines()
    encoders, session = spark._jvm.org.apache.spark.sql.Encoders, spark._jsparkSession
    batches = frame.selectExpr(*select)._jdf.toArrowBatchRdd()
    packed = session.createDataset(batches, encoders.BINARY()).toDF()
    packed.createOrReplaceTempView("packing")
    rdd = getattr(spark.sql(lines)._jdf, "as")(encoders.STRING()).rdd()
    names = session.createDataset(rdd.pipe(command), encoders.STRING()).toDF()
    return DataFrame(names, spark).rdd


def kept(spark, folder):
    """Make the table that stays in Spark of the tables of apply.R's returned()."""
    hashes = spark.sql(asked("sql", folder)).first()["parts"]
    sql, *lines = asked("stored", folder, hashes).splitlines()
    fields = (line.split(" ", 2) for line in lines)
    rows = [(int(rank), int(piece), text) for rank, piece, text in fields]
    frame = spark.createDataFrame(rows, "rank int, piece int, text string")
    frame.createOrReplaceTempView("kept")
    return spark.sql(sql)


def carried(spark, frame, folder):
    """Add the columns of apply.R's texts() to a table, whose first column it reads."""
    frame = frame.toDF(*[f"c{i + 1}" for i in range(len(frame.columns))])
    types = [field.dataType().sql() for field in frame._jdf.schema().fields()]
    read, write, *select = asked("carried", folder, *types).splitlines()
    packed = frame.selectExpr("c1", f"{write} AS carried").selectExpr(*select)
    rdd = packed._jdf.toArrowBatchRdd()
    batches = [base64.b64encode(bytes(batch)).decode() for batch in rdd.collect()]
    texts = [(text,) for text in asked("texts", folder, *batches).splitlines()]
    spark.createDataFrame(texts, "text string").coalesce(1).createOrReplaceTempView("texts")
    return spark.sql(read)


def counted(spark, frame, folder):
    """Count the rows of each partition: the partitions, and how many each has."""
    *place, count = asked("count", folder).splitlines()
    frame.selectExpr(*place).createOrReplaceTempView("counting")
    rows = spark.sql(count).collect()
    return [" ".join(str(row[name]) for row in rows) for name in ("part", "rows")]


def asked(*arguments):
    """What a part of the script prints."""
    with start(*arguments) as process:
        output, _ = process.communicate(timeout=400)
    assert process.returncode == 0
    return output


def start(*arguments, errors=None):
    """Start a part of the script."""
    return subprocess.Popen(
        ["Rscript", "--vanilla", SCRIPT, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )


def worker(folder):
    """A function for mapPartitions, which does as sparklyr does."""

    def run(rows):
        rows = list(rows)
        if not rows:  # sparklyr does not start R
            return
        context = BarrierTaskContext.get()
        addresses = ", ".join(json.dumps(info.address) for info in context.getTaskInfos())
        barrier = f"list(address = list({addresses}), partition = {context.partitionId()}L)"
        lines = [row["value"] for row in rows]
        home = SparkFiles.getRootDirectory()  # of all tasks of an executor
        before = sorted(os.listdir(home))
        context.barrier()
        done = subprocess.run(
            ["Rscript", "--vanilla", SparkFiles.get("apply.R"), "work", folder],
            cwd=home,
            input="\n".join([barrier, *lines]) + "\n",
            capture_output=True,
            text=True,
            timeout=400,
        )
        print(done.stderr, file=sys.stderr, flush=True)  # in the executor's log
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        assert sorted(os.listdir(home)) == before
        yield done.stdout

    return run
