# SPDX-License-Identifier: Apache-2.0
"""Estimators of sparkring.spark.ml train real networks in the executors of a local cluster."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from estimators import assembler

HOME = os.environ.get("SPARK_HOME")
ROOT = Path(__file__).parents[3]
QUIET = ROOT / "demo" / "log4j2.properties"


if HOME:
    sys.path += [str(ROOT / "tests" / "spark"), *map(str, Path(HOME).glob("python/lib/*.zip"))]


@pytest.fixture(scope="package", autouse=True)
def _spark_home():
    if not HOME:
        pytest.skip("SPARK_HOME names no Spark, as scripts/test does")


@pytest.fixture(scope="package")
def spark():
    """A session with two executors of two cores each."""
    import cluster
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = (
            SparkSession.builder.master("local-cluster[2,2,1024]")
            .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={QUIET.as_uri()}")
            .config("spark.executor.extraJavaOptions", cluster.SMALL)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.rpc.message.maxSize", "24")
            .config("spark.python.daemon.module", "daemon_with_torch")
            .getOrCreate()
        )
        try:
            cluster.wait_for_executors(session.sparkContext, 2)
            yield session
        finally:
            cluster.stop(session)


@pytest.fixture(scope="package")
def table(spark, tmp_path_factory):
    """Return 203 rows of three numbers, sorted by the label, in files: executors are killed."""
    path = str(tmp_path_factory.mktemp("table") / "rows")
    frame = spark.range(203).selectExpr("id", *(f"rand({seed}) x{seed}" for seed in (1, 2, 3)))
    frame = frame.selectExpr("*", "x1 * x2 - x3 label", "cast(id % 3 as double) weight")
    frame.sort("label").write.parquet(path)
    return spark.read.parquet(path)


@pytest.fixture(scope="package")
def vectors(table):
    return assembler().transform(table)
