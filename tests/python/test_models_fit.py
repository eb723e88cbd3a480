# SPDX-License-Identifier: Apache-2.0
"""Rows and parameters of the models: where they come from, and errors that all ranks raise."""

from __future__ import annotations

import itertools
import subprocess
import sys

import models_data as data
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sparkring
from pyarrow import parquet as pq
from ranks import open_comm, run
from sparkring import models
from sparkring.data import parquet

COLUMNS = ["a", "b", "c", "d"]


def frame_of(rows):
    return pd.DataFrame({**dict(zip(COLUMNS, rows["x"].T)), "y": rows["y"], "w": rows["weight"]})


# ---- Errors


def broken(rank):
    """List fits that are invalid on rank 1 alone or on all ranks, and their errors."""
    rows = data.rows()
    x, y = rows["x"][:50], rows["y"][:50]
    odd = rank == 1
    hole = np.where(np.arange(200).reshape(50, 4) == 42, np.nan, x) if odd else x
    names = ["a", "b", "c", "e"] if odd else COLUMNS
    batch = [(x, y), (x[:, :3] if odd else x, y), (x, y)]
    number = itertools.count()
    turned = data.Batches(batch[::2], lambda batches: [(x + next(number), y) for x, y in batches])
    fewer = data.Batches(batch[::2], lambda batches: batches[: 2 - odd])
    net = models.ElasticNetCV(alphas=[0.1], cv=2)
    linear, kmeans = models.LinearRegression(), models.KMeans(n_clusters=2)
    poisson = models.GeneralizedLinearModel(family="poisson")
    times = np.stack([np.zeros(50), y**2 + 1, np.ones(50)], 1)
    strata = np.ones((50, 1 + odd))
    return [
        (linear, (hole, y), "column 2 of X is NaN.* in 1 row, first in row 10 of this"),
        (linear, (x.astype(f"m8[{'ms' if odd else 's'}]"), y), "X has times of type timedelta64"),
        (linear, (x, y.astype("M8[D]") if odd else y), r"y has times of type datetime64\[D\]"),
        (linear, (x, np.full(50, 1 << 53) if odd else y), r"y has whole numbers of 2\*\*53"),
        (linear, (x[:, : 4 - odd], y), "rank 1 has features .*3.* and rank 0 has .*4"),
        (linear, (pd.DataFrame(x, columns=names), y), "rank 1 has features .*'e'"),
        (linear, (x, y[: 50 - odd]), r"X has 50 rows and y has shape \(49,\)"),
        (linear, (x, np.where(odd, np.inf, y)), "y is inf in row 0"),
        (linear, (x, y, np.full(50, -1.0 if odd else 1)), "sample_weight has negative"),
        (linear, (x, y, np.zeros(50)), "no rows with a weight on any rank"),
        (linear, (x[:0], y[:0]), "no rows on any rank"),
        (linear, (x,), "y is missing"),
        (linear, (["x"] if odd else x, y), "X must be numbers"),
        (
            linear,
            (data.Batches(batch),),
            "a batch has 3 features, and the batches before it have 4",
        ),
        (
            linear,
            (data.Batches([(x, y), (x,) if odd else (x, y)]),),
            "a batch has x, and the batches before it have x, y",
        ),
        (linear, (data.Batches([(x, y, y, y)]),), "a batch is a tuple of 4"),
        (linear, (iter(batch),), "X is an iterator"),
        (linear, (data.Once(batch),), "X does not begin again in each pass"),
        (linear, (data.Once(part for part in batch),), "X does not begin again in each pass"),
        (kmeans, (fewer,), "a pass over the batches of all ranks has 150 rows, .* first .* 200"),
        (net, (turned,), "pass the same batches in the same order in each pass"),
        (linear, (data.Batches([{"x": x, "y": y, "w": y}]),), "a batch has 'w', which this model"),
        (models.PCA(), (data.Batches([(x, y, y)]),), "it takes x$"),
        (linear, (data.Batches(batch), y), "X is batches: each batch has its own y"),
        (models.Ridge(alpha=1.0 + odd), (x, y), "rank 1 has alpha=2.0 and rank 0 has alpha=1.0"),
        (models.Lasso() if odd else linear, (x, y), "rank 1 has estimator='Lasso' and rank 0"),
        (models.Ridge(alpha=-1), (x, y), "alpha is -1: it must be a number from 0 on"),
        (poisson, (x, np.where(odd, -1, 1)[None].repeat(50)), "y is -1.0 in row 0 .*'poisson'"),
        (models.GeneralizedLinearModel(link="logit"), (x, y), "link is 'logit'"),
        (
            models.LogisticRegression(),
            (x, np.arange(50) % 2 + odd / 2),
            "Unknown label type: y has",
        ),
        (
            models.LogisticRegression(),
            (x, np.where(y > 0, b"a", b"b") if odd else y > 0),
            "y must not be of type bytes8",
        ),
        (linear, (x * np.where(odd, 1e160, 1), y), "column 0 of X is NaN, infinite or too large"),
        (models.KMeans(n_clusters=101), (x,), "n_clusters is 101, and there are 100 rows"),
        (models.KMeans(init=x[:2], n_clusters=3), (x,), "init has shape"),
        (kmeans, (hole,), "column 2"),
        (models.PCA(n_components=5), (x,), "n_components is 5"),
        (models.CoxPH(), (x, np.stack([y**2, np.full(50, 1 + odd)], 1)), "the status in y must be"),
        (models.CoxPH(), (data.Batches(batch),), "CoxPH sorts its rows"),
        (models.CoxPH(), (x, times[:, odd:]), "rank 1 has columns of y 2 and rank 0 has 3"),
        (
            models.CoxPH(),
            {"X": x, "y": times, "strata": strata},
            "rank 1 has columns of strata 2 and rank 0 has 1",
        ),
    ]


