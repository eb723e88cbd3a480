# SPDX-License-Identifier: Apache-2.0
"""The estimators keep the rules of scikit-learn's check_estimator, but for those listed here."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings

import models_data as data
import numpy as np
import polars
import pytest
import sparkring
from ranks import open_comm, run
from scipy import sparse
from sklearn import linear_model
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import check_estimator
from sparkring import models

COLUMN = {
    "check_supervised_y_2d": "a column of responses is a response for each row: nothing to warn of"
}
WEIGHTS = ("check_sample_weight_equivalence_on_dense_data",)
WEIGHTS += ("check_sample_weight_equivalence_on_sparse_data",)
ALL = {"check_dtype_object": "invalid rows are an InvalidError, a ValueError, on every rank"}
EXPECTED = {
    models.CoxPH: {
        **ALL,
        **COLUMN,
        **dict.fromkeys(WEIGHTS, "repeated rows are tied, and a row with a weight is not"),
    },
    models.ElasticNet: {**ALL, **COLUMN},
    models.ElasticNetCV: {
        **ALL,
        **COLUMN,
        **dict.fromkeys(WEIGHTS, "cv is a number: lists of rows have no meaning on several ranks"),
    },
    models.GeneralizedLinearModel: {**ALL, **COLUMN},
    models.KMeans: {
        **ALL,
        **dict.fromkeys(WEIGHTS, "the start is drawn by row, as in scikit-learn"),
    },
    models.Lasso: {**ALL, **COLUMN},
    models.LinearRegression: {**ALL, **COLUMN},
    models.LogisticRegression: {**ALL, **COLUMN},
    models.PCA: ALL,
    models.PoissonRegressor: {**ALL, **COLUMN},
    models.Ridge: {**ALL, **COLUMN},
    models.StandardScaler: ALL,
    models.TruncatedSVD: ALL,
}


def test_all_estimators_are_listed():
    names = set(models.__all__) - {"Summary", "load", "quantile", "table"}
    assert names == {kind.__name__ for kind in EXPECTED}


def quick(kind):
    """Return an estimator; of penalties some."""
    return kind(n_alphas=5) if kind is models.ElasticNetCV else kind()


@pytest.mark.parametrize("kind", EXPECTED, ids=lambda kind: kind.__name__)
def test_check_estimator(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            quick(kind), expected_failed_checks=EXPECTED[kind], on_fail=None, on_skip=None
        )
    failed = {
        part["check_name"]: part["exception"] for part in results if part["status"] == "failed"
    }
    assert failed == {}
    assert {part["check_name"] for part in results if part["status"] == "xfail"} == set(
        EXPECTED[kind]
    )


def test_errors_and_warnings_of_scikit_learn():
    with pytest.raises(NotFittedError, match="not fitted: call fit") as caught:
        models.Ridge().predict([[1.0]])
    assert isinstance(caught.value, sparkring.InvalidError)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), NotFittedError)
    rows = data.rows()
    with pytest.warns(ConvergenceWarning, match="Lasso did not converge in 1 iterations"):
        models.Lasso(1e-3, family="binomial", max_iter=1).fit(rows["x"], rows["binary"])
    code = "from sparkring.models import *\ntry: PCA(2).transform([[1.0]])\n"
    code += "except Exception as error: print(type(error).__mro__[1].__name__)"
    job = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert job.stdout == "InvalidError\n"


def test_missing_values_have_no_prediction():
    rows = data.rows()
    hole = np.where(np.arange(data.ROWS)[:, None] == 2, np.nan, rows["x"])
    for model, y in (
        (models.LinearRegression(), rows["y"]),
        (models.LogisticRegression(), rows["binary"]),
        (models.KMeans(2), None),
        (models.CoxPH(), rows["positive"]),
    ):
        model.fit(rows["x"], y)
        for x in (hole, sparse.csr_matrix(hole)):
            with pytest.raises(
                sparkring.InvalidError, match=r"column 0 .* in 1 row, first in row 2"
            ):
                model.predict(x)
    with pytest.raises(sparkring.InvalidError, match="column 0 of X is NaN"):
        models.PCA(2).fit(rows["x"]).transform(hole)


# ---- Sparse rows


def few():
    """Return sparse rows, and rows of them as a rank of three has them."""
    x = data.rows()["x"] - data.FAR
    return np.where(np.abs(x) > 1, x, 0)


def fit_sparse():
    with open_comm() as comm:
        own, rows = slice(*data.CUTS[comm.rank : comm.rank + 2]), data.part(comm)
        found = {}
        for name, convert in (("dense", np.asarray), ("sparse", sparse.csr_matrix)):
            x = convert(few()[own])
            linear = models.LinearRegression(comm=comm).fit(x, rows["y"], rows["weight"])
            found[f"linear {name}"] = data.results(linear)
            net = models.ElasticNetCV(comm=comm, n_alphas=3, cv=2).fit(x, rows["y"])
            found[f"net {name}"] = data.results(net)
        hole = sparse.csr_array(np.where((few() > 2) & (comm.rank == 2), np.inf, few())[own])
        with pytest.raises(sparkring.InvalidError, match="column 0 of X is NaN, infinite"):
            models.PCA(comm=comm).fit(hole)
        return found


def test_sparse_rows():
    found = data.first_of(run(3, fit_sparse))
    for kind in ("linear", "net"):
        for key, value in found[f"{kind} dense"].items():
            near = pytest.approx(value, rel=1e-12, abs=1e-12)
            assert found[f"{kind} sparse"][key] == near, (kind, key)
    x, y = few(), data.rows()["y"]
    for convert in (sparse.coo_matrix, sparse.csc_array, sparse.lil_matrix):
        model = models.KMeans(2, init=x[:2]).fit(convert(x))
        assert (model.predict(convert(x)) == model.labels_).all()
    batches = data.Batches([(sparse.csr_matrix(x[:200]), y[:200]), (x[200:], y[200:])])
    expected = models.Ridge().fit(x, y)
    assert models.Ridge().fit(batches).coef_ == pytest.approx(expected.coef_, rel=1e-9)


def test_pipelines_of_one_hot_columns():
    colors = np.array(["red", "green", "blue"])[data.rows()["weight"].astype(int) % 3][:, None]
    y = data.rows()["y"]
    mine = make_pipeline(OneHotEncoder(), models.Ridge()).fit(colors, y)
    theirs = make_pipeline(OneHotEncoder(), linear_model.Ridge()).fit(colors, y)
    assert mine.predict(colors) == pytest.approx(theirs.predict(colors), rel=1e-10)
    many = make_pipeline(OneHotEncoder(), models.LogisticRegression()).fit(colors, colors[:, 0])
    assert many.score(colors, colors[:, 0]) == 1


# ---- Several classes

CLASSES = np.array(["one", "three", "two"])
SETTINGS = [{}, {"C": 0.01}, {"penalty": None}, {"fit_intercept": False, "C": 10}]


def classified():
    """Return the classes, of which the first rank has two."""
    random, rows = np.random.default_rng(1), data.rows()
    scores = rows["x"] @ random.normal(size=(4, 3)) + 2 * random.gumbel(size=(data.ROWS, 3))
    scores[: data.CUTS[1], 2] = -np.inf
    return CLASSES[(scores - np.where(np.isinf(scores), 0, scores.mean(axis=0))).argmax(axis=1)]


def fit_classes():
    with open_comm() as comm:
        own, rows = slice(*data.CUTS[comm.rank : comm.rank + 2]), data.part(comm)
        found = {}
        for place, settings in enumerate(SETTINGS):
            model = models.LogisticRegression(comm=comm, **settings)
            model.fit(rows["x"], classified()[own], rows["weight"])
            found[str(place)] = data.results(model)
        with pytest.raises(sparkring.InvalidError, match="Unknown label type: y has"):
            model.fit(rows["x"], rows["y"] // 1 + 0.5 * (comm.rank == 2))
        with pytest.raises(sparkring.InvalidError, match="y has 1 class on all ranks"):
            model.fit(rows["x"], np.ones(len(rows["x"])))
        return found


def test_logistic_regression_of_three_classes():
    found, rows, y = data.first_of(run(3, fit_classes)), data.rows(), classified()
    for place, settings in enumerate(SETTINGS):
        theirs = linear_model.LogisticRegression(
            **settings, solver="newton-cg", tol=1e-12, max_iter=10_000
        )
        middle = data.FAR * settings.get("fit_intercept", True)
        theirs.fit(rows["x"] - middle, y, rows["weight"])
        mine = found[str(place)]
        assert mine["classes_"].tolist() == CLASSES.tolist()
        assert mine["coef_"] == pytest.approx(theirs.coef_, rel=1e-8, abs=1e-9)
        shifted = mine["intercept_"] + mine["coef_"] @ middle
        assert shifted == pytest.approx(theirs.intercept_, rel=1e-8, abs=1e-8)
    x = np.column_stack([rows["x"], np.full(data.ROWS, 0.1), np.zeros(data.ROWS)])
    model = models.LogisticRegression(None).fit(x, y)
    assert (model.coef_[:, 4:] == 0).all()  # the intercept has what is constant
    expected = models.LogisticRegression(None).fit(rows["x"], y)
    assert model.coef_[:, :4] == pytest.approx(expected.coef_, rel=1e-8)
    model = models.LogisticRegression().fit(rows["x"], y)
    chances = model.predict_proba(rows["x"])
    assert chances.sum(axis=1) == pytest.approx(1)
    assert (CLASSES[chances.argmax(axis=1)] == model.predict(rows["x"])).all()
    assert model.decision_function(rows["x"]).shape == (data.ROWS, 3)


# ---- Tables of polars


def test_tables_of_polars():
    rows = data.rows()
    table = polars.DataFrame({**dict(zip("abcd", rows["x"].T)), "y": rows["y"]})
    table = table.with_columns(kind=polars.Series(np.where(rows["binary"] > 0, "yes", "no")))
    expected = models.LinearRegression().fit(rows["x"], rows["y"])
    model = models.LinearRegression().fit(table, "y", features=list("abcd"))
    assert model.coef_ == pytest.approx(expected.coef_, rel=1e-12)
    assert model.predict(table) == pytest.approx(expected.predict(rows["x"]), rel=1e-12)
    assert models.LinearRegression().fit(table[:, :4], table["y"]).rank_ == 4
    logistic = models.LogisticRegression().fit(table, "kind", features=["a"])
    assert logistic.classes_.tolist() == ["no", "yes"]
    scaler = models.StandardScaler().set_output(transform="polars").fit(table[:, :4])
    scaled = scaler.transform(table[:, :4])
    assert isinstance(scaled, polars.DataFrame) and scaled.columns == list("abcd")
    assert scaled["b"].std(ddof=0) == pytest.approx(1)
    decimals = table.with_columns(polars.col("a").cast(polars.Decimal(20, 3)))
    rounded = models.LinearRegression().fit(decimals, "y", features=["a"]).coef_
    assert rounded == pytest.approx([0.5], abs=0.2)
    with pytest.raises(sparkring.InvalidError, match=r"X is a lazy table: pass X\.collect"):
        models.PCA().fit(table[:, :4].lazy())
    holes = table.with_columns(a=polars.when(polars.col("a") > 100).then("a"))
    with pytest.raises(sparkring.InvalidError, match="column 'a' of X is NaN"):
        model.predict(holes)
