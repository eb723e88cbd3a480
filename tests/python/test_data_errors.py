# SPDX-License-Identifier: Apache-2.0
"""Errors of the loader: damaged files, arguments, ranks that differ."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sparkring
from parquet_files import BATCH, parquet, refused, table_of
from pyarrow import parquet as pq
from ranks import open_comm, outcomes, run


def reads(path):
    with open_comm() as comm, parquet(path, comm, BATCH) as data:
        for _ in data:
            pass


def corrupt(path, group):
    """Overwrite the data of a row group."""
    column = pq.read_metadata(path).row_group(group).column(1)
    with open(path, "r+b") as file:
        file.seek(column.dictionary_page_offset or column.data_page_offset)
        file.write(b"\xff" * column.total_compressed_size)


def test_a_corrupt_row_group(table):
    path = f"{table}/part-003.parquet"
    corrupt(path, 4)  # the last of rank 1
    bystander, culprit = outcomes(2, barriers, table)
    text = str(culprit.error)
    assert isinstance(culprit.error, sparkring.InvalidError) and culprit.error.rank == 1
    assert text.startswith("rank 1 (") and f"): row group 4 of {path}: it cannot be read: " in text
    assert isinstance(bystander.error, sparkring.AbortedError) and bystander.error.rank == 1
    assert f"row group 4 of {path}" in str(bystander.error)


def test_a_corrupt_first_row_group(table):
    path = f"{table}/part-000.parquet"
    corrupt(path, 0)
    for outcome in outcomes(2, reads, table):
        assert isinstance(outcome.error, sparkring.InvalidError), outcome
        assert str(outcome.error).startswith("rank 0: "), outcome.error
        assert f"row group 0 of {path}: it cannot be read: " in str(outcome.error)


def barriers(path, change=None):
    with open_comm() as comm, parquet(path, comm, BATCH) as data:
        if change is not None and comm.rank == 0:
            pq.write_table(table_of(range(7)), change)
        comm.barrier()
        for _ in data:
            comm.barrier()


def test_a_file_that_has_changed(table):
    path = f"{table}/part-004.parquet"
    pq.write_table(table_of(range(54, 61)), path)
    bystander, culprit = outcomes(2, barriers, table, path)
    assert str(culprit.error).startswith("rank 1 (")
    assert f"row group 0 of {path}: the file has changed since rank 0 listed it" in str(
        culprit.error
    )
    assert isinstance(bystander.error, sparkring.AbortedError)


def test_a_file_that_is_gone(table):
    culprit = outcomes(1, removes, table)[0]
    assert f"row group 0 of {table}/part-000.parquet: it cannot be read" in str(culprit.error)
    assert "Every host must be able to read the file" in str(culprit.error)


def removes(path):
    with open_comm() as comm, parquet(path, comm, BATCH) as data:
        shutil.rmtree(path)
        next(iter(data))


def test_files_that_are_cut_off(table):
    path = Path(table, "part-001.parquet")
    whole = path.read_bytes()
    for data, text in (
        (whole[:-10], "it is no Parquet file, or not written to its end"),
        (whole[:-1] + b"E", "its footer is encrypted"),
        (b"", "it is no Parquet file"),
        (whole[-30:-8] + (10**6).to_bytes(4, "little") + b"PAR1", "it is cut off: its footer"),
    ):
        path.write_bytes(data)
        refused(f"the file {path}: {text}", table)


OTHERS = [
    {"batch_size": 5},
    {"shuffle": True},
    {"seed": 3},
    {"epochs": None},
    {"equalize": "pad"},
    {"columns": ["id"]},
    {"dtype": {"id": "int8"}},
    {"missing": 0},
    {"version": 3},
    {"state": {"epoch": 1}},
]


def differ(path):
    texts = []
    with open_comm() as comm:
        for other in OTHERS:
            with pytest.raises(sparkring.MismatchError) as caught:
                parquet(path, comm, **{"batch_size": 4, **(other if comm.rank else {})})
            texts.append(str(caught.value))
    return texts


def test_ranks_that_differ(table):
    for texts in run(2, differ, table):
        for text, other in zip(texts, OTHERS):
            assert f"rank 1 has {next(iter(other))}=" in text


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"batch_size": 0}, "batch_size is 0: it must be a whole number from 1 on"),
        ({"shuffle": -1}, "shuffle is -1"),
        ({"seed": 0.5}, "seed is 0.5"),
        ({"epochs": 0}, "epochs is 0"),
        ({"equalize": None}, "equalize is None: it must be one of 'pad', 'drop', 'join'"),
        ({"as_": "mxnet"}, "as_ is 'mxnet'"),
        ({"columns": 0}, "columns has 0: columns of Parquet have names"),
        ({"columns": {"x": ["name", "id"]}}, "column 'name': it holds string"),
        ({"dtype": {"name": "int8"}}, "dtype names 'name', which holds string"),
        ({"dtype": {"y": "int8"}}, "dtype names ['y']"),
        ({"state": 3}, "state is of type int"),
        ({"state": {"epoch": {1}}}, "state is of type dict"),
        ({"comm": None}, "comm is of type NoneType"),
        ({"filesystem": 3}, "filesystem is of type int: pass a file system of pyarrow.fs"),
    ],
    ids=str,
)
def test_arguments_that_make_no_sense(comm, table, wrong, text):
    with pytest.raises(sparkring.InvalidError) as caught:
        parquet(**{"path_or_frame": table, "comm": comm, "batch_size": 4, **wrong})
    assert text in str(caught.value)


def test_packages_that_are_missing(table, monkeypatch):
    for name in ("jax", "tensorflow"):
        monkeypatch.setitem(sys.modules, name, None)
        refused(f'as_="{name}" needs the package {name}', table, as_=name)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    refused("pip install 'sparkring[data]'", table)


def test_nothing_is_imported_unless_asked_for(table):
    code = f"""
import sys, sparkring
from sparkring.data import parquet
assert "pyarrow" not in sys.modules
comm = sparkring.init(rank=0, addresses=["localhost"])
numbers = ["id", "half", "truth", "array"]
assert len(list(parquet({table!r}, comm, 20, columns=numbers, shuffle=2))) == 4
print(*{{"torch", "tensorflow", "jax", "pandas", "fsspec", "pyspark"}} & set(sys.modules))
"""
    job = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert job.stdout == "\n"
