# SPDX-License-Identifier: Apache-2.0
"""Estimators in scikit-learn's tools, as pickles and in files."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import models_data as data
import numpy as np
import pandas as pd
import pytest
import sklearn
import sparkring
from ranks import open_comm, run
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sparkring import models

FITS = {
    models.LinearRegression: ({}, "y"),
    models.Ridge: ({"alpha": 2.0}, "y"),
    models.GeneralizedLinearModel: ({"family": "poisson"}, "count"),
    models.PoissonRegressor: ({}, "count"),
    models.LogisticRegression: ({"C": 0.5}, "text"),
    models.ElasticNet: ({"alpha": 0.1}, "y"),
    models.Lasso: ({"alpha": 0.1, "family": "binomial"}, "binary"),
    models.ElasticNetCV: ({"n_alphas": 3, "alphas": [0.1, 0.2]}, "y"),
    models.CoxPH: ({"ties": "breslow"}, "times"),
    models.KMeans: ({"n_clusters": 3, "init": data.rows()["x"][:3]}, None),
    models.PCA: ({"n_components": 2}, None),
    models.TruncatedSVD: ({}, None),
    models.StandardScaler: ({}, None),
}


def fitted(kind):
    params, y = FITS[kind]
    rows = data.rows()
    rows["text"] = np.where(rows["binary"] > 0, "yes", "no")
    rows["times"] = np.column_stack([rows["positive"], rows["binary"]])
    frame = pd.DataFrame(rows["x"], columns=["a", "b", "c", "d"])
    return kind(**params).fit(frame, *([] if y is None else [rows[y]])), frame


def test_all_estimators_are_here():
    names = set(models.__all__) - {"Summary", "load", "quantile", "table"}
    assert names == {kind.__name__ for kind in FITS}


@pytest.mark.parametrize("kind", FITS, ids=lambda kind: kind.__name__)
def test_copies_pickles_and_files(kind, tmp_path, comm):
    model, frame = fitted(kind)
    model.comm = comm
    path = tmp_path / "model"
    model.save(path)
    method = "predict" if hasattr(model, "predict") else "transform"
    expected = getattr(model, method)(frame)
    for other in (pickle.loads(pickle.dumps(model)), models.load(path)):
        assert type(other) is kind and other.comm is None
        assert vars(other).keys() == vars(model).keys()
        assert repr(other) == repr(model)
        assert np.array_equal(getattr(other, method)(frame), expected)
    copied = clone(model)
    assert copied.comm is comm and data.results(copied) == {}
    assert repr(copied) == repr(model)
    for other in (copy.copy(model), copy.deepcopy(model)):
        assert other.comm is comm and data.results(other).keys() == data.results(model).keys()
    state = {name: value for name, value in model.__getstate__().items() if name != "comm"}
    params = set(model.get_params()) - {"comm"}
    old = kind.__new__(kind)  # of a version without parameters
    old.__setstate__({name: value for name, value in state.items() if name not in params})
    assert set(old.get_params()) - {"comm"} == params
    with pytest.raises(sparkring.InvalidError, match="no parameter 'wrong'"):
        model.set_params(wrong=1)


def test_files_are_checked(tmp_path):
    path = tmp_path / "model"
    fitted(models.Ridge)[0].save(path)
    half = path.read_bytes()[:300]
    np.save(tmp_path / "array.npy", np.ones(3))
    for content in ((tmp_path / "array.npy").read_bytes(), b"", half, b"nothing"):
        path.write_bytes(content)
        with pytest.raises(sparkring.InvalidError, match="no file of an estimator"):
            models.load(path)
    with pytest.raises(OSError, match="absent"):
        models.load(tmp_path / "absent")
    model = models.LinearRegression()
    model.fit_intercept = {1}
    with pytest.raises(sparkring.InvalidError, match="cannot be saved"):
        model.save(path)
    assert path.read_bytes() == b"nothing"


def test_all_ranks_may_save_to_one_file(tmp_path):
    """They wrote one temporary file, which some did not find."""
    model, _ = fitted(models.PCA)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(model.save, [tmp_path / "model"] * 64))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert np.array_equal(models.load(tmp_path / "model").components_, model.components_)


def test_pipelines_and_searches():
    rows = data.rows()
    pipeline = make_pipeline(
        models.StandardScaler(), models.PCA(n_components=3), models.LogisticRegression()
    )
    search = GridSearchCV(pipeline, {"logisticregression__C": [1e-6, 1.0]}, cv=3)
    search.fit(rows["x"], rows["binary"])
    assert search.best_params_ == {"logisticregression__C": 1.0}
    assert search.score(rows["x"], rows["binary"]) > 0.55
    assert list(pipeline[:-1].fit(rows["x"]).get_feature_names_out()) == ["pca0", "pca1", "pca2"]
    probabilities = search.predict_proba(rows["x"])
    assert probabilities.sum(axis=1) == pytest.approx(1)
    assert ((probabilities[:, 1] > 0.5) == search.predict(rows["x"])).all()


def test_containers_of_transformed_rows(tmp_path):
    """As scikit-learn chooses them, for a pipeline or by its settings."""
    _, frame = fitted(models.PCA)
    frame.index += 5
    pipeline = make_pipeline(models.StandardScaler(), models.PCA(n_components=2))
    plain = pipeline.fit_transform(frame)
    assert isinstance(plain, np.ndarray)
    found = clone(pipeline.set_output(transform="pandas")).fit_transform(frame)
    assert found.equals(pd.DataFrame(plain, frame.index, ["pca0", "pca1"]))
    pipeline[-1].save(tmp_path / "model")
    again = models.load(tmp_path / "model").set_output()
    assert list(again.transform(plain_of(pipeline, frame))) == ["pca0", "pca1"]
    distances, _ = fitted(models.KMeans)
    with sklearn.config_context(transform_output="pandas"):
        assert list(distances.transform(frame)) == ["kmeans0", "kmeans1", "kmeans2"]
        assert isinstance(again.set_output(transform="default").transform(frame), np.ndarray)
    with pytest.raises(sparkring.InvalidError, match="transform is 'arrow'"):
        again.set_output(transform="arrow")


def plain_of(pipeline, frame):
    """Return the rows that the last step gets, without names."""
    return pipeline[0].transform(frame).to_numpy()


def search():
    """Search on ranks that would choose different parameters alone."""
    with open_comm() as comm:
        random = np.random.default_rng(comm.rank)
        x = random.normal(size=(60, 3))
        y = x.sum(axis=1) * (1 if comm.rank == 0 else -0.3)
        grid = {"alpha": [1e-3, 60]}
        ridge = models.Ridge(comm=comm)
        with pytest.raises(sparkring.InvalidError, match="rank 1 has alpha=60"):
            GridSearchCV(ridge, grid, cv=3).fit(x, y)
        scoring = lambda model, x, y: comm.allreduce(model.score(x, y), op="avg")  # noqa: E731
        return GridSearchCV(ridge, grid, cv=3, scoring=scoring).fit(x, y).best_params_


def test_ranks_search_together():
    first, second = run(2, search)
    assert first == second


def test_kinds():
    assert is_classifier(models.LogisticRegression()) and is_regressor(models.CoxPH())
    assert get_tags(models.KMeans()).estimator_type == "clusterer"
    assert get_tags(models.Ridge()).target_tags.required
    assert get_tags(models.PCA()).transformer_tags is not None


def test_scores():
    model, frame = fitted(models.Ridge)
    y = data.rows()["y"]
    rest = np.sum((y - model.predict(frame)) ** 2)
    assert model.score(frame, y) == pytest.approx(1 - rest / np.sum((y - y.mean()) ** 2))
    model, frame = fitted(models.GeneralizedLinearModel)
    explained = 1 - model.deviance_ / model.null_deviance_
    assert model.score(frame, data.rows()["count"]) == pytest.approx(explained)
    model, frame = fitted(models.CoxPH)
    rows = data.rows()
    times = np.column_stack([rows["positive"], rows["binary"]])
    assert 0.5 < model.score(frame, times) < 0.9
    with pytest.raises(sparkring.InvalidError, match=r"y has shape \(600, 3\)"):
        model.score(frame, np.column_stack([times, times[:, 1]]))


def test_responses_of_scores():
    """Columns of one value, offsets, constants and other lengths."""
    rows = data.rows()
    x, y, count, offset = rows["x"], rows["y"], rows["count"], rows["offset"]
    linear = models.LinearRegression().fit(x, y[:, None])
    assert linear.score(x, y[:, None]) == linear.score(x, y)
    assert linear.score(x, np.ones(data.ROWS)) == 0
    with pytest.raises(sparkring.InvalidError, match=r"X has 600 rows and y has shape \(599,\)"):
        linear.score(x, y[1:])
    logistic = models.LogisticRegression().fit(x, rows["binary"])
    assert logistic.score(x, rows["binary"][:, None]) == logistic.score(x, rows["binary"])
    with pytest.raises(sparkring.InvalidError, match=r"NaN, .* in 1 row, first in row 2"):
        logistic.predict(np.where(np.arange(data.ROWS)[:, None] == 2, np.nan, x))
    poisson = models.GeneralizedLinearModel(family="poisson").fit(x, count, offset=30 * offset)
    assert poisson.score(x, count, offset=30 * offset) > poisson.score(x, count)
    assert poisson.score(x, np.ones(data.ROWS)) == 0


def test_scikit_learn_is_not_needed():
    """Nor SciPy: they cannot be imported here."""
    code = """
import sys
sys.modules.update(sklearn=None, scipy=None, pandas=None, pyarrow=None)
import numpy, pickle
from sparkring.models import GeneralizedLinearModel, StandardScaler
x = numpy.arange(12.0).reshape(6, 2) ** 2
x = StandardScaler().fit_transform(x)
model = GeneralizedLinearModel().fit(x, [1, 2, 2, 3, 5, 4])
print(pickle.loads(pickle.dumps(model)).summary())
"""
    job = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert job.returncode == 0, job.stderr
    assert "(Dispersion parameter for gaussian family taken to be" in job.stdout
    assert "NaN: the p-values of t tests need SciPy: pip install scipy" in job.stdout


def test_first_parameters_are_positional():
    """As those of scikit-learn."""
    for kind, value in (
        (models.PCA, 2),
        (models.TruncatedSVD, 3),
        (models.KMeans, 4),
        (models.Ridge, 0.5),
        (models.Lasso, 0.1),
        (models.ElasticNet, 0.2),
        (models.LogisticRegression, None),
    ):
        name = kind._names()[0]
        assert (
            kind(value).get_params()[name] == value
            and repr(kind(value)) == f"{kind.__name__}({name}={value!r})"
        )
