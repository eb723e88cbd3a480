# SPDX-License-Identifier: Apache-2.0
"""Tables of Delta Lake that deltalake writes, and commits of other writers, written here."""

from __future__ import annotations

import base64
import json
import shutil
import struct
import sys
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
import sparkring
from parquet_files import table_of
from sparkring.data import parquet

deltalake = pytest.importorskip("deltalake")

COLUMNS = ["id", "half", "name"]
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"


class Table:
    """A table, and its log."""

    def __init__(self, path):
        self.path, self.log = path, path / "_delta_log"

    def add(self, ids, **options):
        options = {"mode": "append", **options}
        deltalake.write_deltalake(str(self.path), table_of(ids).select(COLUMNS), **options)

    def open(self):
        return deltalake.DeltaTable(str(self.path))

    def actions(self, version, kind):
        """Return the actions of a kind that a version has."""
        lines = (self.log / f"{version:020}.json").read_text().splitlines()
        return [action[kind] for action in map(json.loads, lines) if kind in action]

    def commit(self, *actions):
        """Write a version by hand."""
        text = "".join(json.dumps(action) + "\n" for action in actions)
        (self.log / f"{self.open().version() + 1:020}.json").write_text(text)

    def forget(self, *versions):
        for version in versions:
            (self.log / f"{version:020}.json").unlink()

    def ids(self, **options):
        return sorted(batch_of(self.path, **options)["id"].tolist())


def batch_of(path, **options):
    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        (batch,) = parquet(path, comm, 1000, equalize="join", **options)
        return batch


@pytest.fixture
def table(tmp_path):
    made = Table(tmp_path / "table")
    for ids in (range(5), range(5, 8), range(8, 20)):
        made.add(ids)
    return made


def test_files_of_the_log(table):
    assert table.ids() == list(range(20))
    table.open().delete("id < 5")
    table.add([20])
    assert table.ids() == list(range(5, 21))
    table.open().optimize.compact()
    (table.log / "_commits").mkdir()
    assert table.ids() == list(range(5, 21))


def test_absolute_paths(table, tmp_path):
    """As in a shallow clone."""
    (action,) = table.actions(2, "add")
    file = shutil.move(table.path / action["path"], tmp_path / "c d.parquet")
    table.commit(
        {"remove": {"path": action["path"], "dataChange": True, "deletionTimestamp": 1}},
        {"add": {**action, "path": Path(file).as_uri()}},
    )
    assert table.ids() == list(range(20))


def test_partition_columns(tmp_path):
    table = Table(tmp_path / "table")
    rows = table_of(range(4)).select(COLUMNS)
    rows = rows.append_column("year", pa.array([2023, 2023, 2024, 2025], pa.int32()))
    rows = rows.append_column("day", pa.array([0, 1, 2, 3], pa.date32()))
    rows = rows.append_column("text", pa.array(["a b", "c%d/e", "f=g", "h"]))
    deltalake.write_deltalake(str(table.path), rows, partition_by=["year", "text", "day"])
    batch = batch_of(table.path, columns=["year", "id", "text", "day"])
    assert batch["year"].dtype == "int32" and batch["day"].dtype.kind == "M"
    assert dict(zip(batch["id"].tolist(), batch["year"].tolist())) == {
        0: 2023,
        1: 2023,
        2: 2024,
        3: 2025,
    }
    found = zip(batch["id"].tolist(), batch["text"].tolist(), batch["day"].astype(int).tolist())
    assert sorted(found) == [(0, "a b", 0), (1, "c%d/e", 1), (2, "f=g", 2), (3, "h", 3)]


def test_partitions_of_null(tmp_path):
    table = Table(tmp_path / "table")
    rows = table_of(range(3)).select(COLUMNS)
    rows = rows.append_column("year", pa.array([2023, 2024, None], pa.int32()))
    deltalake.write_deltalake(str(table.path), rows, partition_by=["year"])
    with pytest.raises(sparkring.InvalidError, match="column 'year': it has 1 null"):
        batch_of(table.path)
    assert set(batch_of(table.path, missing=-1)["year"]) == {2023, 2024, -1}


def test_checkpoint(table):
    table.open().create_checkpoint()
    table.add([20])
    table.forget(0, 1, 2)
    assert table.ids() == list(range(21))
    with pytest.raises(sparkring.InvalidError, match="cannot open version 1 of the Delta table"):
        table.ids(version=1)


def test_a_log_that_is_not_complete(table):
    table.forget(1)
    with pytest.raises(sparkring.InvalidError, match="cannot open the newest version of the Delta"):
        table.ids()


def test_versions(table):
    assert table.ids(version=0) == list(range(5))
    assert table.ids(version=1) == list(range(8))
    with pytest.raises(sparkring.InvalidError, match="cannot open version 3 of the Delta table"):
        table.ids(version=3)
    assert len(batch_of([table.path], version=0)["id"]) == 5
    with pytest.raises(sparkring.InvalidError, match="the list of paths has a table"):
        batch_of([table.path, table.path])


def test_a_state_has_the_version(table):
    """A table may grow between a job and the job that goes on."""
    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        with parquet(table.path, comm, 6, shuffle=2) as data:
            first = next(iter(data))["id"].tolist()
            state = data.state()
        table.add([20])
        with parquet(table.path, comm, 6, shuffle=2, state=state, equalize="join") as data:
            rest = [row for batch in data for row in batch["id"].tolist()]
        assert sorted(first + rest) == list(range(20))
        assert state["version"] == 2
        with pytest.raises(sparkring.InvalidError, match="version=2 and version=3 is passed"):
            parquet(table.path, comm, 6, shuffle=2, state=state, version=3)


