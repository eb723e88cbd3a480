# SPDX-License-Identifier: Apache-2.0
"""Training of trees on a rank: its rows, in memory, for XGBoost or LightGBM."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkring._core import InvalidError
from sparkring.spark.ml import _feed as feeds
from sparkring.spark.ml import _output as output_of
from sparkring.spark.ml._columns import BESIDE, LABEL, MARGIN, QUERY, WEIGHT
from sparkring.spark.ml._shard import Shard
from sparkring.spark.ml._training import Progress

if TYPE_CHECKING:
    from sparkring._communicator import Communicator
    from sparkring.spark.ml._plan import Plan
    from sparkring.spark.ml._shard import Arrays


@dataclass
class TreeRows:
    """Some rows of a rank: a matrix, and arrays beside it, or None."""

    x: Any
    label: Any
    weight: Any
    query: Any
    margin: Any

    def groups(self) -> Any:
        """Return the places where a query begins, and the end."""
        changes = np.flatnonzero(self.query[1:] != self.query[:-1]) + 1
        return np.concatenate([[0] if len(self.query) else [], changes, [len(self.query)]]).astype(
            int
        )


@dataclass
class Trained:
    """The model of a framework, its trees as text, and the metrics of each round."""

    weights: bytes
    trees: str
    metrics: dict[str, list[float]]


def train(comm: Communicator, rows: Iterable[Any], plan: Plan) -> Progress | None:
    """Train the trees."""
    shards = Shard(), Shard()
    for batch in filter(len, rows):
        parts = feeds.split(feeds.read(batch, plan, np.nan))
        for shard, part in zip(shards, parts):
            if part:
                shard.append(part)
    for shard in shards:
        shard.close(comm)
    own, valid = shards
    feeds.check_rows(own.total)
    check_rows_of_ranks(plan, own)
    validation = valid.all() if valid.total else None
    shapes = comm.allgather_object(plan.shapes)  # a rank without rows has none
    plan.shapes = next(each for each in shapes if each is not None)
    trained = plan.module.train(comm, plan, rows_of(own.all()), validation)
    check_alike(comm, trained)
    if comm.rank != 0:
        return None
    first = rows_of({name: values[:1] for name, values in own.spare.items()})
    predictor = plan.module.Predictor(plan, trained.weights)
    margin = () if first.margin is None else (list(first.margin.shape[1:]),)
    return Progress(
        best_weights=trained.weights,
        shapes=[*plan.shapes, *margin],
        outputs=output_of.describe(predictor([first.x], first.margin)),
        history=history_of(trained.metrics),
    )


def check_rows_of_ranks(plan: Plan, shard: Shard) -> None:
    """Refuse ranks without rows where the framework does."""
    empty = [rank for rank, (rows, _) in enumerate(shard.digest) if not rows]
    if empty and plan.module.NEEDS_ROWS:
        raise InvalidError(
            f"rank {empty[0]} has no rows to train on, and LightGBM needs rows on every rank: set"
            " a smaller numProc"
        )


def check_alike(comm: Communicator, trained: Trained) -> None:
    """Refuse a training whose ranks do not exchange all that they compute."""
    digests = comm.allgather_object(hashlib.sha256(trained.trees.encode()).hexdigest())
    other = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
    if other:
        raise InvalidError(
            f"the trees of ranks 0 and {other[0]} differ, so modelParams has a parameter with which"
            " the framework trains each rank on its own rows: set numProc to 1, or leave it out"
        )


def rows_of(arrays: Arrays) -> TreeRows:
    """Put the inputs side by side."""
    beside = [arrays.get(name) for name in (LABEL, WEIGHT, QUERY, MARGIN)]
    return TreeRows(matrix([v for name, v in arrays.items() if name not in BESIDE]), *beside)


def matrix(inputs: list[Any]) -> Any:
    """Put the inputs side by side."""
    width = [int(np.prod(values.shape[1:], dtype=int)) for values in inputs]
    parts = [values.reshape(len(values), columns) for values, columns in zip(inputs, width)]
    return np.concatenate(parts, axis=1)


def history_of(metrics: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Return a row for each round."""
    rounds = zip(*metrics.values())
    return [
        {"epoch": epoch, **{f"val_{name}": float(value) for name, value in zip(metrics, values)}}
        for epoch, values in enumerate(rounds)
    ]


def feature_names(plan: Plan, width: int, forbidden: str) -> list[str] | None:
    """Name the features by their columns; None where these names cannot be known or are alike."""
    names: list[str] = []
    for (name, parts), shape in zip(plan.labels, plan.shapes or ()):
        size = int(np.prod(shape, dtype=int))
        known = parts if parts and len(parts) == size else [f"{name}_{i}" for i in range(size)]
        names += known if shape else [name]
    clean = ["".join("_" if c in forbidden else c for c in name) for name in names]
    fits = plan.transformation is None and len(clean) == width == len(set(clean))
    return clean if fits else None


def scores(raw: Any, probability: Any) -> list[Any]:
    """Return the class, the probabilities and the margins of a classifier."""
    if raw.ndim == 1:
        raw, probability = np.stack([-raw, raw], 1), np.stack([1 - probability, probability], 1)
    return [raw.argmax(1), probability.astype(np.float64), raw.astype(np.float64)]


def sigmoid(x: Any) -> Any:
    """Return the probability of a margin."""
    return 0.5 * (1 + np.tanh(x / 2))


def softmax(x: Any) -> Any:
    """Return the probabilities of margins."""
    found = np.exp(x - x.max(1, keepdims=True))
    return found / found.sum(1, keepdims=True)


def outputs_of(found: list[Any], plan: Plan) -> list[Any]:
    """Return the outputs that have names; all of them where no names are set."""
    names = plan.outputCols
    if plan.postprocess is not None:
        return output_of.arrays(found[0], plan.postprocess, names or ["prediction"])
    if names is not None and len(names) > len(found):
        raise InvalidError(f"outputCols has {len(names)} names, and there are {len(found)} outputs")
    return found if names is None else found[: len(names)]
