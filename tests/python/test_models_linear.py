# SPDX-License-Identifier: Apache-2.0
"""Models with scikit-learn's names give its results, on ranks of which one has no rows."""

from __future__ import annotations

import functools
import sys
import warnings

import models_data as data
import numpy as np
import pytest
import sparkring
from ranks import launch, open_comm, run
from sklearn import linear_model
from sklearn.model_selection import PredefinedSplit
from sparkring import models

pytestmark = pytest.mark.quick

TIGHT = {"tol": 1e-14, "max_iter": 100_000}


def fits():
    """List the models, their responses, and whether rows are weighted."""
    return {
        "least squares": (models.LinearRegression(), "y", False),
        "weighted": (models.LinearRegression(), "y", True),
        "through 0": (models.LinearRegression(fit_intercept=False), "y", False),
        "ridge": (models.Ridge(alpha=30.0), "y", True),
        "poisson": (models.PoissonRegressor(alpha=0.2), "count", True),
        "logistic": (models.LogisticRegression(C=0.05), "binary", True),
        "unpenalised": (models.LogisticRegression(penalty=None), "binary", False),
        "elastic": (models.ElasticNet(alpha=0.1), "y", True),
        "lasso": (models.Lasso(alpha=0.05), "y", False),
        "logistic lasso": (models.Lasso(alpha=0.03, family="binomial"), "binary", True),
        "cv": (models.ElasticNetCV(n_alphas=15), "y", False),
        "logistic cv": (models.ElasticNetCV(n_alphas=6, cv=2, family="binomial"), "binary", False),
    }


def fit_all():
    with open_comm() as comm:
        rows = data.part(comm)
        found = {}
        for name, (model, y, weighted) in fits().items():
            weight = rows["weight"] if weighted else None
            found[name] = data.results(model.set_params(comm=comm).fit(rows["x"], rows[y], weight))
        return found


@pytest.fixture(scope="module")
def found():
    return data.first_of(run(3, fit_all))


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("least squares", linear_model.LinearRegression()),
        ("weighted", linear_model.LinearRegression()),
        ("through 0", linear_model.LinearRegression(fit_intercept=False)),
        ("ridge", linear_model.Ridge(alpha=30.0)),
        ("poisson", linear_model.PoissonRegressor(alpha=0.2, solver="newton-cholesky", tol=1e-13)),
        ("logistic", linear_model.LogisticRegression(C=0.05, solver="newton-cholesky", tol=1e-13)),
        ("unpenalised", linear_model.LogisticRegression(penalty=None, solver="newton-cholesky")),
        ("elastic", linear_model.ElasticNet(alpha=0.1, **TIGHT)),
        ("lasso", linear_model.Lasso(alpha=0.05, **TIGHT)),
        (
            "cv",
            linear_model.ElasticNetCV(
                n_alphas=15, cv=PredefinedSplit(np.arange(data.ROWS) % 5), **TIGHT
            ),
        ),
    ],
)
def test_results_are_those_of_scikit_learn(found, name, theirs):
    rows = data.rows()
    _, y, weighted = fits()[name]
    theirs.fit(rows["x"], rows[y], rows["weight"] if weighted else None)
    for attribute in ("coef_", "intercept_", "rank_", "singular_", "alpha_", "mse_path_"):
        if hasattr(theirs, attribute) and attribute in found[name]:
            mine = found[name][attribute]
            assert mine == pytest.approx(getattr(theirs, attribute), rel=1e-8, abs=1e-9), attribute


def gradient(rows, b, level, weight):
    """Return the gradient of the mean logistic loss."""
    mean = 1 / (1 + np.exp(-(rows["x"] @ b + level)))
    return (weight * (mean - rows["binary"])) @ rows["x"] / weight.sum()


