# SPDX-License-Identifier: Apache-2.0
"""Columns of the loader: types, missing values, schemas of files that differ."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import parquet_files as files
import pyarrow as pa
import pytest
import sparkring
from parquet_files import ROWS, VECTOR, alone, parquet, refused, table_of
from pyarrow import parquet as pq
from ranks import open_comm, run


def test_columns(table):
    (batch,) = alone(table, columns={"x": ["half", "array", "small"], "y": "id"}, dtype="float32")
    ids = np.arange(ROWS)
    assert batch["x"].tolist() == np.stack([ids / 2, ids, -ids, ids], 1).tolist()
    assert {name: x.dtype.str for name, x in batch.items()} == {"x": "<f4", "y": "<f4"}
    (batch,) = alone(table, columns=["name", "image"], shuffle=2)
    assert {name: x.dtype for name, x in batch.items()} == {"name": object, "image": object}
    assert isinstance(batch["image"][0], bytes) and isinstance(batch["name"][0], str)


def test_dtypes_and_memory_of_numbers(table):
    (whole,) = alone(table, shuffle=True)
    types = {name: (x.dtype.str, x.shape[1:]) for name, x in whole.items()}
    assert types == {
        "id": ("<i8", ()),
        "half": ("<f8", ()),
        "small": ("|i1", ()),
        "truth": ("|b1", ()),
        "array": ("<f4", (2,)),
        "image": ("|O", ()),
        "name": ("|O", ()),
    }
    base = alone(table, 5)[0]["half"]
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, (pa.Buffer, memoryview))  # a view of the row group


def test_batches_of_arrow(table):
    with pytest.raises(sparkring.InvalidError, match="dtype is for arrays of numbers"):
        alone(table, as_="arrow", dtype="float32")
    with pytest.raises(sparkring.InvalidError, match="takes single columns"):
        alone(table, as_="arrow", columns={"x": ["id", "half"]})
    for shuffle in (False, 2):
        batches = alone(table, 10, as_="arrow", shuffle=shuffle)
        made = pa.concat_tables(map(pa.table, batches))
        assert made.schema.types == table_of([1]).schema.types
        assert made.sort_by("id").equals(table_of(range(ROWS)))


def test_batches_without_rows_have_types(tmp_path):
    path = files.write(tmp_path / "one", [1])
    first, second = run(2, empties, path)
    assert first == second


def empties(path):
    with open_comm() as comm:
        return [empty(path, comm, as_) for as_ in ("numpy", "arrow")]


def empty(path, comm, as_):
    with parquet(path, comm, 2, as_=as_) as data:
        (batch,) = data
        assert batch.rows == (comm.rank == 0) and batch.total == 1
        assert all(len(x) == batch.rows for x in batch.values())
        if as_ == "arrow":
            return {name: str(x.type) for name, x in batch.items()}
        return {name: (x.dtype.str, x.shape[1:]) for name, x in batch.items()}


def vector(row):
    if row % 3:
        return {"type": 1, "size": None, "indices": None, "values": [1.0, row, 0.0]}
    return {"type": 0, "size": 3, "indices": [1], "values": [float(row)]}


@pytest.mark.parametrize("shuffle", [False, 2])
def test_vectors_of_spark(tmp_path, shuffle):
    rows = range(40)
    made = pa.table({"id": rows, "v": pa.array(map(vector, rows), VECTOR)})
    pq.write_table(made, tmp_path / "v.parquet", row_group_size=9)
    for batch in alone(tmp_path, 6, shuffle=shuffle):
        expected = [[float(row % 3 > 0), row, 0] for row in batch["id"]]
        assert batch["v"].tolist() == expected


def test_nulls(tmp_path):
    made = pa.table({"x": [1, 2, None, 4], "y": ["a", "b", "c", None]})
    pq.write_table(made, tmp_path / "x.parquet", row_group_size=2)
    (batch,) = alone(tmp_path, columns="x", missing=-1.5)
    assert batch["x"].tolist() == [1, 2, -1.5, 4]
    (batch,) = alone(tmp_path, missing={"x": -1, "y": ""})
    assert (batch["x"].tolist(), batch["y"].tolist()) == ([1, 2, -1, 4], ["a", "b", "c", ""])
    assert alone(tmp_path, columns="y", missing="?")[0]["y"].tolist() == ["a", "b", "c", "?"]
    with pytest.raises(
        sparkring.InvalidError, match=r"column 'y': .* replaces them as missing=\"\""
    ):
        alone(tmp_path, missing=-1)
    with pytest.raises(sparkring.InvalidError, match=r"missing names \['z'\], and the columns"):
        alone(tmp_path, missing={"z": ""})
    with pytest.raises(sparkring.InvalidError, match=r"column 'x': .* number that replaces"):
        alone(tmp_path, missing="")
    for column in "xy":
        with pytest.raises(sparkring.InvalidError, match=f"column '{column}': it has 1 null in 2"):
            alone(tmp_path, columns=column)


def test_nulls_in_arrays(tmp_path):
    made = pa.table({"x": [[1.0, None], [2.0, 3.0]], "y": [[1.0], None]})
    pq.write_table(made, tmp_path / "x.parquet")
    with pytest.raises(sparkring.InvalidError, match="column 'x': it has 1 null"):
        alone(tmp_path, columns="x")
    assert alone(tmp_path, columns="x", missing=0)[0]["x"].tolist() == [[1, 0], [2, 3]]
    with pytest.raises(sparkring.InvalidError, match="column 'y': it has 1 null in 2 arrays"):
        alone(tmp_path, columns="y", missing=0)


def test_times_and_decimals(tmp_path):
    made = pa.table(
        {
            "second": pa.array([1, 2, 3], pa.timestamp("ms", "Europe/Berlin")),
            "day": pa.array([1, 2, 3], pa.date32()),
            "price": pa.array([Decimal("1.25"), Decimal("-3"), None], pa.decimal128(9, 2)),
        }
    )
    pq.write_table(made, tmp_path / "x.parquet")
    for shuffle in (False, 1):
        (batch,) = alone(tmp_path, missing=0, shuffle=shuffle)
        assert sorted(batch["second"]) == list(np.array([1, 2, 3], "M8[ms]"))
        assert sorted(batch["day"]) == list(np.array([1, 2, 3], "M8[D]"))
        assert sorted(batch["price"]) == [-3, 0, 1.25] and batch["price"].dtype == "float64"
        (batch,) = alone(tmp_path, missing=0, dtype="float32", shuffle=shuffle)
        assert (batch["price"].dtype, batch["day"].dtype) == ("float32", "M8[D]")
    with pytest.raises(sparkring.InvalidError, match="dtype names 'day', which holds datetime64"):
        alone(tmp_path, missing=0, dtype={"day": "int32"})
    with pytest.raises(sparkring.InvalidError, match="column 'price': it has 1 null in 3 values"):
        alone(tmp_path, columns="price")
    assert pa.table(alone(tmp_path, as_="arrow")[0]).equals(made)


def test_nested_columns(tmp_path):
    made = pa.table(
        {
            "matrix": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
            "hash": pa.array([b"ab", b"cd"], pa.binary(2)),
        }
    )
    pq.write_table(made, tmp_path / "x.parquet")
    for shuffle in (False, 1):
        (batch,) = alone(tmp_path, shuffle=shuffle)
        rows = dict(zip(batch["hash"], batch["matrix"].tolist()))
        assert rows == {b"ab": [[1, 2], [3, 4]], b"cd": [[5, 6], [7, 8]]}
    assert pa.table(alone(tmp_path, as_="arrow")[0]).equals(made)


def test_dictionaries_are_values(tmp_path):
    made = pa.table({"x": pa.array(["a", "b", "a"]).dictionary_encode(), "n": [1, 2, 3]})
    pq.write_table(made, tmp_path / "x.parquet")
    (batch,) = alone(tmp_path)
    assert batch["x"].tolist() == ["a", "b", "a"]


def test_schemas_that_differ(table):
    other = Path(table, "part-009.parquet")
    columns = table_of(range(3)).set_column(0, "id", pa.array([1, 2, 3], pa.int32()))
    pq.write_table(columns, other)
    text = f"the file {other} has int32 in the column 'id', and the file {table}/part-000.parquet"
    refused(f"{text} has int64: write the files with one schema", table)
    pq.write_table(columns.drop_columns("id"), other)
    refused(f"the file {other} has no column 'id', and the file", table)
    assert len(alone(table, columns="half")) == 1
    more = table_of(range(3)).append_column("more", pa.array([1, 2, 3]))
    for name, text in (
        ("part-009.parquet", "has a column 'more', and the first file or the table has none"),
        ("part--1.parquet", "has no column 'more', and the file"),
    ):
        other.unlink()
        other = Path(table, name)
        pq.write_table(more, other)
        refused(text, table)
    assert len(alone(table, columns=["id", "half"])) == 1
    other.unlink()


def test_schemas_that_are_alike(tmp_path):
    """Programs write other offsets, units and nullability than Spark does."""
    when = np.array(["2024-01-01", "2024-01-02"], "M8[us]")
    columns = {"name": ["a", "b"], "when": when, "x": [[1.0], [2.0]]}
    spark = pa.table(columns)
    nulls = pa.list_(pa.field("item", pa.float64(), nullable=False))
    polars = pa.schema({"name": pa.large_string(), "when": pa.timestamp("ns"), "x": nulls})
    pq.write_table(spark, tmp_path / "a.parquet")
    pq.write_table(pa.table(columns, schema=polars), tmp_path / "b.parquet")
    for shuffle in (False, 2):
        (batch,) = alone(tmp_path, shuffle=shuffle)
        assert batch["when"].dtype == "M8[us]" and batch["x"].dtype == "float64"
        rows = zip(batch["name"], batch["when"], batch["x"][:, 0])
        assert sorted(rows) == sorted(2 * list(zip(["a", "b"], when, [1.0, 2.0])))
        (batch,) = alone(tmp_path, as_="arrow", shuffle=shuffle)
        assert pa.table(batch).schema.types == spark.schema.types
    zone = pa.schema({**dict(zip(polars.names, polars.types)), "when": pa.timestamp("us", "UTC")})
    pq.write_table(pa.table(columns, schema=zone), tmp_path / "c.parquet")
    refused("has timestamp with time zone in the column 'when'", tmp_path)


def test_columns_of_one_name(tmp_path):
    made = pa.table([[1], [2], [3]], names=["x", "x", "y"])
    pq.write_table(made, tmp_path / "x.parquet")
    with pytest.raises(sparkring.InvalidError, match="has several columns 'x'"):
        alone(tmp_path)
    assert alone(tmp_path, columns="y")[0]["y"].tolist() == [3]


def test_columns_that_are_not_there(table):
    text = "part-000.parquet: there is no column 'age': there are 'id', 'half',"
    refused(text, table, columns=["id", "age"])


def test_columns_of_other_types(tmp_path):
    times = pa.array([1, 2, 3, 4], pa.time32("s"))
    made = pa.table({"when": times, "then": times, "x": [[1], [2], [3], [4, 5]]})
    path = str(tmp_path / "x.parquet")
    pq.write_table(made, path, row_group_size=2)
    refused(f"row group 0 of {path}: column 'when': it holds time32", path)
    refused("The columns ['when', 'then'] are all refused", path)
    with pytest.raises(sparkring.InvalidError) as caught:
        alone(path, columns="x")
    text = f"row group 1 of {path}: column 'x': its arrays are not of one length"
    assert text in str(caught.value)
    assert pa.table(alone(path, as_="arrow")[0]).equals(pq.read_table(path))