def fit_broken():
    found = []
    with open_comm() as comm:
        for model, arguments, _ in broken(comm.rank):
            try:
                model.set_params(comm=comm)
                if isinstance(arguments, dict):
                    model.fit(**arguments)
                else:
                    model.fit(*arguments)
                found.append("no error")
            except sparkring.InvalidError as error:
                found.append(str(error))
        try:
            models.quantile(["one"] if comm.rank == 1 else [1], 0.5, comm=comm)
        except sparkring.InvalidError as error:
            found.append(str(error))
        return found, float(comm.allreduce(1.0))  # which still works


def test_errors_of_one_rank_are_raised_on_all():
    found = run(2, fit_broken)
    assert [total for _, total in found] == [2.0, 2.0]
    patterns = [pattern for _, _, pattern in broken(0)] + ["values must be numbers"]
    for texts, _ in found:
        assert len(texts) == len(patterns)
        for text, pattern in zip(texts, patterns):
            with pytest.raises(AssertionError, match=pattern):
                raise AssertionError(text)


LARGE = (1 << 60) + np.arange(8)
WAITS = np.arange(8).astype("m8[s]")


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": LARGE}),
        pd.DataFrame({"a": pd.array(LARGE, "Int64")}),
        pa.table({"a": LARGE}),
        pa.table({"a": LARGE[:, None].tolist()}),
        pd.DataFrame({"a": WAITS}),
        pa.table({"a": WAITS}),
    ],
)
def test_columns_keep_units_and_digits(table):
    """Their doubles had neither: slopes were of other units on other ranks."""
    rest = np.arange(8.0)
    with pytest.raises(sparkring.InvalidError, match=r"2\*\*53|no numbers"):
        models.LinearRegression().fit(table, rest)
    frame = table if isinstance(table, pd.DataFrame) else table.to_pandas()
    if frame["a"].dtype.kind == "O":
        return
    frame = frame.assign(x=rest, status=1.0)
    with pytest.raises(sparkring.InvalidError, match=r"2\*\*53|times of type"):
        models.LinearRegression().fit(frame[["a", "x"]], "a")
    with pytest.raises(sparkring.InvalidError, match=r"2\*\*53|times of type"):
        models.CoxPH().fit(frame, ["a", "status"])


def test_values_keep_units_and_digits():
    rest = np.arange(8.0)
    line = models.LinearRegression().fit(rest[:, None], rest)
    for values, text in (
        (LARGE, r"2\*\*53"),
        (LARGE.astype(object), r"2\*\*53"),
        (LARGE.astype("M8[ns]"), "times of type datetime64"),
        (WAITS.astype("m8[ms]").astype(object), "must be numbers"),
        (np.array([np.timedelta64(1, "s")] * 8, object), "times of type timedelta64"),
        (rest.astype(str), "holds strings"),
    ):
        for attempt in (
            lambda: line.predict(values[:, None]),  # noqa: B023
            lambda: line.score(rest[:, None], values),  # noqa: B023
            lambda: models.quantile(values, 0.5),  # noqa: B023
        ):
            with pytest.raises(sparkring.InvalidError, match=text):
                attempt()
    exact = models.quantile((1 << 53) - 1 - np.arange(8), 1)
    assert exact == (1 << 53) - 1


# ---- Where rows come from


