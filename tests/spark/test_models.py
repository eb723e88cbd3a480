# SPDX-License-Identifier: Apache-2.0
"""Models of R that are fitted to the partitions of a DataFrame, beside those of Spark's library."""

import csv
import io
import secrets
import subprocess
from pathlib import Path

import pytest
import tasks
from pyspark.ml.classification import MultilayerPerceptronClassifier
from pyspark.ml.evaluation import MulticlassClassificationEvaluator
from pyspark.ml.feature import StringIndexer, VectorAssembler
from pyspark.ml.regression import GeneralizedLinearRegression

WORKER = Path(__file__).with_name("models.R")
NUMBERS = ["sepal_length", "sepal_width", "petal_length", "petal_width"]


@pytest.fixture(scope="module")
def iris(spark):
    """The data set that comes with R, on four partitions of which each has rows of all species."""
    code = "write.csv(iris, row.names = FALSE, quote = FALSE)"
    text = subprocess.run(["Rscript", "-e", code], capture_output=True, text=True, check=True)
    rows = [
        [float(value) for value in row[:4]] + [row[4]]
        for row in list(csv.reader(io.StringIO(text.stdout)))[1:]
    ]
    frame = spark.createDataFrame(rows, [*NUMBERS, "species"]).repartition(4).cache()
    assert frame.count() == 150
    yield frame
    frame.unpersist()


@pytest.fixture(scope="module")
def models(spark, iris):
    """What four R ranks have found."""
    spark.sparkContext.addFile(str(WORKER))
    fit = tasks.r_rank(WORKER.name, secrets.token_hex(32), columns=(*NUMBERS, "species"))
    found = iris.rdd.barrier().mapPartitions(fit).collect()
    assert len(found) == 4
    assert all(other == found[0] for other in found)
    return found[0]


def test_glm_agrees_with_spark(iris, models):
    indexed = StringIndexer(inputCol="species", outputCol="index").fit(iris).transform(iris)
    dummies = indexed.selectExpr(
        "*",
        "double(species = 'versicolor') AS versicolor",
        "double(species = 'virginica') AS virginica",
    )
    columns = ["petal_width", "versicolor", "virginica"]
    rows = VectorAssembler(inputCols=columns, outputCol="features").transform(dummies)
    theirs = GeneralizedLinearRegression(labelCol="sepal_length").fit(rows)
    expected = [theirs.intercept, *theirs.coefficients]
    assert models["coefficients"] == pytest.approx(expected, rel=1e-8)
    errors = theirs.summary.coefficientStandardErrors  # Spark's intercept is the last
    assert models["errors"] == pytest.approx([errors[-1], *errors[:-1]], rel=1e-8)


def test_mlp_is_as_accurate_as_sparks(iris, models):
    indexed = StringIndexer(inputCol="species", outputCol="label").fit(iris).transform(iris)
    rows = VectorAssembler(inputCols=NUMBERS, outputCol="features").transform(indexed)
    theirs = MultilayerPerceptronClassifier(layers=[4, 8, 3], maxIter=100, seed=1).fit(rows)
    accuracy = MulticlassClassificationEvaluator(metricName="accuracy")
    assert models["accuracy"] >= accuracy.evaluate(theirs.transform(rows))
    assert models["accuracy"] >= 0.98
