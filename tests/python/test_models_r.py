# SPDX-License-Identifier: Apache-2.0
"""Generalized linear models and proportional hazards are those of glm() and coxph() in R."""

from __future__ import annotations

import json
import subprocess
import warnings
from pathlib import Path

import models_data as data
import numpy as np
import pandas as pd
import pytest
import sparkring
from ranks import open_comm, run
from sparkring import models

REFERENCE = Path(__file__).with_name("models.R")
FEATURES = ["a", "b", "c", "d"]
GLMS = {
    "gaussian": ("y", {}, {"sample_weight": "weight"}),
    "binomial": ("binary", {}, {}),
    "probit": ("binary", {"family": "binomial", "link": "probit"}, {}),
    "cloglog": ("binary", {"family": "binomial", "link": "cloglog"}, {"sample_weight": "weight"}),
    "poisson": ("count", {}, {"sample_weight": "weight", "offset": "offset"}),
    "gamma": ("positive", {"link": "log"}, {}),
    "aliased": ("y", {"family": "gaussian"}, {"features": ["a", "ab", "b", "d"]}),
    "inverse": ("response", {"family": "gamma"}, {"features": ["offset"]}),
    "inverse_gaussian": ("positive", {"link": "log"}, {"sample_weight": "more"}),
    "inverse_squared": ("response", {"family": "inverse_gaussian"}, {"features": ["offset"]}),
}
COXPHS = {
    "efron": ({}, {}, ["age", "sex", "ph.ecog"]),
    "breslow": ({"ties": "breslow"}, {}, ["age", "sex", "ph.ecog"]),
    "strata": ({"robust": False}, {"strata": "sex", "sample_weight": "weight"}, ["age", "ph.ecog"]),
    "cluster": ({}, {"cluster": "inst", "sample_weight": "weight"}, ["age", "sex", "ph.ecog"]),
    "strong": ({}, {}, ["late"]),
    "stratas": ({}, {"strata": ["sex", "ph.ecog"]}, ["age"]),
    "fractional": ({}, {"sample_weight": "weight"}, ["age", "ph.ecog"]),
    "scales": ({}, {}, ["revenue", "sex", "ratio"]),
    "constant": ({}, {"strata": "sex"}, ["same", "age", "women"]),
    "near": ({}, {}, ["age", "sex"]),
    "few": ({}, {"cluster": "sex"}, ["age", "ph.ecog", "inst"]),
    "counting": ({}, {"cluster": "id"}, ["age", "year", "surgery", "transplant"]),
}

SURVIVALS = ["efron", "strata", "stratas"]


def table():
    """Make the table of the rows."""
    rows = data.rows()
    columns = dict(zip(FEATURES, rows.pop("x").T))
    columns["ab"] = columns["a"] + columns["b"]
    return pd.DataFrame(
        {**columns, **rows, "response": 1 / (1 + rows["weight"]), "more": rows["weight"] + 1}
    )


