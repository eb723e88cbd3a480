# SPDX-License-Identifier: Apache-2.0
"""The loader on ranks: every row once, also after a kill, and errors that say where."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import json
import logging
import math
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from decimal import Decimal
from pathlib import Path

import fsspec
import numpy as np
import parquet_files as files
import pyarrow as pa
import pytest
import sparkring
from parquet_files import GROUP, agrees, table_of
from pyarrow import fs
from pyarrow import parquet as pq
from ranks import launch, open_comm, outcomes, run
from sparkring import data as sparkring_data

parquet = functools.partial(sparkring_data.parquet, equalize="join")
COUNTS = (20, 3, 0, 31, 7)
ROWS = sum(COUNTS)
BATCH = 4
SHUFFLES = [False, 1, 3]
WAYS = ["join", "pad", "drop"]


@pytest.fixture
def table(tmp_path):
    return files.write(tmp_path / "table", COUNTS)


def seen(data, epochs):
    """What a rank gets, in plain Python."""
    return [
        [
            {
                "ids": batch["id"].tolist(),
                "mask": batch.mask.tolist(),
                "rows": batch.rows,
                "total": batch.total,
                "place": (batch.epoch, batch.step),
                "agrees": agrees(batch),
            }
            for batch in data
        ]
        for _ in range(epochs)
    ]


def every_way(path, comm=None):
    found = {}
    with open_comm() if comm is None else contextlib.nullcontext(comm) as comm:
        for equalize, shuffle in itertools.product(WAYS, SHUFFLES):
            with parquet(
                path, comm, BATCH, shuffle=shuffle, seed=7, epochs=2, equalize=equalize
            ) as data:
                calls, steps = comm.counters()["calls"], len(data)
                found[equalize, shuffle] = steps, seen(data, 2)
                assert comm.counters()["calls"] == calls  # no message
                assert data.rows == ROWS
    return found


@pytest.fixture(scope="module")
def by_one_rank(tmp_path_factory):
    """Read a table with one rank, in this process."""
    path = files.write(tmp_path_factory.mktemp("data") / "table", COUNTS)
    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        found = every_way(path, comm)
    check_ways([found])
    return path, found


@pytest.mark.parametrize("size", [2, 3, 5, 7])
def test_every_row_once_and_equal_steps(by_one_rank, size):
    table, alone = by_one_rank
    ranks = run(size, every_way, table)
    check_ways(ranks)
    for way in itertools.product(["join", "pad"], SHUFFLES):  # the order does not depend on size
        for epoch in range(2):
            order = order_of([rank[way][1][epoch] for rank in ranks])
            assert order == order_of([alone[way][1][epoch]])


def check_ways(ranks):
    for equalize, shuffle in itertools.product(WAYS, SHUFFLES):
        found = [rank[equalize, shuffle] for rank in ranks]
        steps = found[0][0]
        for epoch in range(2):
            check_epoch([taken[epoch] for _, taken in found], equalize, epoch, steps, shuffle)
        one, other = (order_of([taken[epoch] for _, taken in found]) for epoch in range(2))
        assert shuffle is False or one != other


def order_of(ranks):
    return [
        row
        for taken in ranks
        for batch in taken
        for row, counts in zip(batch["ids"], batch["mask"])
        if counts
    ]


def check_epoch(ranks, equalize, epoch, steps, shuffle):
    size = len(ranks)
    most = -(-ROWS // size)
    assert steps == (ROWS // size // BATCH if equalize == "drop" else -(-most // BATCH))
    for taken in ranks:
        assert [batch["place"] for batch in taken] == [(epoch, step) for step in range(steps)]
        assert all(batch["agrees"] for batch in taken)
        for batch in taken:
            assert batch["rows"] == sum(batch["mask"])
            assert batch["mask"] == sorted(batch["mask"], reverse=True)
            assert len(batch["ids"]) == (batch["rows"] if equalize == "join" else BATCH)
    for batches in zip(*ranks):
        assert {batch["total"] for batch in batches} == {sum(batch["rows"] for batch in batches)}
    order = order_of(ranks)
    if equalize == "drop":
        assert len(set(order)) == len(order) == steps * size * BATCH
        return
    assert sorted(order) == list(range(ROWS))
    assert shuffle is not False or order == list(range(ROWS))
    assert {sum(batch["rows"] for batch in taken) for taken in ranks} <= {ROWS // size, most}


# ---- Going on ------------------------------------------------------------------------------------


def until_killed(path, folder, state, stop):
    """Keep the ids of each step and the state after it, until a rank is killed."""
    folder = Path(folder)
    with open_comm() as comm:
        data = parquet(path, comm, 2, shuffle=2, seed=5, epochs=2, state=state)
        for epoch in range(data.epoch, 2):
            for batch in data:
                comm.barrier()
                if stop == (epoch, batch.step) and comm.rank == comm.size - 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                comm.barrier()
                name = f"{epoch}-{data.state()['row']}-{comm.rank}"
                (folder / name).write_text(json.dumps([batch["id"].tolist(), data.state()]))


def job(folder, size, function, *arguments):
    """Run a function on ranks of which one may be killed."""
    work = (function.__module__, function.__name__, arguments)
    (folder / "work").write_bytes(pickle.dumps(work))
    return launch(size, sys.executable, str(Path(__file__).parent / "ranks.py"), str(folder))


def kept(folder):
    """The ids of each epoch, and the last state: an epoch's end has the largest number of rows."""
    counts, last = {0: Counter(), 1: Counter()}, ((0, 0), None)
    for path in folder.iterdir():
        epoch, _ = (int(part) for part in path.name.split("-")[:2])
        ids, state = json.loads(path.read_text())
        counts[epoch].update(ids)
        last = max(last, ((state["epoch"], state["row"]), state), key=lambda pair: pair[0])
    return counts, last[1]


