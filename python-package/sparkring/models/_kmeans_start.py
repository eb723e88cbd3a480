# SPDX-License-Identifier: Apache-2.0
"""The start of k-means: k-means|| draws candidates on all ranks, rank 0 chooses among them.

See numerics/kmeans_start.h. A random number depends on the seed, the rank and the number of the
row, so a start does not depend on blocks and batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparkring import _numerics as numerics
from sparkring.models._kmeans_lloyd import nearest
from sparkring.models._tsqr import lead

if TYPE_CHECKING:
    from sparkring.models._rows import Block, Rows
    from sparkring.models._table import Array

ROUNDS = 5  # of k-means||


def start(rows: Rows, mean: Array, k: int, seed: int) -> Array:
    """Draw the centers, around the mean of all rows. Collective.

    In each round a row becomes a candidate with a chance in proportion to its squared distance to
    the candidates before, so that there are about ``2 * k`` new candidates. Candidates weigh as
    much as the rows next to them, and k-means++ chooses ``k``.
    """
    chosen = first_row(rows, mean, seed)
    for turn in range(1, ROUNDS + 1):
        total = total_of(rows, mean, chosen)
        if total == 0:
            break
        drawn = draw(rows, mean, chosen, 2 * k / total, (seed, rows.comm.rank, turn))
        chosen = np.concatenate([chosen, rows.comm.allgatherv(drawn)])
    weights = weights_of(rows, mean, chosen)

    def choose() -> dict[str, Array]:
        centers = np.empty((k, rows.width))
        numerics.kmeans_choose(chosen, weights, seed, centers)
        return {"centers": centers}

    return lead(rows.comm, choose)["centers"]


def first_row(rows: Rows, mean: Array, seed: int) -> Array:
    """Draw one row of all ranks: the row with the smallest random number. Collective."""
    best = np.zeros(1 + rows.width)
    best[0] = np.inf

    def take(block: Block) -> None:
        x = np.ascontiguousarray(block.x)
        numerics.kmeans_first(x, block.weight, mean, block.first, seed, rows.comm.rank, best)

    rows.each(take)
    everything = rows.comm.allgather(best)
    found: Array = everything[everything[:, 0].argmin()][None, 1:]
    return found


def total_of(rows: Rows, mean: Array, chosen: Array) -> float:
    """Return the sum of the weighted squared distances to the nearest candidates. Collective."""
    total = 0.0

    def add(block: Block) -> None:
        nonlocal total
        squares = nearest(block.x, mean, chosen)[1]
        total = numerics.kmeans_total(squares, block.weight, total)

    rows.each(add)
    return float(rows.comm.allreduce(np.array([total]))[0])


def draw(
    rows: Rows, mean: Array, chosen: Array, factor: float, keys: tuple[int, int, int]
) -> Array:
    """Return the rows of this rank that are drawn. Collective.

    Parameters
    ----------
    factor : float
        A row is drawn with this chance times its weighted squared distance.
    keys : tuple of int
        The seed, the rank and the round.
    """
    drawn = [np.zeros((0, rows.width))]

    def take(block: Block) -> None:
        squares = nearest(block.x, mean, chosen)[1]
        places = np.empty(len(squares), np.int32)
        count = numerics.kmeans_draw(squares, block.weight, factor, block.first, *keys, places)
        drawn.append(block.x[places[:count]] - mean)

    rows.each(take)
    return np.concatenate(drawn)


def weights_of(rows: Rows, mean: Array, chosen: Array) -> Array:
    """Return the weight of the rows next to each candidate. Collective."""
    sums = np.zeros((len(chosen), 2))

    def add(block: Block) -> None:
        labels = nearest(block.x, mean, chosen)[0]
        numerics.kmeans_sums(np.empty((len(labels), 0)), block.weight, None, labels, sums)

    rows.each(add)
    found: Array = np.ascontiguousarray(rows.comm.allreduce(sums)[:, 1])
    return found
