# SPDX-License-Identifier: Apache-2.0
"""Rows for tests of models, their parts on three ranks, and results that are the same on all."""

from __future__ import annotations

import numpy as np

ROWS = 600
CUTS = [0, 250, 250, ROWS]  # of the ranks: one has no rows
FAR = np.array([100.0, -50, 0, 3])  # means that are far from 0


def rows():
    """Make features, responses and weights, the same in every process."""
    random = np.random.default_rng(7)
    x = random.normal(size=(ROWS, 4)) * [1, 2, 0.5, 1]
    eta = x @ [0.5, -0.2, 0.8, 0] + 0.3
    return {
        "x": x + FAR,
        "y": eta + random.normal(size=ROWS),
        "binary": (random.uniform(size=ROWS) < 1 / (1 + np.exp(-eta))).astype(float),
        "count": random.poisson(np.exp(eta / 2)).astype(float),
        "positive": random.gamma(2, np.exp(eta / 2) / 2),
        "weight": random.integers(0, 4, ROWS).astype(float),
        "offset": random.uniform(0, 0.5, ROWS),
    }


def part(comm):
    """Return the rows of a rank of three, or all rows of a single rank."""
    cut = slice(*CUTS[comm.rank : comm.rank + 2]) if comm.size == 3 else slice(None)
    return {name: values[cut] for name, values in rows().items()}


def results(model):
    """Return the results of a fit, but for those of the rows of the rank."""
    own = ("labels_",)
    found = {name: value for name, value in vars(model).items() if name.endswith("_")}
    if "statistics_" in found:
        found["p_values_"] = model.p_values_
    return {name: value for name, value in found.items() if name not in own}


def first_of(ranks):
    """Return the results of rank 0, of which those of all ranks are the same bits."""
    for other in ranks[1:]:
        assert other.keys() == ranks[0].keys()
        for name, found in other.items():
            assert found.keys() == ranks[0][name].keys()
            for key, value in found.items():
                expected = ranks[0][name][key]
                assert np.asarray(value).tobytes() == np.asarray(expected).tobytes(), (name, key)
    return ranks[0]


class Batches:
    """Batches of rows, which can be iterated again. ``later`` makes those of later passes."""

    def __init__(self, batches, later=list):
        self.batches, self.later = batches, later
        self.passes = 0

    def __iter__(self):
        self.passes += 1
        return iter(self.batches if self.passes <= 2 else self.later(self.batches))


class Once:
    """Batches whose iterator is the same in each pass."""

    def __init__(self, batches):
        self.iterator = iter(batches)

    def __iter__(self):
        return self.iterator


def batches_of(given, names, step=90):
    """Cut the rows of a rank into batches with these names, such as ``{"y": "count"}``."""
    starts = range(0, len(given["x"]), step)
    return Batches(
        [
            {
                "x": given["x"][start : start + step],
                **{to: given[name][start : start + step] for to, name in names.items()},
            }
            for start in starts
        ]
    )
