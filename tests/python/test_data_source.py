# SPDX-License-Identifier: Apache-2.0
"""Arrays from what Spark hands out: pandas, Arrow and rows alike, without copies where possible."""

from __future__ import annotations

import datetime
import re
from collections import namedtuple
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from parquet_files import VECTOR
from pyspark.ml.linalg import Vectors
from pyspark.sql import Row
from sparkring import InvalidError
from sparkring._tables import source

VALUES = {
    "whole": [1, -2, 3],
    "real": [0.5, 1.5, 2.25],
    "truth": [True, False, True],
    "arrays": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
    "images": [[[1, 2], [3, 4], [5, 6]]] * 3,
}
DENSE, SPARSE = Vectors.dense([1.0, 0.0, 2.0]), Vectors.sparse(3, {1: 5.0})


def in_arrow(vector):
    """What Spark hands to mapInArrow, and in pandas as a dict or a Row."""
    if vector is DENSE:
        return {"type": 1, "size": None, "indices": None, "values": vector.array}
    return {"type": 0, "size": 3, "indices": vector.indices, "values": vector.values}


def rows_of(columns):
    return [dict(zip(columns, row)) for row in zip(*columns.values())]


MAKERS = {
    "pandas": lambda columns: [pd.DataFrame(columns)],
    "pandas from Arrow": lambda columns: [pa.table(columns).to_pandas()],
    "pandas with its own types": lambda columns: [
        pd.DataFrame(columns).convert_dtypes(convert_string=False)
    ],
    "Arrow": lambda columns: pa.table(columns).to_batches(),
    "Arrow, sliced": lambda columns: [pa.table(columns)[1:2], pa.table(columns)[2:]],
    "Arrow, chunked": lambda columns: [pa.concat_tables([pa.table(columns)] * 2).slice(2, 3)],
    "dicts": rows_of,
    "Rows": lambda columns: [Row(**row) for row in rows_of(columns)],
    "named tuples": lambda columns: [namedtuple("Named", row)(**row) for row in rows_of(columns)],
}


def chunks(rows, columns=None, missing=None):
    return list(source.chunks(rows, source.select(columns), missing))


def one(rows, columns=None, missing=None):
    """All chunks behind each other."""
    found = chunks(rows, columns, missing)
    return {name: np.concatenate([chunk[name] for chunk in found]) for name in found[0]}


def expected(name, maker):
    values = np.array(VALUES[name])
    order = {"Arrow, sliced": [1, 2], "Arrow, chunked": [2, 0, 1]}.get(maker, [0, 1, 2])
    return values[order]


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", VALUES)
def test_values(maker, name):
    values = one(MAKERS[maker](VALUES), [name])[name]
    assert values.tolist() == expected(name, maker).tolist()
    assert values.dtype == expected(name, maker).dtype


@pytest.mark.parametrize("maker", MAKERS)
def test_columns_side_by_side(maker):
    found = one(MAKERS[maker](VALUES), {"x": ["real", "images", "whole"], "y": "truth"})
    parts = [expected(name, maker) for name in ("real", "images", "whole")]
    together = np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
    assert found["x"].tolist() == together.tolist()
    assert found["y"].dtype == bool


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "float16", "float32"])
def test_dtypes_stay(dtype):
    values = np.arange(4).astype(dtype)
    for rows in ([pd.DataFrame({"x": values})], pa.table({"x": values}), [*values]):
        assert next(iter(one(rows).values())).dtype == dtype


@pytest.mark.parametrize(
    "vectors", [[DENSE, DENSE], [SPARSE, DENSE, SPARSE], [SPARSE]], ids=["dense", "mixed", "sparse"]
)
def test_vectors(vectors):
    matrix = [vector.toArray().tolist() for vector in vectors]
    structs = [in_arrow(vector) for vector in vectors]
    arrow = pa.table({"v": pa.array([structs[0], *structs], VECTOR)})[1:]
    assert one(arrow)["v"].tolist() == matrix
    assert one(arrow.to_pandas())["v"].tolist() == matrix
    assert one(pd.DataFrame({"v": [Row(**struct) for struct in structs]}))["v"].tolist() == matrix
    assert one([Row(v=vector) for vector in vectors])["v"].tolist() == matrix
    assert one(vectors)["value"].tolist() == matrix


