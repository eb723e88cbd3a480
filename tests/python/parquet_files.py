# SPDX-License-Identifier: Apache-2.0
"""Parquet files for tests of the loader, and functions that read and compare their rows."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import sparkring
from pyarrow import parquet as pq
from sparkring import data as sparkring_data

parquet = functools.partial(sparkring_data.parquet, equalize="join")
GROUP = 7  # rows of a row group
COUNTS = (20, 3, 0, 31, 7)  # rows of the files of the fixture `table`
ROWS = sum(COUNTS)
BATCH = 4
# Spark's vectors in Arrow.
VECTOR = pa.struct(
    [
        ("type", pa.int8()),
        ("size", pa.int32()),
        ("indices", pa.list_(pa.int32())),
        ("values", pa.list_(pa.float64())),
    ]
)


def table_of(ids):
    """Make rows from their ids alone, so that a mixed-up row is seen."""
    ids = np.asarray(ids, np.int64)
    arrays = np.stack([ids, -ids], 1).astype("float32")
    return pa.table(
        {
            "id": ids,
            "half": ids / 2,
            "small": ids.astype("int8"),
            "truth": ids % 3 == 0,
            "array": pa.FixedSizeListArray.from_arrays(arrays.ravel(), 2).cast(
                pa.list_(pa.float32())
            ),
            "image": [b"\0" + str(i).encode() * (1 + i % 3) for i in ids.tolist()],
            "name": [f"row {i}" for i in ids.tolist()],
        }
    )


def write(folder, counts, group=GROUP, **options):
    """Write files with so many rows, whose ids go on from file to file."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    start = 0
    for number, count in enumerate(counts):
        table = table_of(range(start, start + count))
        pq.write_table(table, folder / f"part-{number:03}.parquet", row_group_size=group, **options)
        start += count
    return str(folder)


def agrees(batch):
    """Whether all columns of a batch are of the same rows."""
    ids = np.asarray(batch["id"])
    return bool(
        (batch["half"] == ids / 2).all()
        and (batch["small"] == ids.astype("int8")).all()
        and (batch["truth"] == (ids % 3 == 0)).all()
        and (batch["array"] == np.stack([ids, -ids], 1)).all()
        and list(batch["image"]) == [b"\0" + str(i).encode() * (1 + i % 3) for i in ids.tolist()]
        and list(batch["name"]) == [f"row {i}" for i in ids.tolist()]
    )


def seen(data, epochs):
    """What a rank gets, in plain Python."""
    return [
        [
            {
                "ids": batch["id"].tolist(),
                "mask": batch.mask.tolist(),
                "rows": batch.rows,
                "total": batch.total,
                "place": (batch.epoch, batch.step),
                "agrees": agrees(batch),
            }
            for batch in data
        ]
        for _ in range(epochs)
    ]


def order_of(ranks):
    """The ids that the batches of all ranks count, rank by rank."""
    return [
        row
        for taken in ranks
        for batch in taken
        for row, counts in zip(batch["ids"], batch["mask"])
        if counts
    ]


def alone(path, batch_size=1000, **options):
    """Read all rows of an epoch, in this process."""
    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        return list(parquet(path, comm, batch_size, **options))


def refused(text, path, **options):
    """Expect the error before the first batch, on one rank."""
    with pytest.raises(sparkring.InvalidError) as caught:
        alone(path, BATCH, **options)
    assert str(caught.value).startswith("rank 0: ") and text in str(caught.value)
