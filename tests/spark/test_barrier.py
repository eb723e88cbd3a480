# SPDX-License-Identifier: Apache-2.0
"""The tasks of a Spark barrier stage form a ring, on one executor and on two."""

import pytest
import tasks
from conftest import BOTH, FRAMES, ONE_EXECUTOR

pytestmark = BOTH


def expected(rank):
    """What tasks.collect gives on this rank of four."""
    return {
        "rank": rank,
        "sum": [6.0, 10.0, 14.0, 18.0, 22.0],
        "max": 3,
        "root": [1, 1, 1],
        "all": [0, 0, 1, 10, 2, 20, 3, 30],
    }


def test_ranks_are_partitions(spark, four):
    ranks = four(tasks.describe)
    assert [rank["rank"] for rank in ranks] == [0, 1, 2, 3]
    assert [rank["partition"] for rank in ranks] == [0, 1, 2, 3]
    assert {rank["size"] for rank in ranks} == {4}
    assert [rank["local_rank"] for rank in ranks] == [0, 1, 2, 3]
    assert {rank["local_size"] for rank in ranks} == {4}
    assert [len(rank["hosts"]) for rank in ranks] == [4] * 4
    executors = {rank["executor"] for rank in ranks}
    assert len(executors) == (1 if spark.sparkContext.master == ONE_EXECUTOR else 2)


def test_collectives_in_rdd_barrier(four):
    assert four(tasks.collectives) == [expected(rank) for rank in range(4)]


def test_encryption(four):
    assert four(tasks.encrypted) == [(expected(rank), True, "tls") for rank in range(4)]


@FRAMES
def test_map_in_pandas(spark):
    frame = spark.range(1000).repartition(4)
    rows = frame.mapInPandas(
        tasks.average, "rank int, mean double, rows int", barrier=True
    ).collect()
    assert sorted(row["rank"] for row in rows) == [0, 1, 2, 3]
    assert {row["mean"] for row in rows} == {499.5}
    assert sum(row["rows"] for row in rows) == 1000


def test_two_rings_in_one_task(four):
    assert four(tasks.twice) == [expected(rank) for rank in range(4) for _ in range(2)]


def test_workers_are_reused(four):
    """The second job runs in the Python processes of the first, and forms a ring of its own."""
    first = {rank["pid"] for rank in four(tasks.describe)}
    assert four(tasks.collectives) == [expected(rank) for rank in range(4)]
    second = {rank["pid"] for rank in four(tasks.describe)}
    assert first & second


@pytest.mark.parametrize("size", [1, 2, 3])
def test_smaller_stages(spark, size):
    rdd = spark.sparkContext.parallelize(range(size), size).barrier().mapPartitions(tasks.describe)
    assert [(rank["rank"], rank["size"]) for rank in rdd.collect()] == [
        (rank, size) for rank in range(size)
    ]