def test_rows_without_names():
    assert one([(1, [2.0, 3.0]), (4, [5.0, 6.0])])[1].tolist() == [[2.0, 3.0], [5.0, 6.0]]
    assert one([(1, 2.0), (4, 5.0)], {"y": 1})["y"].tolist() == [2.0, 5.0]
    assert one(iter(range(3)))["value"].tolist() == [0, 1, 2]
    assert one(np.ones((3, 2)))["value"].shape == (3, 2)
    assert [len(chunk["value"]) for chunk in chunks(range(2500))] == [1024, 1024, 452]


def test_no_copies():
    numbers = np.arange(6.0)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(numbers), 2)
    table = pa.table(
        {"x": pa.array(numbers)[:3], "fixed": lists, "list": lists.cast(pa.list_(pa.float64()))}
    )
    for name, values in chunks(table)[0].items():
        assert not values.flags.owndata
        assert not values.flags.writeable, name
    assert np.shares_memory(chunks(table)[0]["fixed"], lists.flatten().to_numpy())
    frame = pd.DataFrame({"x": numbers, "y": numbers})
    assert np.shares_memory(chunks([frame])[0]["x"], frame["x"].to_numpy())


def test_nothing_is_no_chunk():
    assert chunks([]) == []
    assert chunks([pd.DataFrame({"x": []})]) == []
    assert chunks(pa.table({"x": pa.array([], pa.int64())})) == []


# ---- Nulls ---------------------------------------------------------------------------------------

NULLS = {
    "pandas": [pd.DataFrame({"x": [1, None, 3]})],
    "pandas, own type": [pd.DataFrame({"x": pd.array([1, None, 3], "Int64")})],
    "Arrow": pa.table({"x": [1, None, 3]}),
    "rows": [{"x": 1}, {"x": None}, {"x": 3}],
}


@pytest.mark.parametrize("maker", NULLS)
def test_nulls(maker):
    with pytest.raises(InvalidError, match=r"^rows 0 to 2 .*column 'x': it has 1 null in 3 values"):
        one(NULLS[maker])
    assert one(NULLS[maker], missing=0)["x"].tolist() == [1, 0, 3]
    filled = one(NULLS[maker], missing=float("nan"))["x"]
    assert filled.dtype == "float64"
    assert np.isnan(filled).tolist() == [False, True, False]
    for column in ("whole", "truth"):
        assert one(MAKERS["Arrow"](VALUES), [column], missing=0.5)[column].dtype == "float64"


def test_nulls_of_booleans():
    """NaN counted as True."""
    truth = [{"x": True}, {"x": None}, {"x": False}]
    for rows in ([pa.Table.from_pylist(truth)], [pd.DataFrame(truth).convert_dtypes()], truth):
        filled = one(rows, missing=float("nan"))["x"]
        assert filled.tolist() == pytest.approx([1, float("nan"), 0], nan_ok=True)
        assert one(rows, missing=0)["x"].tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("kind", "own", "value", "missing"),
    [
        ("bool", "boolean", True, -1),
        ("int8", "Int8", 1, 999),
        ("uint8", "UInt8", 1, -1),
        ("int64", "Int64", 1, 2**63),
        ("float32", "Float32", 1.5, 1e300),
        ("float32", "Float32", 1.5, 2**24 + 1),
    ],
)
def test_missing_that_a_dtype_cannot_hold(kind, own, value, missing):
    tables = [
        pa.table({"x": pa.array([value, None], kind)}),
        [pd.DataFrame({"x": pd.array([value, None], own)})],
        [{"x": value}, {"x": None}],
    ]
    text = re.escape(f"{kind} cannot hold missing={missing}:")
    for rows in tables if kind in ("bool", "int64") else tables[:2]:  # rows are of Python's types
        with pytest.raises(InvalidError, match=f"column 'x': .*{text}"):
            one(rows, missing=missing)
        assert one(rows, missing=1)["x"].tolist() == [value, 1]


