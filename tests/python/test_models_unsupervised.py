# SPDX-License-Identifier: Apache-2.0
"""Clusters, components, scales, quantiles and counts of the rows of all ranks."""

from __future__ import annotations

from decimal import Decimal

import models_data as data
import numpy as np
import pytest
import sparkring
from ranks import open_comm, run
from sklearn import cluster, decomposition, preprocessing
from sparkring import models
from sparkring.models._quantile import METHODS, order_statistic

START = data.rows()["x"][:5]
PCA_RESULTS = (
    "singular_values_",
    "explained_variance_",
    "explained_variance_ratio_",
    "mean_",
    "noise_variance_",
)
PROBS = [0, 0.1, 0.5, 0.777, 1]


def estimators(comm):
    return {
        "scaler": models.StandardScaler(comm=comm),
        "pca": models.PCA(comm=comm),
        "most": models.PCA(comm=comm, n_components=0.9, whiten=True),
        "svd": models.TruncatedSVD(comm=comm, n_components=2),
        "kmeans": models.KMeans(comm=comm, n_clusters=5, init=START, tol=0),
        "drawn": models.KMeans(comm=comm, n_clusters=5, random_state=2, n_init=3),
        "empty": models.KMeans(comm=comm, n_clusters=6, init=np.vstack([START, [[1e6] * 4]])),
    }


def fit_all():
    with open_comm() as comm:
        rows = data.part(comm)
        found = {}
        for name, model in estimators(comm).items():
            found[name] = data.results(model.fit(rows["x"]))
            if name == "scaler":
                found["weighted"] = data.results(model.fit(rows["x"], None, rows["weight"]))
        names = np.where(rows["count"] > 1, "more", np.where(rows["count"] == 1, "one", "none"))
        found["functions"] = {
            "quantiles": models.quantile(rows["y"], PROBS, comm=comm),
            "ties": models.quantile(rows["count"], 0.5, comm=comm),
            "table": sorted(models.table(names, comm=comm).items()),
        }
        return found


def wide():
    """Make rows with more columns than a triangle should have, nearly of rank 5."""
    random = np.random.default_rng(3)
    scores = random.normal(size=(90, 5)) * [50, 40, 30, 20, 10]
    return scores @ random.normal(size=(5, 2100)) + random.normal(size=(90, 2100)) + 3


def fit_wide():
    with open_comm() as comm:
        rows = wide()[slice(*[0, 40, 40, 90][comm.rank : comm.rank + 2])]
        options = {"comm": comm, "n_components": 3, "random_state": 1}
        return {
            "pca": data.results(models.PCA(**options).fit(rows)),
            "svd": data.results(models.TruncatedSVD(**options).fit(rows)),
        }


@pytest.fixture(scope="module")
def found():
    return data.first_of(run(3, fit_all))


def same(mine, theirs, *names, rel=1e-9):
    for name in names:
        assert mine[name] == pytest.approx(getattr(theirs, name), rel=rel, abs=1e-12), name


def test_wide_rows_are_projected():
    found, x = data.first_of(run(3, fit_wide)), wide()
    same(found["pca"], decomposition.PCA(3, svd_solver="full").fit(x), *PCA_RESULTS, rel=1e-6)
    theirs = decomposition.TruncatedSVD(3, algorithm="arpack").fit(x)
    same(found["svd"], theirs, "singular_values_", "explained_variance_", rel=1e-6)
    same(found["svd"], theirs, "explained_variance_ratio_", rel=1e-6)
    for name, exact in (("pca", x - x.mean(axis=0)), ("svd", x)):
        right = np.linalg.svd(exact, full_matrices=False)[2][:3]
        cosines = np.abs(np.sum(found[name]["components_"] * right, axis=1))
        assert cosines == pytest.approx(1, abs=1e-10)


def test_projections_of_batches_and_of_few_directions():
    x = data.rows()["x"]
    options = {"n_components": 2, "svd_solver": "randomized"}
    exact = models.PCA(n_components=2).fit(x)
    batches = data.Batches([x[:250], x[250:]])
    found = models.PCA(**options).fit(batches)
    same(vars(found), exact, "components_", *PCA_RESULTS)
    line = np.outer(np.arange(9.0), np.ones(30))
    found = models.PCA(**options).fit(line)
    assert found.singular_values_ == pytest.approx([np.sqrt(30 * 60), 0])
    with pytest.raises(sparkring.InvalidError, match="needs n_components, a whole number"):
        models.PCA(svd_solver="randomized").fit(x)


def test_scales(found):
    rows = data.rows()
    theirs = preprocessing.StandardScaler().fit(rows["x"])
    same(found["scaler"], theirs, "mean_", "var_", "scale_", "n_samples_seen_")
    theirs = preprocessing.StandardScaler().fit(rows["x"], sample_weight=rows["weight"])
    same(found["weighted"], theirs, "mean_", "var_", "scale_")


def test_components(found):
    x = data.rows()["x"]
    theirs = decomposition.PCA(svd_solver="full").fit(x)
    names = ("components_", "explained_variance_", "explained_variance_ratio_", "mean_")
    same(found["pca"], theirs, *names, "singular_values_", "n_components_", "noise_variance_")
    theirs = decomposition.PCA(n_components=0.9, svd_solver="full").fit(x)
    same(found["most"], theirs, *names[:3], "n_components_", "noise_variance_")
    theirs = decomposition.TruncatedSVD(2, algorithm="arpack").fit(x)
    same(found["svd"], theirs, "explained_variance_", "singular_values_", rel=1e-8)
    theirs = np.abs(theirs.components_)
    assert np.abs(found["svd"]["components_"]) == pytest.approx(theirs, rel=1e-8)


