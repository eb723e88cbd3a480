# SPDX-License-Identifier: Apache-2.0
"""Batches of arrays or tensors from the partition of a Spark task.

`batches` takes the rows that ``mapInPandas``, ``mapInArrow`` or ``RDD.mapPartitions`` pass to a
function. All ranks get the same number of batches.

Examples
--------
>>> from sparkring.data import batches
>>> for batch in batches(frames, comm, 32, columns={"x": ["height", "width"], "y": "label"}):
...     gradient = comm.allreduce(gradient_sum(batch["x"], batch["y"])) / batch.total
"""

from sparkring.data._batch import Batch
from sparkring.data._batches import Batches, batches

__all__ = ["Batch", "Batches", "batches"]


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)
