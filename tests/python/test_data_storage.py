# SPDX-License-Identifier: Apache-2.0
"""The loader and its storage: drivers that fail or hang, memory, caches."""

from __future__ import annotations

import functools
import itertools
import logging
import mmap
import os
import shutil
import threading
import tracemalloc
from collections import namedtuple
from pathlib import Path

import fsspec
import numpy as np
import parquet_files as files
import pyarrow as pa
import pytest
import sparkring
from parquet_files import GROUP, table_of
from pyarrow import parquet as pq
from ranks import open_comm, outcomes, run
from sparkring import data as sparkring_data
from sparkring.data._parquet import discovery, reader, row_groups
from sparkring.data._parquet.blocks import END
from sparkring.data._parquet.columns import concatenated
from sparkring.data._parquet.reader import Reader
from sparkring.data._parquet.row_groups import RowGroups

parquet = functools.partial(sparkring_data.parquet, equalize="join")
ROWS = 40


@pytest.fixture
def table(tmp_path):
    return files.write(tmp_path / "table", [ROWS])


def ids_of(data):
    return [row for batch in data for row in batch["id"].tolist()]


class Watched(fsspec.get_filesystem_class("file")):
    """Calls `before` before each read of a file."""

    cachable = False

    def _open(self, path, *arguments, **options):
        file = super()._open(path, *arguments, **options)
        read = file.read

        def watched(*arguments):
            self.before(path)
            return read(*arguments)

        file.read = watched
        return file

    def before(self, path):
        pass


# ---- Drivers that fail or hang -------------------------------------------------------------------


class DriverError(Exception):
    """Drivers of fsspec have errors of their own."""


def driver_fails(path):
    watched = Watched()

    def fail(path):
        raise DriverError("503")

    with open_comm() as comm, parquet(path, comm, 4, filesystem=watched) as data:
        if comm.rank == 1:
            watched.before = fail
        for _ in data:
            comm.barrier()


def test_a_driver_that_fails(table):
    path = f"{table}/part-000.parquet"
    bystander, culprit = outcomes(2, driver_fails, table)
    text = f": row group 2 of {path}: DriverError: 503"
    assert isinstance(culprit.error, sparkring.InvalidError) and culprit.error.rank == 1
    assert str(culprit.error).startswith("rank 1 (") and text in str(culprit.error)
    assert isinstance(bystander.error, sparkring.AbortedError) and text in str(bystander.error)


def test_a_driver_that_fails_at_the_footers(comm, table):
    watched = Watched()
    watched.before = lambda path: 1 / 0
    with pytest.raises(sparkring.InvalidError, match=r"part-000.parquet: division by zero"):
        parquet(table, comm, 4, filesystem=watched)


def test_a_storage_that_hangs(comm, tmp_path, monkeypatch):
    """The reader waits for it, and nobody waits for the reader."""
    monkeypatch.setattr(reader, "CLOSE", 0.01)
    path = files.write(tmp_path / "many", [5] * 9)
    watched, hangs, goes_on = Watched(), threading.Event(), threading.Event()
    with parquet(path, comm, 5, filesystem=watched) as data:
        batches = iter(data)

        def hang(path):
            if "005" in path:
                hangs.set()
                goes_on.wait()

        watched.before = hang
        next(batches)
        for _ in range(3):
            next(batches)
        assert hangs.wait(60)
    (thread,) = (one for one in threading.enumerate() if one.name == "sparkring-reader")
    with pytest.raises(sparkring.InvalidError, match="the loader is closed"):
        next(batches)
    goes_on.set()
    thread.join(60)
    assert not thread.is_alive()


def test_close_ends_an_iteration(comm, table):
    data = parquet(table, comm, 3)
    batches = iter(data)
    next(batches)
    data.close()
    with pytest.raises(sparkring.InvalidError, match="the loader is closed"):
        next(batches)