def test_clusters_from_the_same_start(found):
    x = data.rows()["x"]
    theirs = cluster.KMeans(5, init=START, n_init=1, tol=0, algorithm="lloyd").fit(x)
    same(found["kmeans"], theirs, "inertia_", "n_iter_", "cluster_centers_", rel=1e-10)


def test_drawn_clusters_are_as_good(found):
    theirs = cluster.KMeans(5, n_init=3, random_state=0).fit(data.rows()["x"])
    assert found["drawn"]["inertia_"] <= 1.1 * theirs.inertia_
    assert found["empty"]["inertia_"] < found["kmeans"]["inertia_"]  # the sixth has rows, too


def test_quantiles_and_counts(found):
    rows, got = data.rows(), found["functions"]
    assert got["quantiles"] == pytest.approx(np.quantile(rows["y"], PROBS), rel=1e-15)
    assert got["ties"] == np.quantile(rows["count"], 0.5)
    counts = {"more": (rows["count"] > 1).sum(), "one": (rows["count"] == 1).sum()}
    assert got["table"] == sorted({**counts, "none": (rows["count"] == 0).sum()}.items())


def many():
    """More values than are gathered at once, half of them equal."""
    with open_comm() as comm:
        values = np.random.default_rng(1).normal(size=60_000)
        values[:30_000] = 0.25
        return models.quantile(values[comm.rank :: comm.size], PROBS, comm=comm)


@pytest.mark.parametrize("method", [m for m in METHODS if m != "closest_observation"])
def test_methods_of_quantiles(method):
    """NumPy before 2 rounds the place of a closest observation otherwise than R."""
    values, probs = np.random.default_rng(2).normal(size=101), np.linspace(0, 1, 37)
    found = models.quantile(values, probs, method=method)
    assert found == pytest.approx(np.quantile(values, probs, method=method), rel=1e-12)


def test_closest_observations():
    found = models.quantile(
        [1.0, 2, 3, 4], [0.125, 0.375, 0.4, 0.625], method="closest_observation"
    )
    assert found.tolist() == [1, 2, 2, 2]
    with pytest.raises(sparkring.InvalidError, match="method is 'nearest': it must be one of"):
        models.quantile([1.0], 0.5, method="nearest")


def test_quantiles_of_many_values():
    values = np.random.default_rng(1).normal(size=60_000)
    values[:30_000] = 0.25
    for found in run(2, many):
        assert found == pytest.approx(np.quantile(values, PROBS), rel=1e-15)


class Crowd:
    """A communicator of one rank that seems to be of 1,000 ranks, and counts its calls."""

    size = 1000

    def __init__(self, comm):
        self.comm, self.calls = comm, 0

    def __getattr__(self, name):
        self.calls += 1
        return getattr(self.comm, name)


def test_quantiles_of_many_ranks(comm):
    """Each rank proposed one value, so each round left all candidates but one."""
    crowd, values = Crowd(comm), np.arange(30_000.0)
    assert order_statistic(crowd, values, 12_345) == 12_345
    assert crowd.calls < 20


def test_values_that_are_not_counted():
    for values in (
        np.array(["2020-01-01"], "datetime64[D]"),
        [b"a"],
        [Decimal(1)],
        ["a", np.nan],
        ["a", 1],
        ["a", None],
        [1.0, np.nan],
    ):
        with pytest.raises(sparkring.InvalidError, match=r"values (must not be|has missing)"):
            models.table(values)
    assert models.table(["b", "a", "b"]) == {"a": 1, "b": 2}
    assert models.table([2, 1, 2]) == {1: 1, 2: 2}


def test_small_variances():
    """Times have a large mean, and the last component of few rows is rounding noise."""
    x = data.rows()["x"][:, :3]
    times = 1.7e12 + 1e3 * x
    scaler = models.StandardScaler().fit(times, sample_weight=np.full(data.ROWS, 1e4))
    assert scaler.scale_ == pytest.approx(times.std(axis=0), rel=1e-4)
    whitened = models.PCA(whiten=True).fit(x[:3]).transform(x[:3])
    assert whitened.std(axis=0, ddof=1) == pytest.approx([1, 1, 0], abs=1e-9)
    for kind in (models.PCA, models.TruncatedSVD):
        with pytest.raises(sparkring.InvalidError, match="n_components is 5, and the rows"):
            kind(n_components=np.int64(5)).fit(x)


def test_transformed_rows():
    x = data.rows()["x"]
    scaler, theirs = models.StandardScaler().fit(x), preprocessing.StandardScaler().fit(x)
    assert scaler.transform(x) == pytest.approx(theirs.transform(x))
    assert scaler.inverse_transform(scaler.transform(x)) == pytest.approx(x)
    constant = np.column_stack([x, np.full(data.ROWS, 0.1)])
    assert models.StandardScaler().fit_transform(constant)[:, -1] == pytest.approx(0, abs=1e-9)
    pca, theirs = models.PCA(whiten=True).fit(x), decomposition.PCA(whiten=True).fit(x)
    assert pca.transform(x) == pytest.approx(theirs.transform(x), abs=1e-9)
    assert pca.inverse_transform(pca.transform(x)) == pytest.approx(x)
    kmeans = models.KMeans(n_clusters=5, init=START).fit(x)
    distances = kmeans.transform(x)
    assert (kmeans.labels_ == kmeans.predict(x)).all()
    assert (kmeans.labels_ == distances.argmin(axis=1)).all()
    assert kmeans.score(x) == pytest.approx(-kmeans.inertia_)
