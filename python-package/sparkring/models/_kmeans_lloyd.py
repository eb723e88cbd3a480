# SPDX-License-Identifier: Apache-2.0
"""Lloyd's iterations of k-means, around the mean of all rows, by numerics/kmeans.h.

Rows in memory keep bounds of their distances, by which most rows are skipped. Batches are compared
with all centers in each pass. Every rank computes the same centers from the same sums.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sparkring import _numerics as numerics

if TYPE_CHECKING:
    from typing import Union

    from numpy.typing import NDArray
    from typing_extensions import TypeAlias

    from sparkring.models._rows import Block, Rows
    from sparkring.models._table import Array

    Labels: TypeAlias = NDArray[np.int32]
    Labeled: TypeAlias = Union["InMemory", "Batches"]

COLUMNS = 2  # the sums of a cluster: rows, weight, and those of the columns


class Clusters(NamedTuple):
    """The end of the iterations. Batches have no labels."""

    centers: Array
    inertia: float
    iterations: int
    labels: Labels | None


def nearest(x: Array, mean: Array | None, centers: Array) -> tuple[Labels, Array]:
    """Return the nearest center of each row, and the squared distance to it."""
    labels, squares = np.empty(len(x), np.int32), np.empty(len(x))
    numerics.kmeans_nearest(np.ascontiguousarray(x), mean, centers, labels, squares, None)
    return labels, squares


def fit(rows: Rows, mean: Array, centers: Array, most: int, tolerance: float) -> Clusters:
    """Move the centers to the means of their rows, until they stay. Collective."""
    labeled: Labeled = Batches(rows, mean) if rows.streamed else InMemory(rows, mean)
    sums = labeled.begin(centers)
    for iteration in range(1, most + 1):  # noqa: B007
        before = centers
        centers = means_of(labeled, sums, before)
        moves = np.empty(len(centers))
        shift = numerics.kmeans_moves(before, centers, moves)
        changed, sums = labeled.move(centers, moves, sums)
        if changed == 0 or shift <= tolerance:
            break
    if changed == 0:  # without the rounding errors of rows that have left
        centers = means_of(labeled, sums_of(labeled, len(centers)), centers)
        iteration = iteration if shift <= tolerance else min(iteration + 1, most)
    inertia = math.fsum(within(labeled, centers))
    return Clusters(centers, inertia, iteration, labeled.labels)


class InMemory:
    """Rows in memory, with bounds of their distances."""

    def __init__(self, rows: Rows, mean: Array) -> None:
        self.rows, self.mean = rows, mean
        self.labels = np.empty(rows.own, np.int32)
        self._upper, self._lower = np.empty(rows.own), np.empty(rows.own)

    def of(self, block: Block) -> Labels:
        """Return the clusters of the rows of a block."""
        return self.labels[place_of(block)]

    def begin(self, centers: Array) -> Array:
        """Find the nearest centers. Return the sums of the clusters. Collective."""

        def find(block: Block) -> None:
            x, at = np.ascontiguousarray(block.x), place_of(block)
            bounds = self._upper[at], self._lower[at]
            numerics.kmeans_nearest(x, self.mean, centers, self.labels[at], *bounds)
            for bound in bounds:
                np.sqrt(bound, out=bound)

        self.rows.each(find)
        return sums_of(self, len(centers))

    def move(self, centers: Array, moves: Array, sums: Array) -> tuple[int, Array]:
        """Find the nearest centers again, after the centers have moved. Collective.

        Returns
        -------
        changed : int
            The number of rows with another cluster.
        sums : array
            The sums of the clusters now.
        """
        half = np.empty(len(centers))
        numerics.kmeans_half(centers, half)
        found = np.zeros(1 + sums.size)
        delta = found[1:].reshape(sums.shape)

        def assign(block: Block) -> None:
            x, at = np.ascontiguousarray(block.x), place_of(block)
            bounds = self.labels[at], self._upper[at], self._lower[at]
            found[0] += numerics.kmeans_assign(
                x, block.weight, self.mean, centers, moves, half, *bounds, delta
            )

        self.rows.each(assign)
        found = self.rows.comm.allreduce(found)
        return int(found[0]), sums + found[1:].reshape(sums.shape)


class Batches:
    """Rows that come in batches, of which nothing is kept."""

    labels = None

    def __init__(self, rows: Rows, mean: Array) -> None:
        self.rows, self.mean = rows, mean

    def of(self, block: Block) -> Labels:
        """Return the clusters of the rows of a block."""
        return nearest(block.x, self.mean, self._centers)[0]

    def begin(self, centers: Array) -> Array:
        """Return the sums of the clusters. Collective."""
        self._centers = centers
        return sums_of(self, len(centers))

    def move(self, centers: Array, moves: Array, sums: Array) -> tuple[int, Array]:
        """Return -1, because the rows that change are not known, and the sums. Collective."""
        return -1, self.begin(centers)


def place_of(block: Block) -> slice:
    """Return where the rows of a block are among those of the rank."""
    return slice(block.first, block.first + len(block.x))


def sums_of(labeled: Labeled, clusters: int) -> Array:
    """Return the number, the weight and the sums of the rows of each cluster. Collective."""
    sums = np.zeros((clusters, COLUMNS + labeled.rows.width))

    def add(block: Block) -> None:
        x = np.ascontiguousarray(block.x)
        numerics.kmeans_sums(x, block.weight, labeled.mean, labeled.of(block), sums)

    labeled.rows.each(add)
    return labeled.rows.comm.allreduce(sums)


def within(labeled: Labeled, centers: Array) -> Array:
    """Return the weighted squared distances to the center of each cluster. Collective."""
    sums = np.zeros((len(centers), COLUMNS + 1))

    def add(block: Block) -> None:
        labels = labeled.of(block)
        squares = squares_of(block, labeled.mean, labels, centers)[:, None]
        numerics.kmeans_sums(squares, block.weight, None, labels, sums)

    labeled.rows.each(add)
    found: Array = labeled.rows.comm.allreduce(sums)[:, COLUMNS]
    return found


def squares_of(block: Block, mean: Array, labels: Labels, centers: Array) -> Array:
    """Return the squared distances of rows to the centers of their clusters."""
    squares = np.empty(len(block.x))
    numerics.kmeans_distance(np.ascontiguousarray(block.x), mean, labels, centers, squares)
    return squares


def means_of(labeled: Labeled, sums: Array, before: Array) -> Array:
    """Return the means of the clusters. A cluster without rows gets a row far from its center."""
    centers = np.array(before)
    empty = numerics.kmeans_means(sums, centers, labeled.rows.width)
    if empty > 0:
        numerics.kmeans_refill(sums, farthest(labeled, centers, empty), centers)
    return centers


def farthest(labeled: Labeled, centers: Array, count: int) -> Array:
    """Return the rows that are farthest from their centers, of all ranks. Collective."""
    rows, mean = labeled.rows, labeled.mean
    own = np.zeros((0, 1 + rows.width))

    def take(block: Block) -> None:
        nonlocal own
        squares = squares_of(block, mean, labeled.of(block), centers)
        found = np.concatenate([squares[:, None], block.x - mean], axis=1)[block.weight > 0]
        own = first(np.concatenate([own, found]))

    def first(found: Array) -> Array:
        places = np.argsort(-found[:, 0], kind="stable")[:count]
        return np.take(found, places, axis=0)

    rows.each(take)
    everything = first(rows.comm.allgatherv(own))
    return np.ascontiguousarray(everything[:, 1:])