def steps_ahead(state, size):
    """The steps of both epochs that follow a state."""
    start, row = (state["epoch"], state["row"]) if state else (0, 0)
    left = {epoch: ROWS - row if epoch == start else ROWS for epoch in range(start, 2)}
    return [
        (epoch, step)
        for epoch, rows in left.items()
        for step in range(math.ceil(math.ceil(rows / size) / 2))
    ]


def test_rows_after_a_kill_at_any_step_on_other_ranks(table, tmp_path):
    dice = random.Random(11)
    folder, state = tmp_path / "kept", None
    folder.mkdir()
    for size in (2, 3, 1, 4):
        stop = None if size == 4 else dice.choice(steps_ahead(state, size)[1:6])
        ended = job(tmp_path, size, until_killed, table, str(folder), state, stop)
        assert ended.returncode == (0 if stop is None else 128 + signal.SIGKILL), ended
        before, state = state, kept(folder)[1]
        assert state != before
    counts, _ = kept(folder)
    assert counts == {0: Counter(range(ROWS)), 1: Counter(range(ROWS))}
    assert state["epoch"] == 2


def some_steps(path, states, steps):
    """Take the ids of some steps of each way, and the state after them."""
    found = {}
    with open_comm() as comm:
        for equalize, state in states.items():
            options = {"shuffle": 2, "state": state, "equalize": equalize}
            with parquet(path, comm, 3, **options) as data:
                found[equalize] = seen_until(data, steps), data.state()
    return found


def seen_until(data, steps):
    return [
        row
        for batch in itertools.islice(data, steps)
        for row, counts in zip(batch["id"].tolist(), batch.mask.tolist())
        if counts
    ]


def test_going_on_with_other_ranks(table):
    first = run(3, some_steps, table, {"pad": None, "drop": None}, 3)
    states = {equalize: state for equalize, (_, state) in first[0].items()}
    rest = run(2, some_steps, table, states, None)
    for equalize, left in (("pad", 0), ("drop", (ROWS - 27) % 6)):
        ids = [row for rank in (*first, *rest) for row in rank[equalize][0]]
        assert len(ids) == len(set(ids)) == ROWS - left
        assert {rank[equalize][1]["epoch"] for rank in rest} == {1}


def goes_on(path, stop):
    """The batches of an epoch, in one go and in two."""
    with open_comm() as comm:
        options = {"shuffle": 2, "epochs": 2}
        with parquet(path, comm, BATCH, **options) as data:
            whole = seen(data, 2)
            state = data.state()
            assert state["epoch"] == 2 and state["row"] == 0
        with parquet(path, comm, BATCH, **options) as data:
            first = [batch["id"].tolist() for batch in itertools.islice(data, stop)]
            state = data.state()
            assert data.state(1)["row"] == comm.size * BATCH
            assert data.state(0)["row"] == 0
        with parquet(path, comm, BATCH, state=state, **options) as data:
            assert data.epoch == 0
            assert data.state() == state
            assert len(data) == len(whole[0]) - stop
            rest = seen(data, 2)
            assert data.epoch == 2
        ids = [batch["ids"] for batch in whole[0]]
        assert first == ids[:stop]
        assert [batch["ids"] for batch in rest[0]] == ids[stop:]
        assert [batch["total"] for batch in rest[0]] == [x["total"] for x in whole[0][stop:]]
        assert rest[1] == whole[1]
        return state


