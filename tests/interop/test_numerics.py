# SPDX-License-Identifier: Apache-2.0
"""R ranks and Python ranks get the same bits of the same rows, in the same order and places."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sparkring import models
from sparkring.models import _moments
from sparkring.models._family import FAMILIES
from sparkring.models._quantile import METHODS
from test_interop import DEADLINE, pytestmark  # noqa: F401

HERE = Path(__file__).parent
LAUNCHER = [sys.executable, "-m", "sparkring._launch.launcher", "-n", "3"]


class Scaler(models.StandardScaler):
    def _fit(self, rows):
        self.squares = _moments.moments(rows).squares
        super()._fit(rows)


class Seeded(models.KMeans):
    def _seeds(self, rows, count):
        return [self.random_state]


def survival(comm, ties, rows):
    """Fit the rows of numerics.R."""
    a, _, c, d, e, _ = rows.T
    time = np.floor(np.abs(e) * 16) / 10 + 0.1
    y = [time - 1 - (c > 0), time * (1 + 1e-15 * (d > 1)), d > 0]
    model = models.CoxPH(comm=comm, ties=ties)
    weight = 1 + np.floor(np.abs(d) * 8) / 8
    roles = {"strata": (a > 1e6).astype(float), "offset": d / 16}
    model.fit(rows[:, [0, 1, 2, 5]], np.stack(y, axis=1), weight, **roles)
    likelihoods = [model.null_log_likelihood_, model.log_likelihood_]
    return {
        f"{ties}_coefficients": model.coef_,
        f"{ties}_covariance": model.covariance_,
        f"{ties}_naive": model.naive_covariance_,
        f"{ties}_tests": [*likelihoods, model.score_test_, model.wald_test_],
        f"{ties}_times": model.baseline_[:, 1],
        f"{ties}_hazard": model.baseline_[:, 2],
    }


def nets(comm, x):
    """Fit elastic nets, and return their numbers by name."""
    features, y, weight = x[:, [0, 1, 2, 3, 5]], x[:, 4], 1.0 + (x[:, 0] > 1e6)
    found = {}
    for family, numbers, l1_ratio in (("gaussian", y, 1.0), ("binomial", y > 5, 0.5)):
        net = models.ElasticNetCV(comm=comm, family=family, l1_ratio=l1_ratio, cv=2)
        net.set_params(alphas=[1, 0.3, 0.1, 0.01]).fit(features, np.float64(numbers), weight)
        found |= {family: net.coef_path_, f"{family}-level": net.intercept_path_}
    counts = np.abs(np.round(y))
    classes, factors = np.minimum(2, counts).astype(int), [0.3, 0, 1.7, 2.1, 1]
    for family, numbers, l1_ratio, alphas, penalty_factor in (
        ("gaussian", y, 1.0, [1, 0.1], factors),
        ("binomial", np.float64(y > 5), 0.5, [0.1, 0.01], factors),
        ("poisson", counts, 0.5, [0.1, 0.01], [1, np.inf, 1, 1, 1]),
        ("multinomial", classes, 0.5, [0.1, 0.01], factors),
    ):
        net = models.ElasticNetCV(comm=comm, family=family, l1_ratio=l1_ratio, cv=2)
        net.set_params(alphas=alphas, standardize=True, penalty_factor=penalty_factor)
        net.fit(features, numbers, weight)
        found |= {f"standard-{family}": net.coef_path_}
        found |= {f"standard-{family}-level": net.intercept_path_}
        net.set_params(alphas=None, n_alphas=9, eps=0.01, max_iter=1000)
        net.fit(features, numbers, weight)
        found |= {f"path-{family}": net.coef_path_, f"path-{family}-alphas": net.alphas_}
    poisson = models.PoissonRegressor(comm=comm, alpha=0.1).fit(features, counts, weight)
    found |= {"poisson": poisson.coef_, "poisson-level": poisson.intercept_}
    logistic = models.LogisticRegression(comm=comm, C=0.5).fit(features, classes, weight)
    return found | {"multinomial": logistic.coef_, "multinomial-level": logistic.intercept_}


def python_rank(comm, rows, seed):
    """Fit on the first ranks, as numerics.R. A result is a list of numbers by size and name."""
    found = {}
    for size in (1, 2, 3):
        group = comm.split(int(comm.rank < size))
        if comm.rank < size:
            x = rows[np.arange(1, len(rows) + 1) % size == group.rank]
            scaler = Scaler(comm=group).fit(x)
            init = np.vstack([rows[:4], np.full((1, rows.shape[1]), 1e6)])
            a, y = x[:, 0], x[:, 4]
            weight = np.abs(a - 1e6) * (a < 1e6 + 1)
            least = models.LinearRegression(comm=group).fit(x[:, :4], y, weight)
            pca = models.PCA(comm=group).fit(x)
            svd = models.TruncatedSVD(6, comm=group, algorithm="exact").fit(x)
            ridge = models.Ridge(0.5, comm=group).fit(x[:, :3], y)
            plain = models.LinearRegression(comm=group, fit_intercept=False).fit(x[:, :3], y)
            for family, (_, links, _) in FAMILIES.items():
                for link in links:
                    z = np.float64(y > 5) if family == "binomial" else np.abs(np.round(y)) + 1
                    model = models.GeneralizedLinearModel(comm=group, family=family, link=link)
                    model.fit([(x[:700, 1:3], z[:700]), (x[700:, 1:3], z[700:])])
                    numbers = [model.intercept_, *model.coef_, *model.covariance_.ravel()]
                    found[size, f"{family}-{link}"] = [*numbers, model.deviance_]
            given = models.KMeans(5, comm=group, init=init, tol=0).fit(x)
            drawn = Seeded(5, comm=group, random_state=seed, max_iter=100).fit(x)
            found |= {
                (size, "mean"): scaler.mean_,
                (size, "squares"): scaler.squares,
                (size, "lm"): [least.intercept_, *least.coef_],
                (size, "prcomp"): [*pca.components_.ravel(), *pca.mean_, *pca.singular_values_],
                (size, "svd"): [*svd.components_.ravel(), *svd.singular_values_],
                (size, "ridge"): [ridge.intercept_, *ridge.coef_],
                (size, "plain"): plain.coef_,
                (size, "given"): given.cluster_centers_,
                (size, "iterations"): [given.n_iter_ - 1],  # the last one moves no row
                (size, "drawn"): drawn.cluster_centers_,
                (size, "labels"): drawn.labels_ + 1,
            }
            for number, method in enumerate(METHODS, 1):
                probs = [0, 0.1, 1 / 3, 0.5, 0.77, 1]
                values = models.quantile(x[:, 2], probs, method=method, comm=group)
                found[size, f"quantile-{number}"] = values
            for ties in ("efron", "breslow"):
                fit = survival(group, ties, x)
                found |= {(size, name): values for name, values in fit.items()}
            found |= {(size, name): values for name, values in nets(group, x).items()}
        group.close()
    return {name: np.ravel(values).tolist() for name, values in found.items()}


@pytest.fixture(scope="module")
def in_r(tmp_path_factory):
    """Return the rows, and the numbers of each R rank by size and name."""
    random = np.random.default_rng(5)
    rows = random.normal(size=(3100, 6)) * [1, 1e-3, 1e5, 1, 1, 0] + [1e6, 1, -3, 0, 0, 0.1]
    rows[:, 3:5] += 3 * random.integers(0, 5, (3100, 1))
    file = tmp_path_factory.mktemp("numerics") / "rows.csv"
    np.savetxt(file, rows, "%.17g", delimiter=",", header="a,b,c,d,e,f", comments="")
    job = subprocess.run(
        [*LAUNCHER, "Rscript", HERE / "numerics.R", file],
        timeout=DEADLINE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert job.returncode == 0, job.stdout + job.stderr
    ranks = [{}, {}, {}]
    for line in job.stdout.splitlines():
        rank, size, name, *numbers = line.split()
        ranks[int(rank[1])][int(size), name] = [float.fromhex(number) for number in numbers]
    return rows, ranks


def test_python_has_the_bits_of_r(in_r):
    from sparkring.spark import run

    rows, ranks = in_r
    seed = int(ranks[0].pop((1, "seed"))[0])
    found = run(python_rank, args=(rows, seed), num_proc=-3, verbose=0)
    for ours, theirs in zip(found, ranks):
        assert ours == {name: numbers for name, numbers in theirs.items() if name[1] != "seed"}
        assert len(ours) > 0