def check_optimal(slopes, b, alpha, l1_ratio):
    """Check the conditions of Karush, Kuhn and Tucker."""
    slopes = slopes + alpha * (1 - l1_ratio) * b
    first = alpha * l1_ratio
    assert np.abs(slopes[b != 0] + first * np.sign(b[b != 0])).max(initial=0) < 1e-7
    assert np.abs(slopes[b == 0]).max(initial=0) <= first + 1e-7


def test_logistic_lasso_is_optimal(found):
    rows, model = data.rows(), found["logistic lasso"]
    b = model["coef_"]
    assert 0 < (b == 0).sum() < len(b)
    check_optimal(gradient(rows, b, model["intercept_"], rows["weight"]), b, 0.03, 1.0)


def test_logistic_path_is_optimal_and_cross_validated(found):
    rows, model = data.rows(), found["logistic cv"]
    ones = np.ones(data.ROWS)
    path = zip(model["alphas_"], model["coef_path_"], model["intercept_path_"])
    for alpha, b, level in path:
        check_optimal(gradient(rows, b, level, ones), b, alpha, 0.5)
    assert (model["coef_path_"][0] == 0).all() and (model["coef_path_"][1] != 0).any()
    # The error of a fold is that of a fit to the rows of the other fold.
    fold = np.arange(data.ROWS) % 2
    alpha = float(model["alphas_"][3])
    other = models.ElasticNet(alpha=alpha, family="binomial")
    other.fit(rows["x"][fold == 1], rows["binary"][fold == 1])
    mean = other.predict(rows["x"][fold == 0])
    y = rows["binary"][fold == 0]
    deviance = -2 * np.mean(y * np.log(mean) + (1 - y) * np.log(1 - mean))
    assert model["mse_path_"][3, 0] == pytest.approx(deviance, rel=1e-8)


def fit_nets():
    """Fit nets of all families to the rows of a rank of three."""
    with open_comm() as comm:
        rows = data.part(comm)
        x, y, count = rows["x"], rows["y"], rows["count"]
        classes = np.array(["few", "some", "many"])[np.minimum(count, 2).astype(int)]
        scaled = models.StandardScaler(comm=comm).fit(x)
        factors = [1.0, 0.0, np.inf] + [3.0] * (x.shape[1] - 3)
        net = functools.partial(models.ElasticNet, comm=comm, l1_ratio=0.5)
        found = {
            "scaled": net(0.1).fit(scaled.transform(x), y),
            "standard": net(0.1, standardize=True).fit(x, y),
            "factors": net(0.1, penalty_factor=factors).fit(x, y),
            "poisson": models.ElasticNet(0.2, comm=comm, l1_ratio=0, family="poisson"),
            "classes": net(0.02, family="multinomial").fit(x, classes),
            "search": models.ElasticNetCV(
                comm=comm, family="multinomial", n_alphas=5, eps=0.05, cv=2, standardize=True
            ).fit(x, classes),
            "counts": models.ElasticNetCV(
                comm=comm, family="poisson", n_alphas=5, eps=0.05, cv=2, penalty_factor=factors
            ).fit(x, count),
        }
        found["poisson"].fit(x, count, rows["weight"])
        return {name: data.results(model) for name, model in found.items()} | {
            "scale": {"scale_": scaled.scale_}
        }


@pytest.fixture(scope="module")
def nets():
    return data.first_of(run(3, fit_nets))


def test_nets_of_standardized_features_and_penalty_factors(nets, found):
    scale = nets["scale"]["scale_"]
    assert nets["standard"]["coef_"] == pytest.approx(nets["scaled"]["coef_"] / scale, abs=1e-9)
    slopes = nets["factors"]["coef_"]
    assert slopes[1] != 0 and slopes[2] == 0
    poisson = found["poisson"]
    assert nets["poisson"]["coef_"] == pytest.approx(poisson["coef_"], abs=1e-12)


def class_gradient(rows, b, level):
    """Return the gradient of the mean loss of classes by the coefficients of each class."""
    x, y = rows["x"], np.minimum(rows["count"], 2).astype(int)
    eta = x @ b.T + level
    mean = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
    chosen = y[:, None] == [0, 2, 1]  # in the order few, many, some
    return (mean - chosen).T @ x / len(x), mean, chosen


