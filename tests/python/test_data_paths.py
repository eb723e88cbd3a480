# SPDX-License-Identifier: Apache-2.0
"""Paths of the loader: URLs, file systems, hidden files, partitions."""

from __future__ import annotations

import os
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
import sparkring
from parquet_files import GROUP, ROWS, alone, order_of, parquet, refused, seen, table_of
from pyarrow import fs
from pyarrow import parquet as pq
from ranks import open_comm, run


def test_uris_are_percent_encoded(tmp_path):
    folder = tmp_path / "50% of ü"
    folder.mkdir()
    pq.write_table(pa.table({"id": [7]}), folder / "a.parquet")
    for source in (folder, folder.as_uri(), [(folder / "a.parquet").as_uri()], f"file:{folder}"):
        assert alone(source)[0]["id"].tolist() == [7]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("no/such", "there is no file or directory"),
        ("empty", "the directory"),
        ("nothing://host/x", "neither pyarrow nor fsspec can read nothing://host/x"),
        ([], "the list of files is empty"),
        ({"x": 1}, "path_or_frame is of type dict"),
        (3, "path_or_frame is of type int"),
    ],
    ids=str,
)
def test_no_files(tmp_path, monkeypatch, path, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    refused(text, path)


SOURCES = {
    "path": lambda path: (Path(path), None),
    "URL": lambda path: (f"file://{path}", None),
    "URL of Spark": lambda path: (f"file:{path}", None),
    "files": lambda path: ([str(file) for file in sorted(Path(path).iterdir())], None),
    "pyarrow": lambda path: (
        Path(path).name,
        fs.SubTreeFileSystem(str(Path(path).parent), fs.LocalFileSystem()),
    ),
    "fsspec": lambda path: (path, fsspec.filesystem("file")),
}


def by_source(path):
    with open_comm() as comm:
        return [
            seen(parquet(source if comm.rank == 0 else None, comm, 30, filesystem=files), 1)[0]
            for source, files in (make(path) for make in SOURCES.values())
        ]


def test_sources(table):
    for ranks in zip(*run(2, by_source, table)):
        assert order_of(ranks) == list(range(ROWS))


def in_memory(size):
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/table/x.parquet", b"")
    with memory.open("/table/x.parquet", "wb") as file:
        pq.write_table(table_of(range(size)), file, row_group_size=GROUP)
    with open_comm() as comm:
        return seen(parquet("memory://table", comm, 9), 1)


def test_schemes_of_fsspec():
    """Each rank has memory of its own."""
    found = run(2, in_memory, 20)
    assert order_of([rank[0] for rank in found]) == list(range(20))


def test_relative_paths_are_those_of_rank_0(table):
    found = run(2, relative, table)
    assert order_of([rank[0] for rank in found]) == list(range(ROWS))


def relative(path):
    with open_comm() as comm:
        os.chdir(os.path.dirname(path) if comm.rank == 0 else "/")
        return seen(parquet(os.path.basename(path), comm, 30), 1)


def test_hidden_files_are_none(table):
    for name in ("_SUCCESS", ".part-000.parquet.crc", "_temporary/0/part.parquet", ".x/y.parquet"):
        path = Path(table, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"none")
    assert sorted(alone(table)[0]["id"]) == list(range(ROWS))


NULL = "__HIVE_DEFAULT_PARTITION__"
PARTITIONS = {"year=2023/kind=a%20b": 3, "year=2024/kind=c": 4, f"year=2024/kind={NULL}": 2}


def test_partition_columns(tmp_path):
    start = 0
    for name, count in PARTITIONS.items():
        folder = tmp_path / name
        folder.mkdir(parents=True)
        pq.write_table(table_of(range(start, start + count)), folder / "x.parquet")
        start += count
    (batch,) = alone(tmp_path, columns=["id", "year"])
    by_id = dict(zip(batch["id"].tolist(), batch["year"].tolist()))
    assert by_id == {row: 2023 if row < 3 else 2024 for row in range(9)}
    assert batch["year"].dtype == "int64"
    table = pa.table(alone(tmp_path, as_="arrow", shuffle=True)[0]).sort_by("id")
    assert table["kind"].to_pylist() == ["a b"] * 3 + ["c"] * 4 + [None] * 2
    assert "year" not in alone(tmp_path, columns="half")[0]
    (tmp_path / "day=1").mkdir()
    pq.write_table(table_of([1]), tmp_path / "day=1" / "x.parquet")
    with pytest.raises(sparkring.InvalidError, match="different partition columns"):
        alone(tmp_path)
