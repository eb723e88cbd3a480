# SPDX-License-Identifier: Apache-2.0
"""The loader's reader: its cache, its thread, and the end of both."""

from __future__ import annotations

import gc
import logging
import os
import resource
import shutil
import subprocess
import sys
import threading

import fsspec
import parquet_files as files
import pytest
import sparkring
from parquet_files import BATCH, COUNTS, GROUP, ROWS, order_of, parquet, seen
from ranks import open_comm, run


def twice(path, cache):
    with open_comm() as comm, parquet(path, comm, BATCH, shuffle=2, epochs=2, cache=cache) as data:
        first = seen(data, 1)
        comm.barrier()
        if comm.rank == 0:
            shutil.rmtree(path)
        comm.barrier()
        return first + seen(data, 1)


def test_a_cache_replaces_the_files(comm, table, tmp_path):
    cache = tmp_path / "cache"
    expected, found = (
        seen(parquet(table, comm, BATCH, shuffle=2, epochs=2, cache=path), 2)
        for path in (None, str(cache))
    )
    assert found == expected
    names = sorted(int(path.stem) for path in cache.glob("*/*"))
    assert names == list(range(sum(-(-count // GROUP) for count in COUNTS)))
    found = run(2, twice, table, str(cache))
    for epoch in range(2):
        assert order_of([rank[epoch] for rank in found]) == order_of([expected[epoch]])


def warnings_of(handler):
    """Keep the warnings of sparkring in a list."""
    warnings = []
    handler.emit = lambda record: warnings.append(record.getMessage())
    logging.getLogger("sparkring").addHandler(handler)
    return warnings


def limited(path, cache):
    warnings = warnings_of(logging.Handler())
    with open_comm() as comm, parquet(path, comm, BATCH, epochs=2, cache=cache) as data:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        found = seen(data, 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    return found, [text for text in warnings if "not cached" in text]


def test_a_full_disk_ends_the_growth_of_a_cache(table, tmp_path):
    ((found, warnings),) = run(1, limited, table, str(tmp_path))
    assert order_of([found[0]]) == list(range(ROWS))
    assert len(warnings) == 1 and "File too large" in warnings[0]
    assert [path.name for path in tmp_path.glob("sparkring-*/.*")] == []


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "sparkring-reader"]


def wait_for_threads():
    """Wait for readers of loaders that nobody closes: those are signalled only."""
    for thread in threads():
        thread.join(60)
    assert threads() == []


@pytest.fixture
def endless(comm, table):
    assert threads() == []
    return lambda: parquet(table, comm, BATCH, shuffle=2, epochs=None)


def test_the_thread_ends_with_the_block(endless):
    with endless() as data:
        assert threads() == []  # until the first batch is taken
        batches = iter(data)
        next(batches)
        assert len(threads()) == 1
        others = iter(data)
        next(others)
        assert len(threads()) == 1
    assert threads() == []
    with pytest.raises(sparkring.InvalidError, match="the loader is closed"):
        next(iter(data))


def test_the_thread_ends_with_the_generator(endless):
    batches = iter(endless())
    next(batches)
    assert len(threads()) == 1
    batches.close()
    assert threads() == []


def test_the_thread_ends_with_an_error_of_the_loop(endless):
    data = endless()
    with pytest.raises(ZeroDivisionError):
        for batch in data:
            batch["id"] / (batch.rows // 0)
    gc.collect()
    wait_for_threads()


def test_the_thread_ends_with_the_loader(endless):
    for _ in endless():
        pass
    gc.collect()
    wait_for_threads()


def test_the_thread_ends_after_the_last_epoch(comm, table):
    data = parquet(table, comm, BATCH)
    for _ in data:
        pass
    wait_for_threads()
    with pytest.raises(sparkring.InvalidError, match="this is epoch 2 of 1: pass a larger epochs"):
        next(iter(data))


@pytest.mark.parametrize("end", ["", "raise SystemExit", "os._exit(0)"])
def test_a_process_ends_with_its_thread(table, end):
    code = f"""
import os, sparkring
from sparkring.data import parquet
comm = sparkring.init(rank=0, addresses=["localhost"])
data = parquet({table!r}, comm, 2, epochs=None)
batches = iter(data)
next(batches)
{end}
"""
    job = subprocess.run(
        [sys.executable, "-c", code], timeout=60, capture_output=True, text=True, check=False
    )
    assert (job.returncode, job.stderr) == (0, "")


def test_it_reads_two_row_groups_ahead(comm, tmp_path):
    """Counted by a file system of fsspec, of files with one row group each."""
    opened = []

    class Counting(fsspec.get_filesystem_class("file")):
        def _open(self, path, *arguments, **options):
            opened.append(path)
            return super()._open(path, *arguments, **options)

    path = files.write(tmp_path / "many", [5] * 20)
    with parquet(path, comm, 5, filesystem=Counting()) as data:
        opened.clear()
        for step, _ in zip(range(6), data):
            for _ in range(1000):
                if len(opened) >= step + 3:
                    break
                threading.Event().wait(0.01)
            threading.Event().wait(0.05)
            assert len(opened) == step + 3


def forked(path):
    with open_comm() as comm:
        data = parquet(path, comm, BATCH, epochs=2)
        batches = iter(data)
        next(batches)
        child = os.fork()
        if child == 0:
            try:
                list(batches)
            except sparkring.UnsupportedError as error:
                os._exit(7 if "is a fork of the one" in str(error) else 1)
            os._exit(2)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.forks
def test_a_fork_raises(table):
    assert run(1, forked, table) == [7]


READS_AT_EXIT = """
import sys, time, fsspec, sparkring
from fsspec.implementations.local import LocalFileOpener, LocalFileSystem
from sparkring.data import parquet

class SlowFile(LocalFileOpener):
    def read(self, length=-1):
        time.sleep(0.001)
        return super().read(length)

class SlowSystem(LocalFileSystem):
    def _open(self, path, mode="rb", block_size=None, **options):
        return SlowFile(path, mode, fs=self, **options)

class SlowEnd:
    def __del__(self, sleep=time.sleep):
        sleep(0.5)  # the interpreter is being finalized

sys.end = SlowEnd()
comm = sparkring.init(rank=0, addresses=["localhost"])
data = parquet(sys.argv[1], comm, 5, epochs=None, filesystem=SlowSystem())
batches = iter(data)
next(batches)
data._reader._groups = -10000  # it reads on and on
with data._reader._changed:
    data._reader._changed.notify_all()
"""


def test_a_file_system_in_python_is_read_at_exit(table):
    """Arrow's threads cannot come back to Python after it has ended: the process would hang."""
    code = [sys.executable, "-c", READS_AT_EXIT, table]
    job = subprocess.run(code, capture_output=True, text=True, timeout=60)
    assert (job.returncode, job.stdout, job.stderr) == (0, "", "")
