# SPDX-License-Identifier: Apache-2.0
"""What Spark refuses of barrier stages."""

import pytest
import sparkring
import tasks
from conftest import FRAMES, ONE_EXECUTOR
from sparkring.spark import explained

ON_ONE = pytest.mark.parametrize("spark", [ONE_EXECUTOR], indirect=True)


def refused(words):
    return pytest.raises(sparkring.UnsupportedError, match=words)


@ON_ONE
def test_other_partitions_than_those_before(spark):
    rdd = spark.sparkContext.parallelize(range(4), 2)
    for data in (rdd.union(rdd), spark.sparkContext.parallelize(range(8), 8).coalesce(4)):
        with refused(r"put repartition\(n\) between union\(\), coalesce\(\)"), explained():
            data.barrier().mapPartitions(tasks.describe).collect()
    with refused(r"do not ask for some rows"), explained():
        rdd.barrier().mapPartitions(tasks.describe).take(1)


@ON_ONE
@FRAMES
def test_some_rows_of_a_data_frame(spark):
    frame = spark.range(8).repartition(4)
    means = frame.mapInPandas(tasks.average, "rank long, mean double, rows long", barrier=True)
    with refused(r"do not ask for some rows"), explained():
        means.show()
    rows = frame.coalesce(2).mapInPandas(tasks.average, "rank long, mean double", barrier=True)
    with refused(r"put repartition\(n\) between"), explained():
        rows.collect()
