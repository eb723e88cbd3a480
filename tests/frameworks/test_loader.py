# SPDX-License-Identifier: Apache-2.0
"""The loader with real frameworks and real writers of tables."""

from __future__ import annotations

import functools
import itertools
import shutil
from pathlib import Path

import deltalake
import numpy as np
import parquet_files as files
import pyarrow as pa
import pytest
import sparkring
from deltalake.schema import Field, PrimitiveType
from pyarrow import parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import DoubleType
from ranks import open_comm, run
from sparkring import data as sparkring_data

parquet = functools.partial(sparkring_data.parquet, equalize="join")
COUNTS, BATCH = (20, 31, 7), 8
ROWS = sum(COUNTS)


@pytest.fixture
def table(tmp_path):
    return files.write(tmp_path / "table", COUNTS)


def check(found):
    """Every row once, with its other columns."""
    assert sorted(itertools.chain(*(ids for ids, _ in found))) == list(range(ROWS))
    assert all(agrees for _, agrees in found)


def plain(values):
    return np.asarray(values.tolist() if hasattr(values, "tolist") else values)


# ---- PyTorch -------------------------------------------------------------------------------------


def in_torch(path, shuffle):
    import torch

    ids, agrees = [], True
    with open_comm() as comm, parquet(path, comm, BATCH, shuffle=shuffle, as_="torch") as data:
        for batch in data:
            assert {type(x) for x in batch.values()} == {torch.Tensor, list}
            assert batch.mask.dtype == torch.bool and len(batch.mask) == batch.rows
            assert batch["array"].dtype == torch.float32
            assert str(batch).startswith("<sparkring.data.Batch")
            batch["half"].add_(0)  # it can be written
            ids += batch["id"].tolist()
            agrees &= files.agrees({name: plain(x) for name, x in batch.items()})
    return ids, bool(agrees)


@pytest.mark.parametrize("shuffle", [False, 2])
def test_tensors_of_torch(table, shuffle):
    check(run(2, in_torch, table, shuffle))


def test_times_have_no_tensors(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": [1], "t": pa.array([0], pa.timestamp("us"))}), path)
    text = r"columns \['t'\] hold times, and {} has no"
    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        with pytest.raises(sparkring.InvalidError, match=text.format("torch")):
            parquet(path, comm, 1, as_="torch")
        with pytest.raises(sparkring.InvalidError, match=text.format("tensorflow")):
            parquet(path, comm, 1).tf_dataset()


# ---- JAX -----------------------------------------------------------------------------------------


def in_jax(path):
    import jax

    ids, agrees = [], True
    with open_comm() as comm, parquet(path, comm, BATCH, shuffle=2, as_="jax") as data:
        for batch in data:
            assert isinstance(batch["array"], jax.Array) and isinstance(batch.mask, jax.Array)
            assert batch["id"].dtype == "int32" and batch["half"].dtype == "float32"
            ids += batch["id"].tolist()
            agrees &= files.agrees({name: plain(x) for name, x in batch.items()})
    return ids, bool(agrees)


@pytest.mark.filterwarnings("error")
def test_arrays_of_jax(table):
    check(run(2, in_jax, table))


# ---- TensorFlow ----------------------------------------------------------------------------------


def numpy_of(tensors):
    return {
        name: x.numpy() if name != "name" else np.array([t.decode() for t in x.numpy()])
        for name, x in tensors.items()
    }


def in_tensorflow(path):
    import tensorflow as tf

    found = []
    with open_comm() as comm:
        with parquet(path, comm, BATCH, shuffle=2, as_="tensorflow") as data:
            found.append([])
            for batch in data:
                assert batch.mask.dtype == tf.bool
                found[0].append(numpy_of(batch))
        with parquet(path, comm, BATCH, shuffle=2, epochs=2) as data:
            dataset = data.tf_dataset().prefetch(2)
            assert dataset.cardinality().numpy() == len(data)
            assert dataset.element_spec["array"].shape.as_list() == [None, 2]
            assert dataset.element_spec["image"].dtype == tf.string
            found += [[numpy_of(tensors) for tensors in dataset] for _ in range(2)]
            state = data.state(1)
            assert (state["epoch"], state["row"]) == (1, comm.size * BATCH)
        with parquet(path, comm, BATCH, shuffle=2, epochs=2, state=state) as data:
            dataset = data.tf_dataset()
            assert dataset.cardinality().numpy() == tf.data.UNKNOWN_CARDINALITY
            rest = [numpy_of(tensors)["id"].tolist() for tensors in dataset]
            assert rest == [batch["id"].tolist() for batch in found[2][1:]]
    return [
        (
            [row for batch in batches for row in batch["id"].tolist()],
            all(files.agrees(batch) for batch in batches),
        )
        for batches in found
    ]


def in_keras(path):
    import keras
    import sparkring.keras as hvd

    keras.utils.set_random_seed(1)
    with open_comm() as comm:
        hvd.init(comm)
        columns = {"x": ["half", "truth"], "y": "small"}
        options = {"shuffle": 2, "epochs": 3, "equalize": "drop", "dtype": "float32"}
        with parquet(path, comm, BATCH, columns=columns, **options) as data:
            dataset = data.tf_dataset().map(lambda batch: (batch["x"] / 30, batch["y"] / 60))
            model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
            model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.5)), "mse")
            steps = len(data)
            history = model.fit(dataset, epochs=3, verbose=0).history
            assert model.optimizer.iterations.numpy() == 3 * steps
        return history["loss"], [weights.tolist() for weights in model.get_weights()]


