# SPDX-License-Identifier: Apache-2.0
"""The start of k-means: k-means|| draws candidates on all ranks, rank 0 chooses among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring.models._tsqr import lead

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sparkring.models._rows import Block, Rows
    from sparkring.models._table import Array

ROUNDS = 5  # of k-means||
ELEMENTS = 1 << 20  # of the matrix of distances at a time


def nearest(x: Array, centers: Array) -> tuple[NDArray[np.int32], Array]:
    """Return the nearest center of each row, and the squared distance to it."""
    labels = np.zeros(len(x), np.int32)
    squares = np.zeros(len(x))
    norms = np.sum(centers**2, axis=1)
    step = max(256, ELEMENTS // len(centers))
    for first in range(0, len(x), step):
        part = x[first : first + step]
        gaps = norms - 2 * (part @ centers.T)
        found = gaps.argmin(axis=1)
        labels[first : first + step] = found
        near = gaps[np.arange(len(part)), found] + np.sum(part**2, axis=1)
        squares[first : first + step] = np.maximum(near, 0)
    return labels, squares


def start(rows: Rows, mean: Array, k: int, seed: int) -> Array:
    """Draw the centers, around the mean of all rows. Collective.

    In each round a row becomes a candidate with a chance in proportion to its squared distance to
    the candidates before, so that there are about ``2 * k`` new candidates. Candidates weigh as
    much as the rows next to them, and k-means++ chooses ``k``.
    """
    chosen = first_row(rows, mean, seed)
    for turn in range(ROUNDS):
        total = float(rows.total(1, lambda block: distances(block, mean, chosen).sum())[0])  # noqa: B023
        if total == 0:
            break
        random = np.random.default_rng((seed, rows.comm.rank, turn))
        drawn: list[Array] = [np.zeros((0, rows.width))]

        def draw(block: Block) -> None:
            chances = 2 * k * distances(block, mean, chosen) / total  # noqa: B023
            hit = random.uniform(size=len(chances)) < chances  # noqa: B023
            drawn.append(block.x[hit] - mean)  # noqa: B023

        rows.each(draw)
        chosen = np.concatenate([chosen, rows.comm.allgatherv(np.concatenate(drawn))])
    weights = rows.total(len(chosen), lambda block: weights_of(block, mean, chosen))
    found = lead(rows.comm, lambda: {"centers": choose(chosen, weights, k, seed)})
    return found["centers"]


def distances(block: Block, mean: Array, centers: Array) -> Array:
    """Return the weighted squared distances to the nearest centers."""
    return block.weight * nearest(block.x - mean, centers)[1]


def weights_of(block: Block, mean: Array, centers: Array) -> NDArray[Any]:
    """Return the weight of the rows next to each center."""
    labels = nearest(block.x - mean, centers)[0]
    return np.bincount(labels, block.weight, len(centers))


def first_row(rows: Rows, mean: Array, seed: int) -> Array:
    """Draw one row of all ranks: the row with the smallest random number. Collective."""
    random = np.random.default_rng((seed, rows.comm.rank))
    best = np.full(1 + rows.width, np.inf)

    def take(block: Block) -> None:
        numbers = random.uniform(size=len(block.x))
        numbers[block.weight == 0] = np.inf
        place = int(numbers.argmin())
        if numbers[place] < best[0]:
            best[0] = numbers[place]
            best[1:] = block.x[place] - mean

    rows.each(take)
    everything = rows.comm.allgather(best)
    found: Array = everything[everything[:, 0].argmin()][None, 1:]
    return found


def choose(x: Array, weights: Array, k: int, seed: int) -> Array:
    """Choose by k-means++ among weighted rows, and improve by Lloyd's iterations, on rank 0."""
    random = np.random.default_rng((seed, 1 << 32))
    if len(x) < k:
        x = np.resize(x, (k, x.shape[1]))
        weights = np.append(weights, np.zeros(len(x) - len(weights)))
    squares = np.ones(len(x))
    places: list[int] = []
    for _ in range(k):
        chances = weights * squares
        if chances.sum() == 0:
            chances = np.ones(len(x))
            chances[places] = 0
        places.append(int(random.choice(len(x), p=chances / chances.sum())))
        new = np.sum((x - x[places[-1]]) ** 2, axis=1)
        squares = new if len(places) == 1 else np.minimum(squares, new)
    centers = x[places]
    for _ in range(30):
        labels: Any = nearest(x, centers)[0]
        total = np.bincount(labels, weights, k)
        sums = np.zeros_like(centers)
        np.add.at(sums, labels, weights[:, None] * x)
        centers = np.where(total[:, None] > 0, sums / np.maximum(total, 1e-300)[:, None], centers)
    return centers
