# SPDX-License-Identifier: Apache-2.0
"""Frameworks train across two hosts of a Spark cluster, in the tasks of sparkring.spark.run.

Spark is that of .venv, which SPARK_HOME names: it need not be in the environment of the frameworks.
The hosts are network namespaces (tests/spark/cluster.py), which root alone can make.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import digits
import numpy as np
import pytest
import test_torch
import test_xgboost

HOME = os.environ.get("SPARK_HOME")
ROOT = Path(__file__).parents[2]
QUIET = ROOT / "demo" / "log4j2.properties"

if HOME:
    sys.path += [str(ROOT / "tests" / "spark"), *map(str, Path(HOME).glob("python/lib/*.zip"))]

pytestmark = pytest.mark.skipif(not HOME, reason="SPARK_HOME names no Spark, as scripts/test does")


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """A session with one core on each of two hosts."""
    import cluster
    from pyspark.sql import SparkSession

    if (reason := cluster.missing()) is not None:
        pytest.skip(reason)
    made = cluster.Cluster(2, tmp_path_factory.mktemp("hosts") / "cluster")
    with pytest.MonkeyPatch.context() as patch, made, made.driver():
        patch.setenv("SPARK_LOCAL_IP", made.host)
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = (
            made.configure(SparkSession.builder)
            .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={QUIET.as_uri()}")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
        try:
            made.wait_for_executors(session.sparkContext)
            yield session
        finally:
            cluster.stop(session)
    assert made.remains() == []


def torch(comm, backend):
    if backend is None:
        comm.torch_group()
    else:
        comm.torch_env()
        import sparkring.torch  # noqa: F401 (it registers the backend)
    return comm.hosts, *test_torch.fit(backend)


@pytest.mark.parametrize(
    "backend", [pytest.param("gloo", marks=pytest.mark.long), "sparkring", None]
)
def test_torch_trains_across_hosts(spark, backend):
    from sparkring.spark import run

    (hosts, first, weights), (_, second, same) = run(torch, (backend,), num_proc=2)
    assert sorted(hosts) == ["10.77.0.1", "10.77.0.2"]
    assert first == second >= digits.ACCURACY
    assert np.array_equal(weights, same)


def test_xgboost_trains_across_hosts(spark):
    from sparkring.spark import run

    (first, model), (second, same) = run(lambda comm: test_xgboost.fit(comm), num_proc=2)
    assert first == second >= digits.ACCURACY
    assert model == same
