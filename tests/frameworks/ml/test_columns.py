# SPDX-License-Identifier: Apache-2.0
"""Columns of estimators: types of inputs and outputs, rows for validation, weights."""

from __future__ import annotations

import networks
import numpy as np
import pytest
from estimators import prepared, torch_estimator


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def test_types_of_inputs_and_outputs(spark):
    import sparkring
    from pyspark.sql import functions

    rows = [
        (i % 7 / 7, i % 5, [[0.0, 1.0, 2.0], [float(i), 1.0, 0.0]], bytes([i] * 4), i % 3)
        for i in range(40)
    ]
    sql = "number double, code int, matrix array<array<double>>, image binary, label int"
    frame = spark.createDataFrame(rows, sql)
    names = ["class", "top", "scores", "vector", "sure", "name"]
    model = torch_estimator(
        model=networks.several,
        loss=networks.entropy,
        transformation=networks.pixels,
        postprocess=networks.scores,
        inputCols=["number", "code", "matrix", "image"],
        outputCols=names,
        numProc=2,
    ).fit(frame)
    found = model.transform(frame)
    assert found.columns == [*frame.columns, *names]
    kinds = [found.schema[name].dataType.simpleString() for name in names]
    assert kinds == ["bigint", "float", "array<float>", "array<double>", "boolean", "string"]
    assert plan_of(found).count("ArrowEvalPython") == 1
    assert "ArrowEvalPython" not in plan_of(found.select("label"))
    row = found.first()
    assert row["class"] == int(np.argmax(row["scores"]))
    assert row["top"] == max(row["scores"])
    assert row["sure"] == (row["top"] > 0)
    assert row["name"] == "abc"[row["class"]]
    types = ["double", "float", "array<float>", "vector", "boolean", "string"]
    found = model.setOutputTypes(types).transform(frame)
    kinds = [found.schema[name].dataType.typeName() for name in names]
    assert kinds == ["double", "float", "array", "vectorudt", "boolean", "string"]
    with pytest.raises(sparkring.InvalidError, match="a column of this name"):
        model.transform(frame.withColumnRenamed("label", "CLASS"))
    for column, null in (("number", "null"), ("code", "null"), ("matrix", "array(array(0, null))")):
        nulls = frame.withColumn(column, functions.expr(null).cast(frame.schema[column].dataType))
        with pytest.raises(Exception, match=f"'{column}' has nulls"):
            model.transform(nulls).select("class").collect()
    again = found.first()
    assert again["class"] == row["class"]
    assert np.array_equal(again["vector"].toArray(), row["vector"])


def test_arrays_of_arrow_are_viewed():
    """Rows that do not lie behind each other in one array are copied."""
    import pyarrow
    import sparkring
    from sparkring.spark.ml._prediction import _stacked

    expected = np.arange(12.0).reshape(4, 3)
    column = pyarrow.array([[-1.0, -1.0], *expected.tolist()]).slice(1)
    rows = column.to_pandas().to_numpy()
    viewed = _stacked(rows, [3])
    assert np.array_equal(viewed, expected)
    assert np.shares_memory(viewed, rows[0])
    assert np.array_equal(_stacked(rows[1:3], [3]), expected[1:3])
    assert np.array_equal(_stacked(rows[::-1], [3]), expected[::-1])
    for place in range(4):
        rows[place] = rows[place].copy()
    assert np.array_equal(_stacked(rows, [3]), expected)
    with pytest.raises(sparkring.InvalidError, match=r"has 3 numbers, and those .* have 4"):
        _stacked(rows, [2, 2])


def test_rows_for_validation_and_weights(spark, vectors):
    from pyspark.sql import functions

    many = spark.range(5000).selectExpr("id x", "id % 7 label", "id % 2 + 1 weight")
    one = prepared(many, inputCols=["x"], validation=0.2)
    marked = one.where("valid").select("input0").orderBy("input0").collect()
    assert 850 < len(marked) < 1150
    other = prepared(many.repartition(7), inputCols=["x"], validation=0.2)
    assert other.where("valid").select("input0").orderBy("input0").collect() == marked
    wide = prepared(many, inputCols=["x"], validation=0.2, classWeights=[2.0] * 2000)
    assert wide.where("valid").select("input0").orderBy("input0").collect() == marked
    seeded = prepared(many, inputCols=["x"], validation=0.2, seed=1)
    assert seeded.where("valid").select("input0").orderBy("input0").collect() != marked
    indicator = many.withColumn(
        "held", functions.expr("CASE WHEN x < 3 THEN 1 WHEN x < 5 THEN 0 END")
    )
    held = prepared(indicator, inputCols=["x"], validation="held")
    assert held.groupBy("valid").count().orderBy("valid").collect() == [(False, 4997), (True, 3)]
    for classes in ({0: 3.0, 6: 5}, [3.0, 1, 1, 1, 1, 1, 5.0]):
        weighted = prepared(many, inputCols=["x"], weightCol="weight", classWeights=classes)
        found = weighted.where("input0 < 8").orderBy("input0").select("weight").collect()
        assert [row[0] for row in found] == [3, 2, 1, 2, 1, 2, 5, 6]
