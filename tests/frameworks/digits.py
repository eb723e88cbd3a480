# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits, from scikit-learn: a quarter to test, the rest dealt out to the ranks."""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits

ACCURACY = 0.9  # of what was trained on one part alone, too; so tests also compare the ranks


class Digits(NamedTuple):
    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def load(rank: int, size: int) -> Digits:
    """Load the part of a rank, which is as long as every other's, and the test data."""
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype("float32")
    order = np.random.default_rng(1).permutation(len(x))
    test, train = np.split(order, [len(x) // 4])
    mine = train[: len(train) // size * size][rank::size]
    return Digits(x[mine], y[mine], x[test], y[test])


def judge(data: Digits, replicas: int, guess: np.ndarray, weights: list[np.ndarray]) -> str:
    """Return as JSON how good a model is, and a digest of its weights."""
    bits = hashlib.sha256(b"".join(weight.tobytes() for weight in weights)).hexdigest()
    accuracy = float((guess == data.test_y).mean())
    return json.dumps({"replicas": replicas, "accuracy": accuracy, "weights": bits})