def test_tables_and_names_of_columns():
    rows = data.rows()
    expected = models.LinearRegression().fit(rows["x"], rows["y"], rows["weight"])
    assert not hasattr(expected, "feature_names_in_")
    frame = frame_of(rows)
    arrow = pa.Table.from_pandas(frame)
    vectors = pa.table({"v": rows["x"].tolist(), "y": rows["y"], "w": rows["weight"]})
    for table, names in (
        (frame, COLUMNS),
        (arrow, COLUMNS),
        (vectors, ["v_0", "v_1", "v_2", "v_3"]),
    ):
        model = models.LinearRegression().fit(table, "y", "w")
        assert model.coef_.tobytes() == expected.coef_.tobytes()
        assert model.feature_names_in_.tolist() == names
        assert model.predict(table) == pytest.approx(expected.predict(rows["x"]), rel=1e-12)
    classes = np.where(rows["binary"] > 0, "yes", "no").tolist()  # no names of columns
    for x in (rows["x"], frame[COLUMNS]):
        assert models.LogisticRegression().fit(x, classes).classes_.tolist() == ["no", "yes"]
    model = models.LinearRegression().fit(frame, "y", features=["a", "c"])
    turned = frame[frame.columns[::-1]]
    assert model.predict(turned) == pytest.approx(model.predict(rows["x"][:, [0, 2]]))
    with pytest.raises(sparkring.InvalidError, match="no column 'c'"):
        model.predict(frame[["a", "b"]])
    with pytest.raises(sparkring.InvalidError, match=r"X has 4 features, but .* is expecting 2"):
        model.predict(rows["x"])
    with pytest.raises(sparkring.InvalidError, match="not fitted"):
        models.Ridge().predict(frame)
    with pytest.raises(sparkring.InvalidError, match="column 'a' holds no numbers"):
        models.LinearRegression().fit(frame.assign(a="text"), "y")
    assert models.LinearRegression().fit(frame, "y", features="a").coef_.shape == (1,)
    with pytest.raises(TypeError, match="num_proc"):
        models.LinearRegression().fit(frame, "y", num_proc=2)


def test_columns_of_one_name():
    """Arrow finds no column by a name of two, and pandas finds both."""
    table = pa.table([[1.0, 2.0, 3.0], [2.0, 4.0, 6.5], [9.0, 1.0, 5.0]], ["x", "y", "y"])
    for rows in (table, table.to_pandas()):
        for given in ({"y": "y"}, {"y": "x"}, {"y": "x", "features": ["y"]}):
            with pytest.raises(sparkring.InvalidError, match="several columns of this name, 'y'"):
                models.LinearRegression().fit(rows, **given)


def test_nulls_of_booleans_are_missing():
    """They counted as True."""
    y = np.array([1.0, 1, 0, 1])
    whole, holes = ["t", "t", "f", "t"], ["t", None, "f", None]
    known = {"t": True, "f": False, None: None}
    for make in (
        lambda values: pa.table({"a": pa.array([known[value] for value in values])}),
        lambda values: pd.DataFrame({"a": pd.array([known[value] for value in values], "boolean")}),
        lambda values: pd.DataFrame({"a": [known[value] for value in values]}),
    ):
        model = models.LinearRegression().fit(make(whole), y)
        assert model.coef_ == pytest.approx([1])
        with pytest.raises(sparkring.InvalidError, match=r"column 'a' of X is NaN.* in 2 rows"):
            model.predict(make(holes))
        with pytest.raises(sparkring.InvalidError, match=r"column 'a' of X is NaN.* in 2 rows"):
            models.LinearRegression().fit(make(holes), y)


def test_batches_of_many_forms():
    """Lists, batches without rows, and tables whose columns are in another order."""
    rows = data.rows()
    x, y = rows["x"], rows["y"]
    frame = pd.DataFrame(x, columns=COLUMNS)
    expected = models.LinearRegression().fit(x, y).coef_
    for batches in (
        [(x[:200], y[:200]), (x[200:], y[200:])],
        data.Batches([[x[:200], y[:200]], [x[200:], y[200:]]]),
        data.Batches([(x[:0], y[:0]), (x, y)]),
        data.Batches([(frame[:200], y[:200]), (frame[COLUMNS[::-1]][200:], y[200:])]),
    ):
        assert models.LinearRegression().fit(batches).coef_ == pytest.approx(expected, rel=1e-9)
    other = [(frame[:200], y[:200]), (frame[200:].rename(columns={"a": "z"}), y[200:])]
    with pytest.raises(sparkring.InvalidError, match="no column 'a'"):
        models.LinearRegression().fit(other)