def both(path):
    """Do both in one process, because TensorFlow takes seconds to import."""
    return in_tensorflow(path), in_keras(path)


def test_datasets_of_tensorflow_and_keras(table):
    ranks = run(2, both, table)
    for epoch in zip(*(epochs for epochs, _ in ranks)):
        check(epoch)
    (losses, weights), other = (fitted for _, fitted in ranks)
    assert losses[-1] < losses[0] / 2
    assert other[1] == weights


# ---- Tables --------------------------------------------------------------------------------------


def ids_of(source, **options):
    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        (batch,) = parquet(source, comm, 1000, **options)
        return sorted(batch["id"].tolist()), batch


def plain_table(ids):
    return files.table_of(ids).select(["id", "half", "name"])


def test_tables_of_delta_lake(tmp_path):
    path = str(tmp_path / "delta")
    for start in range(0, 60, 6):
        deltalake.write_deltalake(path, plain_table(range(start, start + 6)), mode="append")
    table = deltalake.DeltaTable(path)
    table.create_checkpoint()
    assert ids_of(path)[0] == list(range(60))
    table.delete("id < 5")
    table.optimize.compact()
    assert ids_of(path)[0] == list(range(5, 60))
    assert ids_of(path, version=3)[0] == list(range(24))
    for version in range(10):
        Path(path, "_delta_log", f"{version:020}.json").unlink()
    assert ids_of(path)[0] == list(range(5, 60))
    with pytest.raises(sparkring.InvalidError, match="cannot open version 3 of the Delta table"):
        ids_of(path, version=3)
    table.alter.add_columns([Field("more", PrimitiveType("double"))])
    with pytest.raises(sparkring.InvalidError, match="there is no column 'more'"):
        ids_of(path)
    assert ids_of(path, columns=["id"])[0] == list(range(5, 60))


def test_partitions_of_delta_lake(tmp_path):
    path = str(tmp_path / "delta")
    deltalake.write_deltalake(path, plain_table(range(9)), partition_by=["name"])
    ids, batch = ids_of(path)
    assert ids == list(range(9))
    assert batch["name"].tolist() == [f"row {i}" for i in batch["id"].tolist()]


@pytest.fixture
def iceberg(tmp_path):
    """Make a table of a catalog with two files."""
    catalog = SqlCatalog("test", uri="sqlite:///:memory:", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.people", plain_table([0]).schema)
    table.append(plain_table(range(20)))
    table.append(plain_table(range(20, 30)))
    return table


def test_tables_of_iceberg(iceberg):
    table = iceberg
    assert ids_of(table)[0] == list(range(30))
    snapshot = table.current_snapshot().snapshot_id
    table.delete("id < 4")  # it writes the file anew
    assert ids_of(table)[0] == list(range(4, 30))
    assert ids_of(table, version=snapshot)[0] == list(range(30))
    with pytest.raises(sparkring.InvalidError, match="has no snapshot 7"):
        ids_of(table, version=7)


def metadata_of(table):
    return Path(table.metadata_location.removeprefix("file://"))


def test_directories_of_iceberg(iceberg):
    table = iceberg
    location = table.location().removeprefix("file://")
    with pytest.raises(sparkring.InvalidError, match="pass the table that pyiceberg has loaded"):
        ids_of(location)
    with pytest.raises(
        sparkring.InvalidError, match=f"{location} is a table of Iceberg, and its log"
    ):
        ids_of(f"{location}/data")
    metadata = metadata_of(table)
    metadata.with_name("version-hint.text").write_text("1")
    shutil.copy(metadata, metadata.with_name("v1.metadata.json"))
    metadata.with_name("v2.metadata.json").write_text("a commit that has lost its race")
    table.append(plain_table(range(30, 40)))
    assert ids_of(location, shuffle=2)[0] == list(range(30))


def change(table, *changes):
    with table.update_schema(allow_incompatible_changes=True) as update:
        for name, *arguments in changes:
            getattr(update, name)(*arguments)


@pytest.mark.parametrize(
    "changes",
    [
        [("delete_column", "half")],
        [("rename_column", "half", "other")],
        [("add_column", "more", DoubleType())],
        [("delete_column", "half"), ("add_column", "half", DoubleType())],
    ],
    ids=lambda changes: changes[-1][0] + str(len(changes)),
)
def test_columns_of_iceberg_are_matched_by_field_id(iceberg, changes):
    table = iceberg
    snapshot = table.current_snapshot().snapshot_id
    for one in changes:
        change(table, one)
    with pytest.raises(sparkring.InvalidError, match="has not the columns of the Iceberg table"):
        ids_of(table)
    assert ids_of(table, version=snapshot)[0] == list(range(30))