def test_a_part_of_a_table(tmp_path):
    table = Table(tmp_path / "table")
    table.add(range(2), partition_by=["id"])
    (file,) = table.path.glob("id=1/*.parquet")
    for part in (file, file.parent, [file], table.path.parent):
        with pytest.raises(sparkring.InvalidError) as caught:
            batch_of(part)
        assert f"{table.path} is a table of Delta Lake, and its log decides" in str(caught.value)
    shutil.rmtree(table.log)
    assert len(batch_of(file)["half"]) == 1
    with pytest.raises(sparkring.InvalidError, match="is not one table of Delta Lake or Iceberg"):
        batch_of(file, version=1)
    for name, kind in ((".hoodie", "Hudi"), ("_spark_metadata", "Structured Streaming")):
        (table.path / name).mkdir()
        for part in (file, table.path):
            with pytest.raises(sparkring.InvalidError, match=f"is a table of {kind}"):
                batch_of(part)
        (table.path / name).rmdir()


def test_columns_are_those_of_the_table(table):
    """A column that no file has is null in Delta Lake."""
    (metadata,) = table.actions(0, "metaData")
    kinds = json.loads(metadata["schemaString"])
    more = {"name": "more", "type": "long", "nullable": True, "metadata": {}}
    fewer = {**kinds, "fields": kinds["fields"][:2]}
    kinds["fields"].append(more)
    table.commit({"metaData": {**metadata, "schemaString": json.dumps(kinds)}})
    with pytest.raises(sparkring.InvalidError, match="there is no column 'more'"):
        table.ids()
    assert table.ids(columns=["id"]) == list(range(20))
    table.commit({"metaData": {**metadata, "schemaString": json.dumps(fewer)}})
    with pytest.raises(sparkring.InvalidError, match="has a column 'name', and the first file or"):
        table.ids()


def protocol(*features):
    return {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": list(features),
            "writerFeatures": list(features),
        }
    }


def refused(path, text):
    with pytest.raises(sparkring.InvalidError) as caught:
        batch_of(path)
    assert text in str(caught.value)
    assert "pass the table as a DataFrame" in str(caught.value)


def vector(*rows):
    """Make a deletion vector: a bitmap of one container, in the base 85 of ZeroMQ."""
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16)
    bitmap += struct.pack(f"<{len(rows)}H", *rows)
    data = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    padded = data + bytes(-len(data) % 4)
    text = base64.b85encode(padded).decode().translate(str.maketrans(B85, Z85))
    return {
        "storageType": "i",
        "pathOrInlineDv": text,
        "sizeInBytes": len(data),
        "cardinality": len(rows),
    }


def delete_rows(table):
    (action,) = table.actions(0, "add")
    removed = {"path": action["path"], "dataChange": True, "deletionTimestamp": 1}
    with_vector = {**action, "deletionVector": vector(1, 3)}
    table.commit(protocol("deletionVectors"), {"remove": removed}, {"add": with_vector})
    return action, removed, with_vector["deletionVector"]


def test_deletion_vectors(table):
    action, removed, deleted = delete_rows(table)
    refused(table.path, "version 3 of the Delta table")
    refused(table.path, "has deletion vectors: some rows of its files are deleted")
    table.commit({"remove": {**removed, "deletionVector": deleted}}, {"add": action})
    assert table.ids() == list(range(20))


def test_column_mapping(tmp_path):
    table = Table(tmp_path / "table")
    table.add(range(5), configuration={"delta.columnMapping.mode": "none"})
    assert table.ids() == list(range(5))
    table = Table(tmp_path / "mapped")
    table.add(range(5), configuration={"delta.columnMapping.mode": "name"})
    refused(table.path, "maps the names of its columns")


def test_features(table):
    table.commit(protocol("deletionVectors", "timestampNtz"))
    assert table.ids() == list(range(20))
    table.commit(protocol("new"))
    refused(table.path, "'new'")


def test_a_table_without_files(tmp_path):
    schema = table_of([0]).select(COLUMNS).schema
    deltalake.DeltaTable.create(str(tmp_path), deltalake.Schema.from_arrow(schema))
    with pytest.raises(sparkring.InvalidError, match="has no files: it has no rows"):
        batch_of(tmp_path)


def test_tables_on_other_file_systems(table, tmp_path):
    """Their logs are copied, from the last checkpoint on."""
    table.open().create_checkpoint()
    table.add([20])
    table.forget(0, 1, 2)
    files, url = fsspec.filesystem("memory"), f"memory:/{tmp_path}/other"
    files.put(str(table.path), url, recursive=True)
    assert sorted(batch_of(url)["id"].tolist()) == list(range(21))
    assert sorted(batch_of(url, version=2)["id"].tolist()) == list(range(20))
    with pytest.raises(sparkring.InvalidError, match=f"version 1 of the Delta table {tmp_path}"):
        batch_of(url, version=1)
    files.rm(url, recursive=True)


def test_deletion_vectors_on_other_file_systems(tmp_path):
    table = Table(tmp_path / "table")
    table.add(range(5))
    delete_rows(table)
    files, url = fsspec.filesystem("memory"), f"memory:/{tmp_path}/other"
    files.put(str(table.path), url, recursive=True)
    refused(url, "has deletion vectors")
    files.rm(url, recursive=True)


def test_without_deltalake(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(sparkring.InvalidError, match="pip install deltalake"):
        table.ids()


def test_tables_of_iceberg_that_are_refused(tmp_path):
    path = Path(tmp_path, "metadata")
    path.mkdir()
    (path / "v1.metadata.json").write_text("{}")
    with pytest.raises(sparkring.InvalidError, match="pass the table that pyiceberg has loaded"):
        batch_of(tmp_path)
    (path / "version-hint.text").write_text("1")
    with pytest.raises(sparkring.InvalidError, match="pip install pyiceberg"):
        batch_of(tmp_path)