def fit_all(folder):
    with open_comm() as comm:
        frame = table().iloc[slice(*data.CUTS[comm.rank : comm.rank + 2])]
        found = {}
        for name, (y, params, arguments) in GLMS.items():
            model = models.GeneralizedLinearModel(comm=comm, **{"family": name, **params})
            model.fit(frame, y, **{"features": FEATURES, **arguments})
            found[name] = {**data.results(model), "printed": str(model.summary())}
        for name, (params, arguments, features) in COXPHS.items():
            y = {"counting": ["start", "stop", "event"], "near": ["near", "status"]}
            rows = pd.read_csv(Path(folder, "heart.csv" if name == "counting" else "lung.csv"))
            if name != "counting":
                rows["women"] = rows["sex"]
                second = np.arange(len(rows)) % 2 == 1
                rows["near"] = np.where(second, rows["time"], (rows["time"] + 0.1) - 0.1)
            cuts = [0, len(rows) // 3, len(rows) // 3, len(rows)]
            rows = rows.iloc[slice(*cuts[comm.rank : comm.rank + 2])]
            model = models.CoxPH(comm=comm, **params).fit(
                rows, y.get(name, ["time", "status"]), **arguments, features=features
            )
            found[name] = {**data.results(model), "printed": str(model.summary())}
            if name in SURVIVALS:
                four = pd.read_csv(Path(folder, "lung.csv")).iloc[:4]
                strata = arguments.get("strata")
                strata = strata and four[strata]
                found[name]["survival"] = model.predict_survival(four, [100, 300, 600], strata)
        return found


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Results of R, and of three ranks of which one has no rows."""
    folder = tmp_path_factory.mktemp("models")
    table().to_csv(folder / "rows.csv", index=False)
    job = subprocess.run(
        ["Rscript", REFERENCE, folder / "rows.csv", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert job.returncode == 0, job.stderr
    theirs = json.loads((folder / "found.json").read_text())
    return theirs, data.first_of(run(3, fit_all, str(folder)))


def near(mine, theirs, rel=1e-8):
    mine, theirs = np.ravel(mine), np.ravel(theirs).astype(float)
    assert mine == pytest.approx(theirs, rel=rel, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("name", GLMS)
def test_generalized_linear_models(results, name):
    theirs, mine = results[0][name], results[1][name]
    near(np.append(mine["intercept_"], mine["coef_"]), theirs["coefficients"])
    near(mine["covariance_"], theirs["covariance"])
    near(mine["standard_errors_"], theirs["errors"])
    near(mine["p_values_"], theirs["p"], rel=1e-6)
    numbers = ("deviance_", "null_deviance_", "aic_", "dispersion_")
    near([mine[number] for number in numbers], theirs["deviance"])
    counts = ("df_residual_", "df_null_", "rank_", "n_iter_")
    assert [mine[count] for count in counts] == [int(count) for count in theirs["freedom"]]


@pytest.mark.parametrize("name", COXPHS)
def test_proportional_hazards(results, name):
    theirs, mine = results[0][name], results[1][name]
    near(mine["coef_"], theirs["coefficients"])
    near(mine["covariance_"], theirs["covariance"])
    near([mine["null_log_likelihood_"], mine["log_likelihood_"]], theirs["loglik"])
    numbers = ("score_test_", "wald_test_", "n_iter_", "n_obs_", "n_events_")
    near([*(mine[number] for number in numbers), *mine["means_"]], theirs["tests"])


@pytest.mark.parametrize("name", SURVIVALS)
def test_survival(results, name):
    near(results[1][name]["survival"].T, results[0]["survival"][name])


def lines_of(text, first):
    """Return the lines from the first with this beginning on, without spaces at their ends."""
    lines = [line.replace("\u2018", "'").replace("\u2019", "'").rstrip() for line in text]
    lines = [line.partition(",   Robust")[0] for line in lines]
    start = next(place for place, line in enumerate(lines) if line.startswith(first))
    end = next((place for place, line in enumerate(lines) if "(Note:" in line), None)
    return [line for line in lines[start:end] if line and not line.startswith("Concordance")]


@pytest.mark.parametrize("name", GLMS)
def test_summaries_of_generalized_linear_models(results, name):
    """Nothing but the call differs."""
    theirs, mine = results[0][name]["printed"], results[1][name]["printed"].splitlines()
    assert lines_of(mine, "Coefficients") == lines_of(theirs, "Coefficients")


@pytest.mark.parametrize("name", ["efron", "cluster", "strong", "fractional"])
def test_summaries_of_proportional_hazards(results, name):
    theirs, mine = results[0][name]["printed"], results[1][name]["printed"].splitlines()
    assert lines_of(mine, "  n=") == lines_of(theirs, "  n=")


def test_separated_rows_have_no_likelihood_left():
    """The logarithm ends at 0, by which nothing can be divided."""
    y = np.array([[4.0, 1], [3, 1], [2, 1], [1, 1]])
    with pytest.warns(RuntimeWarning, match="coefficients of x0, which may be infinite"):
        model = models.CoxPH(max_iter=50).fit(np.arange(4.0)[:, None], y)
    assert model.log_likelihood_ == 0 and model.coef_[0] > 20


@pytest.mark.parametrize("y", [[[5.0, 1]], [[1.0, 0], [2, 0], [3, 0]], [4.0, 2, 1]])
def test_rows_without_information(y):
    """One row, no events, and times alone with a constant column, as coxph() has them."""
    model = models.CoxPH().fit(np.full((len(y), 1), 0.1), y)
    assert model.coef_ == 0 and np.isnan(model.standard_errors_) and model.rank_ == 0
    assert model.n_events_ == (3 if np.ndim(y) == 1 else np.sum(np.array(y)[:, 1]))
    assert "Likelihood ratio test= 0  on 0 df,   p=1" in str(model.summary())


def test_an_offset_is_a_feature_with_the_coefficient_1():
    random = np.random.default_rng(4)
    x = random.normal(size=(200, 3))
    y = np.column_stack([random.exponential(np.exp(-x[:, 0])), random.random(200) < 0.8])
    whole = models.CoxPH().fit(x, y)
    offset = x[:, 0] * whole.coef_[0]
    part = models.CoxPH().fit(x[:, 1:], y, offset=offset)
    assert part.coef_ == pytest.approx(whole.coef_[1:], rel=1e-8)
    assert part.log_likelihood_ == pytest.approx(whole.log_likelihood_, rel=1e-12)
    center = x[:, 0].mean() * whole.coef_[0]
    assert part.predict(x[:, 1:], offset) == pytest.approx(whole.predict(x) + center, rel=1e-6)
    survival = part.predict_survival(x[:, 1:], [0.1, 0.5], offset=offset)
    assert survival == pytest.approx(whole.predict_survival(x, [0.1, 0.5]), rel=1e-7)
    score = part.score(x[:, 1:], y, offset=offset)
    assert score == pytest.approx(whole.score(x, y))
    frame = pd.DataFrame({"a": x[:, 1], "b": x[:, 2], "o": offset, "t": y[:, 0], "s": y[:, 1]})
    named = models.CoxPH().fit(frame, ["t", "s"], offset="o")
    assert named.coef_.tolist() == part.coef_.tolist()


def fit_chains():
    """Fit times of chains that go over ranks, of which one has no rows, and some share none."""
    with open_comm() as comm:
        steps = np.arange(40) * 1e-8  # one chain, and single times
        times = np.concatenate([1 + steps, np.arange(2.0, 22)])
        own = slice(*[0, 30, 30, 60][comm.rank : comm.rank + 2])
        x = np.sin(np.arange(60))[:, None]
        shuffled = np.random.default_rng(0).permutation(60)
        near = models.CoxPH(comm=comm).fit(x[own], times[shuffled][own])
        equal = np.where(times < 2, 1.0, times)
        exact = models.CoxPH(comm=comm, timefix=False).fit(x[own], equal[shuffled][own])
        y = np.column_stack([times, times + 1e-9, np.ones(60)])
        with pytest.raises(sparkring.InvalidError, match="an interval in y has no length"):
            models.CoxPH(comm=comm).fit(x[own], y[own])
        return {"near": data.results(near), "exact": data.results(exact)}


def test_times_that_arithmetic_made_are_equal():
    found = data.first_of(run(3, fit_chains))
    for key, value in found["exact"].items():
        assert np.array_equal(found["near"][key], value), key


SATURATED = """Coefficients: (1 not defined because of singularities)
            Estimate Std. Error t value Pr(>|t|)
(Intercept)        3        NaN     NaN      NaN
x0                -2        NaN     NaN      NaN
x1                -1        NaN     NaN      NaN
x2                NA         NA      NA       NA

(Dispersion parameter for gaussian family taken to be NaN)"""


def test_nothing_left_to_explain():
    """As many coefficients as rows, one row, and constant responses, as glm() has them."""
    x = np.column_stack([[1.0, 0, 0], [0, 1, 0], [1, 1, 0]])
    model = models.GeneralizedLinearModel().fit(x, [1, 2, 3])
    assert SATURATED in str(model.summary())
    assert model.aliased_.tolist() == [False, False, False, True]
    model.fit(np.ones((1, 1)), [2])
    assert (model.intercept_, model.coef_[0], model.aic_) == (2, 0, -np.inf)
    assert "AIC: -Inf" in str(model.summary())
    for family in ("gamma", "inverse_gaussian", "poisson", "binomial"):
        model = models.GeneralizedLinearModel(family=family)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # probabilities of 1
            model.fit(x[:, :1] + x[:, 1:2], np.ones(3))
        assert model.predict(x[:, :1]) == pytest.approx(1)
        assert model.null_deviance_ == pytest.approx(0, abs=1e-12)
        assert model.deviance_ == pytest.approx(0, abs=1e-8)
