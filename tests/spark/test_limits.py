# SPDX-License-Identifier: Apache-2.0
"""What Spark refuses of barrier stages."""

import pytest
import sparkring
import tasks
from conftest import FRAMES, ONE_EXECUTOR, TWO_EXECUTORS
from sparkring.spark import explained, run

ON_ONE = pytest.mark.parametrize("spark", [ONE_EXECUTOR], indirect=True)


def refused(words):
    return pytest.raises(sparkring.UnsupportedError, match=words)


@ON_ONE
def test_other_partitions_than_those_before(spark):
    rdd = spark.sparkContext.parallelize(range(4), 2)
    for data in (rdd.union(rdd), spark.sparkContext.parallelize(range(8), 8).coalesce(4)):
        with (
            refused(r"put repartition\(n\) between the function and union\(\), coalesce\(\)"),
            explained(),
        ):
            data.barrier().mapPartitions(tasks.describe).collect()
    with refused(r"Do not ask for some rows"), explained():
        rdd.barrier().mapPartitions(tasks.describe).take(1)


@ON_ONE
@FRAMES
def test_some_rows_of_a_data_frame(spark):
    frame = spark.range(8).repartition(4)
    means = frame.mapInPandas(tasks.average, "rank long, mean double, rows long", barrier=True)
    with refused(r"Do not ask for some rows"), explained():
        means.show()
    rows = frame.coalesce(2).mapInPandas(tasks.average, "rank long, mean double", barrier=True)
    with refused(r"put repartition\(n\) between"), explained():
        rows.collect()


@pytest.mark.parametrize("spark", [TWO_EXECUTORS], indirect=True)
def test_dynamic_allocation(spark):
    """A Spark that has begun without it gets the setting, which is all that counts here."""
    name = "spark.dynamicAllocation.enabled"
    settings = spark.sparkContext._jsc.sc().conf()
    rdd = spark.sparkContext.parallelize(range(2), 2).barrier().mapPartitions(tasks.describe)
    settings.set(name, "true")
    try:
        with refused(r"^spark\.dynamicAllocation\.enabled is true: .* fixed number of executors"):
            run(len, num_proc=2)
        with refused(r"^spark\.dynamicAllocation\.enabled is true: .*SPARK-24942"), explained():
            rdd.collect()
    finally:
        settings.remove(name)
    assert len(rdd.collect()) == 2
