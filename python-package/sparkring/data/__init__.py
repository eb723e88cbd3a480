# SPDX-License-Identifier: Apache-2.0
"""Batches of arrays or tensors, from the partition of a Spark task or from Parquet files.

`batches` takes the rows that ``mapInPandas``, ``mapInArrow`` or ``RDD.mapPartitions`` pass to a
function. `parquet` reads files itself, past Spark: it shuffles across the whole table, and goes on
within an epoch after a restart. With both, all ranks get the same number of batches.

Examples
--------
>>> from sparkring.data import batches, parquet
>>> for batch in batches(frames, comm, 32, columns={"x": ["height", "width"], "y": "label"}):
...     gradient = comm.allreduce(gradient_sum(batch["x"], batch["y"])) / batch.total
>>> with parquet("hdfs:///people", comm, 32, shuffle=True, equalize="join") as data:
...     for batch in data:
...         gradient = comm.allreduce(gradient_sum(batch["x"], batch["y"])) / batch.total
"""

from sparkring.data._batch import Batch
from sparkring.data._batches import Batches, batches
from sparkring.data._parquet.loader import Loader
from sparkring.data._parquet.options import parquet
from sparkring.data._parquet.spark_table import write_parquet

__all__ = ["Batch", "Batches", "Loader", "batches", "parquet", "write_parquet"]


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)