def test_going_on_with_the_same_ranks_changes_no_batch(table):
    states = run(3, goes_on, table, 3)
    assert states[0] == states[1] == states[2]
    assert states[0]["ranks"] == [[3, 36]]


def leaves_early(path):
    with open_comm() as comm, parquet(path, comm, BATCH, shuffle=2, epochs=None) as data:
        for batch in data:
            if batch.step == 1:
                break
        middle = data.state()
        second = iter(data)
        for _ in range(2):
            next(second)
        third = seen(data, 1)[0]
        with pytest.raises(sparkring.InvalidError, match="a later iteration has begun"):
            next(second)
        return middle["row"], third


def test_an_epoch_may_be_left_early(table):
    found = run(2, leaves_early, table)
    assert [row for row, _ in found] == [2 * 2 * BATCH] * 2
    check_epoch([third for _, third in found], "join", 2, 8, True)


def test_a_look_at_the_first_batch_is_no_epoch(comm, table):
    whole = [batch["id"].tolist() for batch in parquet(table, comm, BATCH, shuffle=2)]
    with parquet(table, comm, BATCH, shuffle=2) as data:
        for _ in range(2):
            assert next(iter(data))["id"].tolist() == whole[0]
            assert (data.epoch, len(data)) == (0, len(whole))
        assert [batch["id"].tolist() for batch in data] == whole
        with pytest.raises(sparkring.InvalidError, match="this is epoch 2 of 1"):
            next(iter(data))
    with parquet(table, comm, BATCH, shuffle=2) as data:
        assert len(list(itertools.islice(data, 2))) == 2
        state = data.state()
    with parquet(table, comm, BATCH, shuffle=2, state=state) as data:  # also in its middle
        next(iter(data))
        assert [batch["id"].tolist() for batch in data] == whole[2:]
    with parquet(table, comm, 1000) as data:  # the first batch is the last
        next(iter(data))
        assert len(list(data)) == 1


# ---- Columns -------------------------------------------------------------------------------------


def alone(path, batch_size=1000, **options):
    """Read all rows of an epoch, in this process."""
    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        return list(parquet(path, comm, batch_size, **options))


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


VECTOR = pa.struct(
    [
        ("type", pa.int8()),
        ("size", pa.int32()),
        ("indices", pa.list_(pa.int32())),
        ("values", pa.list_(pa.float64())),
    ]
)


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


def test_uris_are_percent_encoded(tmp_path):
    folder = tmp_path / "50% of ü"
    folder.mkdir()
    pq.write_table(pa.table({"id": [7]}), folder / "a.parquet")
    for source in (folder, folder.as_uri(), [(folder / "a.parquet").as_uri()], f"file:{folder}"):
        assert alone(source)[0]["id"].tolist() == [7]


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


# ---- Cache ---------------------------------------------------------------------------------------


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


# ---- The thread ----------------------------------------------------------------------------------


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


# ---- Errors --------------------------------------------------------------------------------------


def reads(path, options=None):
    with open_comm() as comm, parquet(path, comm, BATCH, **(options or {})) as data:
        for _ in data:
            pass


def refused(text, path, **options):
    """Expect the error before the first batch, on one rank."""
    with pytest.raises(sparkring.InvalidError) as caught:
        alone(path, BATCH, **options)
    assert str(caught.value).startswith("rank 0: ") and text in str(caught.value)


def all_ranks_raise(text, path, options=None):
    for outcome in outcomes(2, reads, path, options):
        assert isinstance(outcome.error, sparkring.InvalidError), outcome
        assert str(outcome.error).startswith("rank 0: "), outcome.error
        assert text in str(outcome.error)


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
    all_ranks_raise(f"row group 0 of {path}: it cannot be read: ", table)


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


def test_a_table_without_rows(tmp_path):
    path = files.write(tmp_path / "none", [0, 0])
    assert alone(path) == []


# ---- Paths ---------------------------------------------------------------------------------------

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


@functools.cache
def partition_names():
    return {"year=2023/kind=a%20b": 3, "year=2024/kind=c": 4, "year=2024/kind=" + NULL: 2}


NULL = "__HIVE_DEFAULT_PARTITION__"


def test_partition_columns(tmp_path):
    start = 0
    for name, count in partition_names().items():
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