def test_close_ends_a_wait(comm, table, monkeypatch):
    """Also that of another thread, such as the one of tf.data."""
    monkeypatch.setattr(reader, "CLOSE", 0.01)
    watched, hangs, goes_on = Watched(), threading.Event(), threading.Event()
    data = parquet(table, comm, 3, filesystem=watched)

    def hang(path):
        hangs.set()
        goes_on.wait()

    watched.before = hang
    errors = []

    def take():
        with pytest.raises(sparkring.InvalidError) as caught:
            list(data)
        errors.append(str(caught.value))

    thread = threading.Thread(target=take)
    thread.start()
    assert hangs.wait(60)
    data.close()
    thread.join(60)
    goes_on.set()
    assert errors == ["the loader is closed: make another one"]


def rank_1_is_wrong(path):
    with open_comm() as comm:
        parquet(path, comm, comm.size - 1 - comm.rank)


def test_a_wrong_argument_of_one_rank(table):
    for outcome in outcomes(2, rank_1_is_wrong, table):
        assert isinstance(outcome.error, sparkring.InvalidError)
        assert str(outcome.error).startswith("rank 1: batch_size is 0: it must be")


# ---- Memory --------------------------------------------------------------------------------------


def large_files(folder, count, rows):
    """Write files of one row group each, which no encoding makes smaller."""
    folder.mkdir()
    random = np.random.default_rng(1)
    for number in range(count):
        table = pa.table({"x": random.random(rows)})
        pq.write_table(table, folder / f"{number:02}", compression="none", use_dictionary=False)
    return str(folder)


def test_files_that_stay_open_keep_no_rows(comm, tmp_path):
    size = 1 << 20
    path = large_files(tmp_path / "large", 24, size // 8)
    with parquet(path, comm, 1000, shuffle=1, filesystem=Watched()) as data:
        tracemalloc.start()  # fsspec reads bytes of Python
        most = max(tracemalloc.get_traced_memory()[0] for _ in data)
        tracemalloc.stop()
    assert most < 8 * size


def test_large_row_groups_are_read_in_parts(comm, tmp_path, monkeypatch):
    path = files.write(tmp_path / "table", [100], group=60)
    monkeypatch.setattr(row_groups, "PART", 1000)
    with parquet(path, comm, 7) as data:
        groups = RowGroups(data._manifest, data._location, None)
        whole = groups.read(0)
        for start, end in itertools.combinations(range(0, 61, 4), 2):
            parts = list(groups.parts(0, start, end))
            assert pa.concat_tables(parts).equals(whole.slice(start, end - start))
        assert len(parts := list(groups.parts(0, 0, 60))) > 3
        assert max(part.num_rows for part in parts) < 20
        groups.close()
        assert ids_of(data) == list(range(100))


def test_large_windows_are_warned_of(comm, table, caplog, monkeypatch):
    monkeypatch.setattr(discovery, "MEMORY", 5 * 150)
    with caplog.at_level(logging.WARNING, "sparkring"):
        parquet(table, comm, 4, columns="id", shuffle=2)
        assert caplog.messages == []
        parquet(table, comm, 4, shuffle=2)
    (text,) = caplog.messages
    assert "shuffle=2 takes about 0 MB of each rank: pass a smaller shuffle=" in text


def test_two_gigabytes_of_strings():
    """Arrow's sum of lengths does not touch the bytes, which are pages that nobody has written."""
    size = (1 << 30) + 1
    data = pa.py_buffer(mmap.mmap(-1, size, prot=mmap.PROT_READ))
    offsets = pa.py_buffer(np.array([0, size], np.int32))
    part = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, data])
    with pytest.raises(
        sparkring.InvalidError, match=r"binary has 2,147,.* Pass a smaller shuffle="
    ):
        concatenated([part, part], part.type)


def test_epochs_without_rows_wait():
    made = []

    def epochs():
        for number in itertools.count():
            made.append(number)
            yield END

    some = Reader(epochs())
    for _ in range(10):
        assert some.get() is END
    some.close()
    assert len(made) <= 10 + reader.AHEAD


