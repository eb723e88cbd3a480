# SPDX-License-Identifier: Apache-2.0
"""sparkring.models on DataFrames of Spark: fits as barrier stages, and lazy predictions."""

import numpy as np
import pytest
import sparkring
from conftest import FRAMES, TWO_EXECUTORS
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import functions
from sparkring import models

pytestmark = [FRAMES, pytest.mark.parametrize("spark", [TWO_EXECUTORS], indirect=True)]
FEATURES = ["a", "b"]


@pytest.fixture(scope="module")
def rows(spark):
    """A table on three partitions of which one is empty, and the same rows as pandas."""
    numbers = spark.range(0, 400, 1, 4).where("id < 100 OR id >= 200")
    frame = numbers.selectExpr(
        "id",
        "sin(id) AS a",
        "cos(3 * id) + id / 100 AS b",
        "2 * sin(id) - cos(3 * id) + sin(id * id) AS y",
        "1 + id % 3 AS w",
        "CASE WHEN sin(id) + sin(id * id) > 0 THEN 'yes' ELSE 'no' END AS c",
    )
    yield frame.cache(), frame.toPandas()
    frame.unpersist()


def column_of(frame, name):
    return np.array([row[name] for row in frame.orderBy("id").select(name).collect()])


def columns_of(frame, *names):
    rows = frame.orderBy("id").select(*names).collect()
    return [np.array([row[name] for row in rows]) for name in names]


def jobs_of(spark):
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup())


def test_models_of_frames(spark, rows):
    frame, table = rows
    linear = models.LinearRegression().fit(frame, "y", "w", features=FEATURES)
    here = models.LinearRegression().fit(table, "y", "w", features=FEATURES)
    assert linear.comm is None and linear.feature_names_in_.tolist() == FEATURES
    assert linear.coef_ == pytest.approx(here.coef_, rel=1e-10)
    logistic = models.LogisticRegression().fit(frame, "c", features=FEATURES, num_proc=2)
    kmeans = models.KMeans(n_clusters=3, random_state=0).fit(frame, features=FEATURES)
    assert not hasattr(kmeans, "labels_")

    before = jobs_of(spark)
    predicted = linear.predict(frame)
    assert predicted.columns == [*frame.columns, "prediction"]
    predicted = kmeans.transform(logistic.predict_proba(predicted))
    predicted = logistic.predict(predicted.withColumnRenamed("prediction", "linear"))
    predicted = kmeans.predict(predicted.withColumnRenamed("prediction", "class"))
    assert jobs_of(spark) == before  # the columns are lazy
    names = ("linear", "class", "probability", "prediction", "transformed")
    value, kind, probability, cluster, distances = columns_of(predicted, *names)
    assert value == pytest.approx(here.predict(table), rel=1e-10)
    assert kind.tolist() == logistic.predict(table).tolist()
    assert set(kind) == {"yes", "no"}
    assert probability == pytest.approx(logistic.predict_proba(table), rel=1e-9)
    assert (cluster == distances.argmin(axis=1)).all()
    hole = frame.withColumn("a", functions.expr("if(id = 250, NULL, a)"))
    absent = logistic.predict(hole).where("prediction IS NULL")  # no class is a guess
    assert [row.id for row in absent.collect()] == [250]


def test_vectors_are_features(rows):
    frame, table = rows
    vectors = VectorAssembler(inputCols=FEATURES, outputCol="v").transform(frame).drop("a", "b")
    model = models.Ridge().fit(vectors, "y", features=["v"])
    here = models.Ridge().fit(table, "y", features=FEATURES)
    assert model.coef_ == pytest.approx(here.coef_, rel=1e-10)
    predicted = model.predict(vectors)
    assert predicted.schema["v"] == vectors.schema["v"]
    assert columns_of(predicted, "prediction")[0] == pytest.approx(here.predict(table), rel=1e-10)


def test_columns_of_any_name_and_decimals(rows):
    frame, table = rows
    named = frame.selectExpr(
        "id", "a AS `x.a`", "CAST(b AS decimal(20, 15)) AS `b``q`", "y", "y AS Y2"
    )
    model = models.LinearRegression().fit(named, "y", features=["x.a", "b`q"])
    here = models.LinearRegression().fit(table, "y", features=FEATURES)
    assert model.coef_ == pytest.approx(here.coef_, rel=1e-10)
    predicted = model.predict(named)
    assert columns_of(predicted, "prediction")[0] == pytest.approx(here.predict(table), rel=1e-9)
    with pytest.raises(sparkring.InvalidError, match="has a column 'prediction' already"):
        model.predict(predicted.withColumnRenamed("prediction", "Prediction"))
    twice = named.withColumnRenamed("Y2", "x.a")
    with pytest.raises(sparkring.InvalidError, match=r"has 2 columns 'x\.a': rename or drop one"):
        model.fit(twice, "y", features=["x.a"])


def test_errors_come_before_a_stage_or_from_a_rank(rows):
    frame, table = rows
    model = models.LinearRegression()
    with pytest.raises(sparkring.InvalidError, match="no column 'z': the DataFrame has"):
        model.fit(frame, "z")
    with pytest.raises(sparkring.InvalidError, match="y must be the name of a column"):
        model.fit(frame, table["y"])
    with pytest.raises(sparkring.InvalidError, match="not fitted to a table"):
        models.PCA().fit(table[FEATURES].to_numpy()).transform(frame)
    hole = frame.withColumn("a", functions.expr("if(id = 250, NULL, a)"))
    with pytest.raises(sparkring.InvalidError, match="column 'a' of X is NaN"):
        model.fit(hole, "y", features=FEATURES)


def test_warnings_of_ranks_reach_the_driver(rows):
    """They were lost, with the fit that had not converged."""
    frame, _ = rows
    positive = frame.selectExpr("*", "double(a > 0) AS sign")
    model = models.Lasso(1e-3, family="binomial", max_iter=1)
    with pytest.warns(RuntimeWarning, match="Lasso did not converge in 1 iterations") as caught:
        model.fit(positive, "sign", features=FEATURES)
    assert sum("converge" in str(part.message) for part in caught) == 1
    assert not model.converged_
    with pytest.raises(sparkring.InvalidError, match="this PCA is not fitted"):
        models.PCA().transform(frame)
