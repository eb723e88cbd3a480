# SPDX-License-Identifier: Apache-2.0
"""Tables of Delta Lake whose logs are written here. Those of a real writer: tests/frameworks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
import sparkring
from parquet_files import table_of
from pyarrow import parquet as pq
from sparkring.data import parquet

COLUMNS = {"id": "long", "half": "double", "name": "string"}
PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}
CHECKPOINT = pa.schema(
    {
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": pa.map_(pa.string(), pa.string()),
                "partitionValues_parsed": pa.struct({"year": pa.int32()}),
                "stats": pa.string(),
                "deletionVector": pa.struct(
                    {
                        "storageType": pa.string(),
                        "pathOrInlineDv": pa.string(),
                        "offset": pa.int32(),
                    }
                ),
            }
        ),
        "remove": pa.struct({"path": pa.string()}),
        "metaData": pa.struct(
            {
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "configuration": pa.map_(pa.string(), pa.string()),
            }
        ),
        "protocol": pa.struct({"minReaderVersion": pa.int32()}),
        "sidecar": pa.struct({"path": pa.string()}),
    }
)


def metadata(partition=(), **configuration):
    fields = [{"name": name, "type": kind} for name, kind in COLUMNS.items()]
    fields += [{"name": name, "type": "integer"} for name in partition]
    return {
        "metaData": {
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": list(partition),
            "configuration": configuration,
        }
    }


class Table:
    """A table, whose versions are written one by one."""

    def __init__(self, path):
        self.path, self.log, self.version = path, path / "_delta_log", 0
        self.log.mkdir(parents=True)

    def add(self, name, ids, vector=None, **values):
        """Write a file; return its action. The name in the log is encoded as in a URL."""
        file = self.path / name
        file.parent.mkdir(exist_ok=True)
        pq.write_table(table_of(ids).select(list(COLUMNS)), file, row_group_size=4)
        action = {"path": name.replace(" ", "%20"), "partitionValues": values, "dataChange": True}
        return {"add": action | ({"deletionVector": vector} if vector else {})}

    def commit(self, *actions):
        lines = "".join(json.dumps(action) + "\n" for action in actions)
        (self.log / f"{self.version:020}.json").write_text(lines)
        self.version += 1

    def checkpoint(self, name, *actions):
        """Write a file of a checkpoint."""
        for action in actions:
            for value in action.values():
                for key in ("partitionValues", "configuration"):
                    if key in value:
                        value[key] = list(value[key].items())
        (self.log / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_pylist(list(actions), CHECKPOINT), self.log / name)

    def forget(self, *versions):
        for version in versions:
            (self.log / f"{version:020}.json").unlink()

    def ids(self):
        return sorted(batch_of(self.path)["id"].tolist())


def batch_of(path, **options):
    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        (batch,) = parquet(path, comm, 1000, equalize="join", **options)
        return batch


@pytest.fixture
def table(tmp_path):
    made = Table(tmp_path / "table")
    made.commit({"commitInfo": {}}, PROTOCOL, metadata(), made.add("a b.parquet", range(5)))
    made.commit(made.add("c.parquet", range(5, 8)), made.add("d.parquet", range(8, 20)))
    return made


def test_files_of_the_log(table):
    assert table.ids() == list(range(20))
    table.commit({"remove": {"path": "a%20b.parquet"}}, table.add("e.parquet", [20]))
    assert table.ids() == list(range(5, 21))
    (table.log / "_last_checkpoint").write_text("{}")
    (table.log / "_commits").mkdir()
    assert table.ids() == list(range(5, 21))


def test_absolute_paths(table):
    action = table.add("e.parquet", [20])
    action["add"]["path"] = (table.path / "e.parquet").as_uri()
    table.commit(action)
    assert table.ids() == list(range(21))


def test_partition_columns(tmp_path):
    table = Table(tmp_path / "table")
    table.commit(
        PROTOCOL,
        metadata(["year"]),
        table.add("year=1/x.parquet", [1, 2], year="2023"),
        table.add("year=2/x.parquet", [3], year="2024"),
    )
    batch = batch_of(table.path, columns=["year", "id"])
    assert batch["year"].dtype == "int32"
    assert dict(zip(batch["id"].tolist(), batch["year"].tolist())) == {1: 2023, 2: 2023, 3: 2024}
    table.commit(table.add("year=3/x.parquet", [4], year=""))
    with pytest.raises(sparkring.InvalidError, match="column 'year': it has 1 null"):
        batch_of(table.path)
    assert set(batch_of(table.path, missing=-1)["year"]) == {2023, 2024, -1}


def rest(table):
    """Go on after the checkpoint of version 1."""
    table.commit({"remove": {"path": "c.parquet"}}, table.add("e.parquet", [20]))
    table.forget(0, 1)
    assert table.ids() == [0, 1, 2, 3, 4, *range(8, 21)]


def parts(table):
    adds = [table.add("a b.parquet", range(5)), table.add("c.parquet", range(5, 8))]
    gone = {"remove": {"path": "gone.parquet"}}
    return [*adds, table.add("d.parquet", range(8, 20)), gone]


def test_checkpoint(table):
    name = f"{1:020}.checkpoint.parquet"
    protocol = {"protocol": {"minReaderVersion": 1}}
    table.checkpoint(name, protocol, metadata(), *parts(table))
    rest(table)


def test_checkpoint_in_parts(table):
    some, more = parts(table)[:2], parts(table)[2:]
    name = f"{1:020}.checkpoint.%010d.{2:010}.parquet"
    table.checkpoint(name % 1, metadata(), *some)
    assert table.ids() == list(range(20))  # it is not complete
    table.checkpoint(name % 2, *more)
    rest(table)


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_checkpoint_with_sidecars(table, ending):
    table.checkpoint("_sidecars/one.parquet", *parts(table)[:2])
    table.checkpoint("_sidecars/two.parquet", *parts(table)[2:])
    name = f"{1:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.{ending}"
    actions = [metadata(), *({"sidecar": {"path": f"{x}.parquet"}} for x in ("s3://b/one", "two"))]
    if ending == "json":
        (table.log / name).write_text("\n".join(map(json.dumps, actions)))
    else:
        table.checkpoint(name, *actions)
    rest(table)


def test_a_log_that_is_not_complete(table):
    table.commit(table.add("e.parquet", [20]))
    table.forget(1)
    with pytest.raises(sparkring.InvalidError, match="not complete: versions after -1 are missing"):
        table.ids()


def test_any_string_may_be_in_the_log(table):
    action = table.add("e.parquet", [20])
    action["add"]["stats"] = "{'max': 'one\u2028two\u0085three'}"
    line = json.dumps(action, ensure_ascii=False)
    (table.log / f"{table.version:020}.json").write_text(line, encoding="utf-8")
    assert table.ids() == list(range(21))


def test_versions(table):
    table.commit({"remove": {"path": "c.parquet"}}, table.add("e.parquet", [20]))
    assert len(batch_of(table.path, version=0)["id"]) == 5
    assert len(batch_of(table.path, version=1)["id"]) == 20
    with pytest.raises(sparkring.InvalidError, match="does not lead to version 3, but to 2"):
        batch_of(table.path, version=3)
    assert len(batch_of([table.path], version=0)["id"]) == 5
    with pytest.raises(sparkring.InvalidError, match="the list of paths has a table"):
        batch_of([table.path, table.path])
    table.checkpoint(f"{2:020}.checkpoint.parquet", metadata(), *parts(table))
    assert len(batch_of(table.path, version=0)["id"]) == 5


def test_a_state_has_the_version(table):
    """A table may grow between a job and the job that goes on."""
    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        with parquet(table.path, comm, 6, shuffle=2) as data:
            first = next(iter(data))["id"].tolist()
            state = data.state()
        table.commit(table.add("e.parquet", [20]))
        with parquet(table.path, comm, 6, shuffle=2, state=state, equalize="join") as data:
            rest = [row for batch in data for row in batch["id"].tolist()]
        assert sorted(first + rest) == list(range(20))
        assert state["version"] == 1
        with pytest.raises(sparkring.InvalidError, match="version=1 and version=2 is passed"):
            parquet(table.path, comm, 6, shuffle=2, state=state, version=2)


def test_a_part_of_a_table(tmp_path):
    table = Table(tmp_path / "table")
    adds = [table.add(f"year={year}/x y.parquet", [year], year=str(year)) for year in (1, 2)]
    table.commit(PROTOCOL, metadata(["year"]), *adds)
    file = table.path / "year=1" / "x y.parquet"
    for part in (file, file.parent, [file], table.path.parent):
        with pytest.raises(sparkring.InvalidError) as caught:
            batch_of(part)
        assert f"{table.path} is a table of Delta Lake, and its log decides" in str(caught.value)
    shutil.rmtree(table.log)
    assert len(batch_of(file)["id"]) == 1
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
    action = metadata()
    kinds = json.loads(action["metaData"]["schemaString"])
    kinds["fields"].append({"name": "more", "type": "long"})
    action["metaData"]["schemaString"] = json.dumps(kinds)
    table.commit(action)
    with pytest.raises(sparkring.InvalidError, match="there is no column 'more'"):
        table.ids()
    assert sorted(batch_of(table.path, columns=["id"])["id"]) == list(range(20))
    kinds["fields"] = kinds["fields"][:2]
    action["metaData"]["schemaString"] = json.dumps(kinds)
    table.commit(action)
    with pytest.raises(sparkring.InvalidError, match="has a column 'name', and the first file or"):
        table.ids()


def refused(table, text):
    with pytest.raises(sparkring.InvalidError) as caught:
        table.ids()
    assert text in str(caught.value)
    assert "pass the table as a DataFrame" in str(caught.value)


def test_deletion_vectors(table):
    removed = {"remove": {"path": "c.parquet"}}
    table.commit(table.add("c.parquet", range(5, 8), VECTOR), removed)  # in any order
    refused(table, "has deletion vectors: some rows of 1 of its 3 files are deleted")
    table.commit({"remove": {"path": "c.parquet", "deletionVector": VECTOR}})
    assert table.ids() == [0, 1, 2, 3, 4, *range(8, 20)]


def test_column_mapping(table):
    table.commit(metadata(**{"delta.columnMapping.mode": "name"}))
    refused(table, "version 2 of the Delta table")
    refused(table, "maps the names of its columns")
    table.commit(metadata())  # the table is replaced
    assert table.ids() == list(range(20))


@pytest.mark.parametrize(
    ("protocol", "text"),
    [
        ({"minReaderVersion": 4}, "needs version 4 of the protocol"),
        ({"minReaderVersion": 3, "readerFeatures": ["new"]}, "needs the features ['new']"),
    ],
    ids=str,
)
def test_protocols(table, protocol, text):
    known = {"minReaderVersion": 3, "readerFeatures": ["deletionVectors", "timestampNtz"]}
    table.commit({"protocol": known})
    assert table.ids() == list(range(20))
    table.commit({"protocol": protocol})
    refused(table, text)
    table.commit({"protocol": known})  # the feature is dropped
    assert table.ids() == list(range(20))


def test_a_table_without_files(tmp_path):
    table = Table(tmp_path / "table")
    table.commit(PROTOCOL, metadata())
    with pytest.raises(sparkring.InvalidError, match="has no files: it has no rows"):
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