def test_infinities_are_numbers():
    x = [float("inf"), float("-inf"), 1.0]
    assert one([pd.DataFrame({"x": x})])["x"].tolist() == x


def test_nulls_within_arrays():
    rows = [{"x": [1.0, None]}, {"x": [None, 4.0]}]
    for some in (rows, pa.Table.from_pylist(rows), pa.Table.from_pylist(rows).to_pandas()):
        with pytest.raises(InvalidError, match="it has 2 nulls in 4 values"):
            one(some)
        assert one(some, missing=9)["x"].tolist() == [[1, 9], [9, 4]]


@pytest.mark.parametrize("x", [[[1.0], None], [DENSE, None]], ids=["arrays", "vectors"])
def test_nulls_in_place_of_arrays(x):
    rows = [Row(x=value) for value in x]
    kind = VECTOR if x[0] is DENSE else pa.list_(pa.float64())
    column = pa.array([in_arrow(DENSE), None] if x[0] is DENSE else x, kind)
    for some in (rows, pa.table({"x": column}), pa.table({"x": column}).to_pandas()):
        with pytest.raises(InvalidError, match="it has 1 null in 2 arrays") as caught:
            one(some, missing=0)
        assert "missing=" not in str(caught.value)


def test_nan_is_a_number_where_it_differs_from_null():
    nan = float("nan")
    for rows in (pa.table({"x": [1.0, nan]}), [{"x": 1.0}, {"x": nan}]):
        assert np.isnan(one(rows)["x"]).tolist() == [False, True]


# ---- Other things --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    ["a", b"a", Decimal(1), datetime.datetime(2024, 1, 1), {"a": 1}, ["a"]],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_number(value):
    table = pa.table({"x": [value]})
    for rows in ([{"x": value}], table, table.to_pandas()):
        with pytest.raises(InvalidError, match=r"column 'x': it holds .*columns="):
            one(rows)
        assert list(one([{"x": value, "y": 1}], ["y"])) == ["y"]


def test_arrays_of_many_lengths():
    rows = [{"x": [1.0]}, {"x": [2.0]}, {"x": [3.0, 4.0]}]
    table = pa.Table.from_pylist(rows)
    for some in (rows, table, table.to_pandas()):
        with pytest.raises(InvalidError, match="first row has 1 elements, that of row 2 has 2"):
            one(some)
    with pytest.raises(InvalidError, match="the first has 3, that of row 1 has 2"):
        one([DENSE, Vectors.dense([1.0, 2.0])])


def test_columns_that_are_not_there():
    for rows in (pd.DataFrame({"x": [1]}), pa.table({"x": [1]}), [{"x": 1}], [Row(x=1)]):
        with pytest.raises(InvalidError, match="no column 'y': there are 'x'"):
            one(rows, ["y"])
    with pytest.raises(InvalidError, match="column 'y': not every row has the column"):
        one([{"y": 1}, {"x": 1}])


def test_columns_of_one_name():
    frame = pd.DataFrame([[1, 2, 3]], columns=["x", "x", "y"])
    table = pa.table([[1], [2], [3]], ["x", "x", "y"])
    for rows in (frame, table, [Row("x", "x", "y")(1, 2, 3)]):
        assert one(rows, ["y"])["y"].tolist() == [3]
        for columns in (None, ["x"]):
            with pytest.raises(InvalidError, match="several columns of this name, 'x'"):
                one(rows, columns)


@pytest.mark.parametrize("columns", [[], {"x": []}, {"x": 1.5}, {"x": [["y"]]}], ids=str)
def test_columns_that_make_no_sense(columns):
    with pytest.raises(InvalidError, match="columns"):
        source.select(columns)


def test_no_rows_at_all():
    class DataFrame:
        mapInPandas = None  # noqa: N815

    for rows, text in ((5, "rows is of type int"), (DataFrame(), "DataFrame of Spark")):
        with pytest.raises(InvalidError, match=text):
            chunks(rows)
