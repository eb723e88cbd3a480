# SPDX-License-Identifier: Apache-2.0
"""Epochs of the loader: every row once, in equal steps, also after a kill and on other ranks."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import pickle
import random
import signal
import sys
from collections import Counter
from pathlib import Path

import parquet_files as files
import pytest
import sparkring
from parquet_files import (
    BATCH,
    COUNTS,
    ROWS,
    alone,
    order_of,
    parquet,
    seen,
)
from ranks import launch, open_comm, run

SHUFFLES = [False, 1, 3]
WAYS = ["join", "pad", "drop"]


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


def test_a_table_without_rows(tmp_path):
    path = files.write(tmp_path / "none", [0, 0])
    assert alone(path) == []