STREAMED = {
    "linear": (models.LinearRegression, {}, {"y": "y", "sample_weight": "weight"}),
    "poisson": (
        models.GeneralizedLinearModel,
        {"family": "poisson"},
        {"y": "count", "offset": "offset", "sample_weight": "weight"},
    ),
    "logistic": (models.LogisticRegression, {}, {"y": "binary"}),
    "net": (models.ElasticNetCV, {"n_alphas": 5}, {"y": "y"}),
    "kmeans": (models.KMeans, {"n_clusters": 3, "random_state": 0}, {}),
    "pca": (models.PCA, {}, {}),
    "scaler": (models.StandardScaler, {}, {"sample_weight": "weight"}),
}


def fit_streamed():
    with open_comm() as comm:
        rows = data.part(comm)
        found = {}
        for name, (kind, params, roles) in STREAMED.items():
            batches = data.batches_of(rows, roles)
            model = kind(comm=comm, **params).fit(batches)
            whole = kind(comm=comm, **params)
            whole.fit(rows["x"], **{role: rows[column] for role, column in roles.items()})
            found[name] = data.results(model)
            found[f"{name} in memory"] = data.results(whole)
            if name == "linear":
                found["passes"] = {"of linear": batches.passes}
        return found


def test_batches_give_the_results_of_rows_in_memory():
    """Also with a rank that has no batches."""
    found = data.first_of(run(3, fit_streamed))
    assert found["passes"]["of linear"] == 2  # the features, and the pass
    for name in STREAMED:
        whole = found[f"{name} in memory"]
        assert found[name].keys() == whole.keys()
        for key, value in whole.items():
            assert found[name][key] == pytest.approx(value, rel=1e-9, abs=1e-12), (name, key)


def fit_parquet(folder):
    with open_comm() as comm:
        columns = {"x": COLUMNS, "y": "y", "sample_weight": "w"}
        with parquet(folder, comm, 32, columns=columns, epochs=None, equalize="pad") as loader:
            model = models.GeneralizedLinearModel(comm=comm).fit(loader)
        return {"model": data.results(model)}


def test_parquet_files_whose_batches_are_padded(tmp_path):
    frame = frame_of(data.rows())
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "rows.parquet", row_group_size=70)
    found = data.first_of(run(2, fit_parquet, str(tmp_path)))["model"]
    expected = models.GeneralizedLinearModel().fit(frame, "y", "w")
    assert found["coef_"] == pytest.approx(expected.coef_, rel=1e-9)
    assert found["n_obs_"] == expected.n_obs_
    assert found["standard_errors_"] == pytest.approx(expected.standard_errors_, rel=1e-9)


def fit_batches(hole):
    """Fit batches that are collective, of which the last of rank 1 has a hole."""
    with open_comm() as comm:
        frame = frame_of(data.rows()).iloc[comm.rank * 500 :][:500]
        if hole and comm.rank == 1:
            frame = frame.assign(a=np.where(np.arange(100) == 99, np.inf, frame["a"]))
        columns = {"x": COLUMNS, "y": "y", "sample_weight": "w"}
        batches = sparkring.data.batches(
            [frame], comm, 64, columns=columns, epochs=None, equalize="join"
        )
        model = models.LinearRegression(comm=comm)
        if not hole:
            return data.results(model.fit(batches))
        with pytest.raises(sparkring.InvalidError, match=r"column 0 of X is NaN, .* row 99 "):
            model.fit(batches)
        return float(comm.allreduce(1.0))


def test_batches_of_partitions():
    """All ranks take all batches, also after an error."""
    rows = data.rows()
    expected = models.LinearRegression().fit(rows["x"], rows["y"], rows["weight"])
    for found in run(2, fit_batches, False):
        assert found["coef_"] == pytest.approx(expected.coef_, rel=1e-9)
    assert run(2, fit_batches, True) == [2.0, 2.0]


# ---- Communicators and imports


def test_the_communicator_is_found(comm):
    rows = data.rows()
    model = models.LinearRegression().fit(rows["x"], rows["y"])  # there can be only one
    assert comm.usable and model.comm is None
    comm.close()
    models.LinearRegression().fit(rows["x"], rows["y"])
    with sparkring.init():  # that of the fit is closed
        pass
    with pytest.raises(sparkring.InvalidError, match="comm is of type int"):
        models.LinearRegression(comm=3).fit(rows["x"], rows["y"])


def test_numpy_is_all_that_is_imported():
    code = "import sys, sparkring; assert 'sparkring.models' not in sys.modules;"
    code += "sparkring.models.LinearRegression().fit([[1], [2], [4]], [1, 2, 3]);"
    code += "print({'pandas', 'pyarrow', 'pyspark', 'scipy', 'sklearn'} & set(sys.modules))"
    job = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert job.stdout == "set()\n"