def test_nets_of_classes_are_optimal_and_cross_validated(nets):
    rows, model, search = data.rows(), nets["classes"], nets["search"]
    assert model["classes_"].tolist() == ["few", "many", "some"]
    slopes, _, _ = class_gradient(rows, model["coef_"], model["intercept_"])
    for place in range(3):
        check_optimal(slopes[place], model["coef_"][place], 0.02, 0.5)
    assert (search["coef_path_"][0] == 0).all() and (search["coef_path_"][1] != 0).any()
    # The error of a fold is that of a fit to the rows of the other fold.
    fold = np.arange(data.ROWS) % 2
    part = {name: values[fold == 0] for name, values in rows.items()}
    names = np.array(["few", "some", "many"])[np.minimum(rows["count"], 2).astype(int)]
    other = models.ElasticNet(float(search["alphas_"][3]), family="multinomial", standardize=True)
    other.fit(rows["x"][fold == 1], names[fold == 1])
    _, _, chosen = class_gradient(part, other.coef_, other.intercept_)
    mean = other.predict(part["x"])
    deviance = -2 * np.mean(np.log(mean[chosen]))
    assert search["mse_path_"][3, 0] == pytest.approx(deviance, rel=1e-8)
    null = np.array([np.mean(names == name) for name in other.classes_])
    score = other.score(rows["x"], names)
    rest = -2 * np.log(other.predict(rows["x"])[np.arange(data.ROWS), codes_of(names)]).sum()
    assert score == pytest.approx(1 - rest / (-2 * np.log(null[codes_of(names)]).sum()))


def codes_of(names):
    return np.searchsorted(["few", "many", "some"], names)


def test_a_path_of_counts_leaves_features_out(nets):
    path = nets["counts"]["coef_path_"]
    assert (path[:, 2] == 0).all() and (path[:, 1] != 0).all() and (path[-1, 3:] != 0).any()


@pytest.mark.parametrize("factors", [[1, 1], [0, 0, 0], [np.inf] * 3, [1, -1, 1], [np.nan, 1, 1]])
def test_penalty_factors_that_are_none(factors):
    with pytest.raises(sparkring.InvalidError, match="penalty_factor must be 3 numbers from 0 on"):
        models.Lasso(penalty_factor=factors).fit(np.eye(3), [1.0, 2, 3])


def test_digits_at_a_large_condition():
    """Cross products would lose all digits of the smallest singular value."""
    random = np.random.default_rng(3)
    left = np.linalg.qr(random.normal(size=(500, 6)))[0]
    left = np.linalg.qr(left - left.mean(axis=0))[0]
    singular = np.geomspace(1, 1e-8, 6)
    right = np.linalg.qr(random.normal(size=(6, 6)))[0]
    x = left * singular @ right
    b = right.T @ np.ones(6)
    model = models.LinearRegression().fit(x, x @ b)
    assert model.rank_ == 6
    assert model.singular_ == pytest.approx(singular, rel=1e-7, abs=1e-15)
    assert model.predict(x) == pytest.approx(x @ b, abs=1e-14)


ROUNDING = """
import numpy, sparkring, warnings
from sparkring import models
warnings.simplefilter("ignore")  # no convergence
vectors = numpy.random.default_rng(0).normal(size=(200, 101))
print(hash(tuple(vector @ vector for vector in vectors)))
with sparkring.init(timeout=30, call_timeout=20) as comm:
    for seed in range(45, 60):
        random = numpy.random.default_rng((seed, comm.rank))
        x = random.normal(size=(60, 100))
        y = x[:, 0] + random.normal(size=60) > 0
        tol = 1e-16 if seed % 2 else 1e-15
        models.LogisticRegression(comm=comm, C=[0.01, 0.1, 1][seed % 3], tol=tol).fit(x, y)
"""


