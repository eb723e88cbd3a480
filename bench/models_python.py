# SPDX-License-Identifier: Apache-2.0
"""What `sparkring.models` cost on one rank, in processor time, beside scikit-learn.

models_python.py [--rows N] [--rounds N]; scripts/bench --scikit calls it, with one thread of BLAS.
Both fit the same 20 columns in memory, by turns. The table has the least time of the rounds. The
models of scikit-learn are those with the same minimum; its logistic and Poisson regressions stop at
a tolerance of 1e-4, and ours at that of R.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import sklearn
from sklearn import cluster, decomposition, linear_model
from sparkring import models

CLUSTERS = 10


def rows_of(count):
    """Return ten clusters that overlap, a regression, classes and counts."""
    random = np.random.default_rng(1)
    x = random.normal(size=(count, 20)) + 1.5 * np.eye(CLUSTERS, 20)[np.arange(count) % CLUSTERS]
    eta = x @ random.normal(size=20) / 4
    y = eta + random.normal(size=count)
    return x, y, (y > 0).astype(float), random.poisson(np.exp(eta / 4)).astype(float)


def cases(x, y, label, counts):
    """Return our model, that of scikit-learn, and the response, by name."""
    start = x[:CLUSTERS].copy()
    ours_kmeans = models.KMeans(CLUSTERS, init=start, max_iter=20, tol=0)
    their_kmeans = cluster.KMeans(CLUSTERS, init=start, n_init=1, max_iter=20, tol=0)
    poisson = models.GeneralizedLinearModel(family="poisson")
    their_poisson = linear_model.PoissonRegressor(alpha=0, solver="newton-cholesky")
    return {
        "KMeans": (ours_kmeans, their_kmeans, None),
        "LinearRegression": (models.LinearRegression(), linear_model.LinearRegression(), y),
        "Ridge": (models.Ridge(), linear_model.Ridge(solver="svd"), y),
        "PCA": (models.PCA(), decomposition.PCA(svd_solver="full"), None),
        "ElasticNet": (models.ElasticNet(alpha=0.1), linear_model.ElasticNet(alpha=0.1), y),
        "LogisticRegression": (
            models.LogisticRegression(),
            linear_model.LogisticRegression(),
            label,
        ),
        "PoissonRegressor": (models.PoissonRegressor(), linear_model.PoissonRegressor(), counts),
        "GeneralizedLinearModel": (poisson, their_poisson, counts),
    }


def seconds(model, x, response):
    """Return the processor time of a fit."""
    start = time.process_time()
    model.fit(x) if response is None else model.fit(x, response)
    return time.process_time() - start


def main():
    """Measure each model."""
    parser = argparse.ArgumentParser(prog="scripts/bench --scikit", description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000, help="default: 500,000")
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of iterations that end before they converge
    x, *responses = rows_of(options.rows)
    print(f"{options.rows:,} x 20, seconds of processor time, scikit-learn {sklearn.__version__}\n")
    print("| model | sparkring | scikit-learn | ratio |\n|---|---|---|---|")
    for name, (ours, theirs, response) in cases(x, *responses).items():
        rounds = [
            (seconds(ours, x, response), seconds(theirs, x, response))
            for _ in range(options.rounds)
        ]
        own, other = map(min, zip(*rounds))
        print(f"| {name} | {own:.2f} | {other:.2f} | {own / other:.2f} |", flush=True)


if __name__ == "__main__":
    main()