def endless(path):
    with open_comm() as comm, parquet(path, comm, 2, epochs=None) as data:
        return [ids_of(data) for _ in range(3)]


def test_fewer_rows_than_ranks(tmp_path):
    path = files.write(tmp_path / "one", [1])
    assert run(3, endless, path) == [[[0]] * 3, [[]] * 3, [[]] * 3]


# ---- Cache ---------------------------------------------------------------------------------------


def cached(path, directory):
    with open_comm() as comm, parquet(path, comm, 4, epochs=2, shuffle=2, cache=directory) as data:
        return [ids_of(data) for _ in range(2)]


def test_two_ranks_fill_a_cache(table, tmp_path):
    directory = tmp_path / "cache"
    ranks = run(2, cached, table, str(directory))
    for epoch in zip(*ranks):
        assert sorted(itertools.chain(*epoch)) == list(range(ROWS))
    (folder,) = directory.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(list(folder.iterdir())) == -(-ROWS // GROUP)


def damage(folder):
    """Replace cached row groups by what a crash, another program or another user may leave."""
    whole = (folder / "0.arrow").read_bytes()
    (folder / "0.arrow").write_bytes(whole[: len(whole) // 2])
    (folder / "1.arrow").write_bytes(b"")
    (folder / "2.arrow").unlink()
    (folder / "2.arrow").mkdir()
    other = table_of(range(3))
    with pa.ipc.new_file(folder / "3.arrow", other.schema) as writer:
        writer.write_table(other)
    flipped = bytearray((folder / "4.arrow").read_bytes())
    flipped[flipped.index(np.arange(4 * GROUP, 5 * GROUP).tobytes())] ^= 1
    (folder / "4.arrow").write_bytes(flipped)


def test_a_damaged_cache_is_no_error(comm, table, tmp_path, caplog):
    with parquet(table, comm, 4, cache=tmp_path / "cache") as data:
        assert ids_of(data) == list(range(ROWS))
    (folder,) = (tmp_path / "cache").iterdir()
    damage(folder)
    with parquet(table, comm, 4, cache=tmp_path / "cache") as data:
        assert ids_of(data) == list(range(ROWS))
    *damaged, text = sorted(caplog.messages, key=lambda text: "not cached" in text)
    assert "further row groups are not cached" in text and "Is a directory" in text
    for number, text in zip((0, 1, 3, 4), damaged):
        assert f"the cached row group {folder}/{number}.arrow is damaged" in text
    assert len(damaged) == 4


def test_a_cache_that_is_deleted_is_no_error(comm, table, tmp_path, caplog):
    with parquet(table, comm, 4, epochs=2, cache=tmp_path / "cache") as data:
        shutil.rmtree(tmp_path / "cache")
        assert [ids_of(data) for _ in range(2)] == [list(range(ROWS))] * 2
    (text,) = caplog.messages
    assert "No such file or directory" in text


def test_a_cache_leaves_half_of_the_free_space(comm, table, tmp_path, caplog, monkeypatch):
    free = iter([100, 100, 50, *[49] * 100])
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(next(free)))
    with parquet(table, comm, 4, cache=tmp_path / "cache") as data:
        assert ids_of(data) == list(range(ROWS))
    (folder,) = (tmp_path / "cache").iterdir()
    assert sorted(os.listdir(folder)) == ["0.arrow", "1.arrow"]
    (text,) = caplog.messages
    assert "half of the space that was free is in use" in text


def test_a_cache_of_another_user(comm, table, tmp_path, monkeypatch):
    parquet(table, comm, 4, cache=tmp_path)
    (folder,) = tmp_path.glob("sparkring-*")
    stat = Path.stat
    other = list(folder.stat())[:10]
    other[4] += 1  # st_uid
    other = os.stat_result(other)
    monkeypatch.setattr(
        Path, "stat", lambda path, **options: other if path == folder else stat(path, **options)
    )
    with pytest.raises(sparkring.InvalidError, match="belongs to another user"):
        parquet(table, comm, 4, cache=tmp_path)
