# SPDX-License-Identifier: Apache-2.0
"""Batches of real partitions, of unequal length and empty, by each way to hand them over."""

import json

import pytest
import tasks
from conftest import FRAMES
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

BATCH = 8


def partitions(spark, sizes):
    """A data frame with so many rows in its partitions: numbers, and vectors of both kinds."""

    def rows(index, _):
        for row in range(1000 * index, 1000 * index + sizes[index]):
            dense = Vectors.dense([1.0, row])
            yield row, row / 2, dense if row % 2 else Vectors.sparse(2, {1: row})

    size = len(sizes)
    rdd = spark.sparkContext.parallelize(range(size), size).mapPartitionsWithIndex(rows)
    kinds = {"id": LongType(), "half": DoubleType(), "vector": VectorUDT()}
    return spark.createDataFrame(rdd, StructType([StructField(*pair) for pair in kinds.items()]))


def in_pandas(frame):
    rows = frame.mapInPandas(tasks.take_frames, "found string", barrier=True).collect()
    return [json.loads(row.found) for row in rows]


def in_arrow(frame):
    rows = frame.mapInArrow(tasks.take_arrow, "found string", barrier=True).collect()
    return [json.loads(row.found) for row in rows]


def in_rdd(frame):
    return frame.rdd.barrier().mapPartitions(tasks.take_rows).collect()


WAYS = {
    "pad": (in_pandas, (20, 0, 7, 3)),
    "join": (in_arrow, (20, 0, 7, 3)),
    "drop": (in_rdd, (9, 24, 16, 11)),
}


@pytest.mark.parametrize(
    "equalize", ["drop", *(pytest.param(way, marks=FRAMES) for way in ("pad", "join"))]
)
def test_batches_of_partitions(spark, equalize):
    collect, sizes = WAYS[equalize]
    steps = min(sizes) // BATCH if equalize == "drop" else -(-max(sizes) // BATCH)
    left = [[min(BATCH, max(0, size - BATCH * step)) for size in sizes] for step in range(steps)]
    ranks = collect(partitions(spark, sizes))
    assert sorted(found["rank"] for found in ranks) == list(range(len(sizes)))
    for found in ranks:
        rank = found["rank"]
        ids = [1000 * rank + at for at in range(sizes[rank])][: BATCH * steps]
        assert [sorted(row for batch in epoch for row in batch) for epoch in found["ids"]] == [
            ids,
            ids,
        ]
        assert found["totals"] == [[sum(offers) for offers in left]] * 2
        given = [offers[rank] if equalize == "join" else BATCH for offers in left]
        assert found["rows"] == [given] * 2
        assert found["agrees"]
        assert found["types"] == (["float64(3,)", "int64()"] if steps else [])
        assert equalize != "join" or len(ids) < 5 or found["ids"][0] != found["ids"][1]