def test_ranks_of_other_processors_decide_alike():
    """Their sums of BLAS have other bits, by which one rank ended its iterations."""
    kernel = "$(test $SPARKRING_RANK = 0 && echo Haswell || echo Sandybridge)"
    shell = f'export OPENBLAS_CORETYPE={kernel}; exec "$0" -c "$1"'
    job = launch(2, "sh", "-c", shell, sys.executable, ROUNDING)
    assert job.returncode == 0, job.stderr.decode()
    if len({line.split()[-1] for line in job.stdout.splitlines()}) == 1:
        pytest.skip("NumPy's BLAS has the same bits with every OPENBLAS_CORETYPE")


def test_units_of_columns_do_not_count():
    """A small unit made a column dependent, and more so with more rows."""
    rows = data.rows()
    units = np.array([1, 1e-9, 1e-13, 1e9])
    expected = models.LinearRegression().fit(rows["x"], rows["y"])
    x = np.column_stack([rows["x"] * units, np.full(data.ROWS, 0.1)])  # and a constant
    model = models.LinearRegression().fit(x, rows["y"])
    assert model.rank_ == 4
    assert model.coef_[:4] * units == pytest.approx(expected.coef_, rel=1e-8)
    assert abs(model.coef_[4]) < 1e-9


def test_the_shortest_coefficients_of_dependent_columns():
    rows = data.rows()
    x = np.column_stack([rows["x"], rows["x"][:, 0] - rows["x"][:, 1]])
    model = models.LinearRegression().fit(x, rows["y"])
    theirs = linear_model.LinearRegression().fit(x, rows["y"])
    assert model.rank_ == theirs.rank_ == 4
    assert model.coef_ == pytest.approx(theirs.coef_, rel=1e-8)


def test_settings_at_their_limits():
    """A tolerance of 0 keeps no dependent column, flags may be of NumPy, and one step warns."""
    rows = data.rows()
    x = np.column_stack([rows["x"], rows["x"][:, 0] - rows["x"][:, 1]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no change is below 0
        model = models.GeneralizedLinearModel(tol=0, fit_intercept=np.True_, max_iter=5)
        model.fit(x, rows["y"])
    assert model.rank_ == 5 and model.coef_[4] == 0
    assert "(Intercept)" in str(model.summary())
    with pytest.warns(RuntimeWarning, match="Lasso did not converge in 1 iterations"):
        model = models.Lasso(alpha=1e-3, family="binomial", max_iter=1).fit(x, rows["binary"])
    assert not model.converged_


@pytest.mark.parametrize("alpha", [1e-16, 1e-10, 1.0])
@pytest.mark.parametrize("units", [1.0, 10.0])
def test_small_penalties_of_wide_rows(alpha, units):
    """Directions without rows had coefficients of rounding noise."""
    random = np.random.default_rng(4)
    x = random.normal(size=(50, 100)) * units ** random.integers(-1, 2, 100)
    x[:, 7] = 2 * x[:, 3]
    y = x @ random.normal(size=100) + 10
    model = models.Ridge(alpha).fit(x, y)
    theirs = linear_model.Ridge(alpha, solver="svd").fit(x, y)
    assert model.coef_ == pytest.approx(theirs.coef_, rel=1e-8, abs=1e-10)
    assert model.intercept_ == pytest.approx(theirs.intercept_, rel=1e-8)


def test_small_spreads_around_large_means():
    """Columns that doubles hold exactly counted as constant."""
    x = 1.7e18 + 1024 * np.arange(8.0)[:, None]
    assert models.LinearRegression().fit(x, np.arange(8.0)).coef_ == pytest.approx(1 / 1024)
    constant = np.random.default_rng(5).normal(size=30)
    x = np.column_stack([np.tile(constant, (2500, 1)), np.sin(np.arange(2500))])
    assert models.LinearRegression().fit(x, x[:, -1]).rank_ == 1
