# SPDX-License-Identifier: Apache-2.0
"""A step's rows of a rank, as a network takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring.spark.ml._columns import LABEL, VALID, WEIGHT

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass
class Batch:
    """A step's rows of a rank.

    Attributes
    ----------
    inputs : list of array or tensor
        The arguments of the network.
    label : array or tensor
        The labels.
    weight : array or tensor
        The weights of the rows: those of weightCol and classWeights, and 0 for rows that do not
        count. Such rows make batches full.
    rows : int
        The rows of this rank that count.
    total : int
        The rows of all ranks that count, by which sums over the rows are to be divided.
    """

    inputs: list[Any]
    label: Any
    weight: Any
    rows: int
    total: int


def make(arrays: dict[str, NDArray[Any]], rows: int, total: int) -> Batch:
    """Make a batch; `rows` of the rows in the arrays count."""
    label = arrays[LABEL]
    weight = np.zeros(len(label), np.float32)
    weight[:rows] = arrays[WEIGHT][:rows] if WEIGHT in arrays else 1
    inputs = [values for name, values in arrays.items() if name not in (LABEL, WEIGHT, VALID)]
    return Batch(inputs, label, weight, rows, total)
