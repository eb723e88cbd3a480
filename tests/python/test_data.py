# SPDX-License-Identifier: Apache-2.0
"""Batches on ranks: every row once, and as many steps on all ranks."""

from __future__ import annotations

import functools
import itertools
import logging
import math
import os

import numpy as np
import pandas as pd
import pytest
import sparkring
from ranks import open_comm, outcomes, run
from sparkring.data import batches

BATCH, EPOCHS = 8, 3
WAYS = ["pad", "drop", "join", None]
SHUFFLES = [0, 5, 1000]
SIZES = [(20, 0, 7), (8, 16), (0, 0), (3, 100, 24, 1)]


def ids_of(rank, size):
    return np.arange(size) + 1000 * rank


def frames(rank, size, together=6):
    """Data frames of a rank's rows, with an empty one among them."""
    ids = ids_of(rank, size)
    table = pd.DataFrame({"id": ids, "half": ids / 2, "small": ids.astype("int16")})
    for start in range(0, size, together):
        yield table[start : start + together]
        yield table[:0]


def seen(data, epochs=EPOCHS):
    """What a rank gets, in plain Python."""
    return [
        [
            {
                "ids": batch["id"].tolist(),
                "mask": batch.mask.tolist(),
                "rows": batch.rows,
                "total": batch.total,
                "place": (batch.epoch, batch.step),
                "types": {name: (x.dtype.str, x.shape[1:]) for name, x in batch.items()},
                "agrees": bool((batch["x"] == np.stack([batch["id"], batch["id"] / 2], 1)).all()),
            }
            for batch in data
        ]
        for _ in range(epochs)
    ]


COLUMNS = {"id": "id", "x": ["id", "half"], "small": "small"}


def every_way(sizes, memory=1 << 30):
    found = {}
    with open_comm() as comm:
        for equalize in WAYS:
            for shuffle in SHUFFLES:
                data = batches(
                    frames(comm.rank, sizes[comm.rank]),
                    comm,
                    BATCH,
                    columns=COLUMNS,
                    shuffle_buffer=shuffle,
                    seed=7,
                    epochs=EPOCHS,
                    equalize=equalize,
                    memory=memory,
                )
                found[equalize, shuffle] = seen(data)
    return found


def steps_of(equalize, sizes, rank):
    if equalize == "drop":
        return min(sizes) // BATCH
    if equalize is None:
        return math.ceil(sizes[rank] / BATCH)
    return math.ceil(max(sizes) / BATCH)


def check_epoch(equalize, sizes, rank, epoch, taken):
    assert len(taken) == steps_of(equalize, sizes, rank)
    assert [batch["place"] for batch in taken] == [(epoch, step) for step in range(len(taken))]
    left = sizes[rank]
    real = []
    for step, batch in enumerate(taken):
        assert batch["agrees"]
        assert batch["rows"] == sum(batch["mask"]) == min(left, BATCH)
        left -= batch["rows"]
        real += batch["ids"][: batch["rows"]]
        assert batch["mask"] == sorted(batch["mask"], reverse=True)
        assert len(batch["ids"]) == (BATCH if equalize in ("pad", "drop") else batch["rows"])
        offers = [min(BATCH, max(0, size - step * BATCH)) for size in sizes]
        assert batch["total"] == (None if equalize is None else sum(offers))
        assert batch["types"] == {"id": ("<i8", ()), "x": ("<f8", (2,)), "small": ("<i2", ())}
    return real


@functools.cache
def of_every_way(sizes):
    return run(len(sizes), every_way, sizes)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_row_once_and_equal_steps(sizes):
    check_all(sizes, of_every_way(sizes))


def test_rows_that_are_kept_in_a_file():
    check_all((3, 100), run(2, every_way, (3, 100), 200))


def check_all(sizes, ranks):
    for rank, found in enumerate(ranks):
        mine = ids_of(rank, sizes[rank]).tolist()
        for (equalize, shuffle), epochs in found.items():
            orders = [
                check_epoch(equalize, sizes, rank, epoch, taken)
                for epoch, taken in enumerate(epochs)
            ]
            for order in orders:
                assert len(set(order)) == len(order)
                assert set(order) <= set(mine)
                assert equalize == "drop" or sorted(order) == mine
                assert shuffle or order == mine[: len(order)]
            if shuffle and len(mine) > 10 and orders[0]:
                assert orders[0] != orders[1] != orders[2]


def test_pad_repeats_rows_of_its_own_or_of_another_rank():
    found = of_every_way((20, 0, 7))
    padded = [[batch["ids"] for batch in rank["pad", 0][0]] for rank in found]
    first = list(range(6))  # of the first frame
    assert padded[0] == [list(range(8)), list(range(8, 16)), [16, 17, 18, 19, *first[:4]]]
    assert padded[1] == [[*first, 0, 1]] * 3
    own = [2000, 2001, 2002, 2003, 2004, 2005]
    assert padded[2] == [[*own, 2006, 2000], [*own, 2000, 2001], [*own, 2000, 2001]]


def test_join_gives_empty_arrays_to_ranks_without_rows():
    found = of_every_way((20, 0, 7))
    assert [[batch["rows"] for batch in rank["join", 0][0]] for rank in found] == [
        [8, 8, 4],
        [0, 0, 0],
        [7, 0, 0],
    ]


def order(comm, together, seed):
    rows = frames(0, 50, together)
    data = batches(rows, comm, BATCH, columns=["id"], shuffle_buffer=20, seed=seed, epochs=2)
    return [[batch["id"][: batch.rows].tolist() for batch in data] for _ in range(2)]


def orders(*each):
    with open_comm() as comm:
        return [order(comm, together, seed) for together, seed in each]


def test_order_follows_from_seed_rank_and_epoch():
    (one,), (other,) = run(2, orders, (6, 1))
    assert one != other  # the ranks have the same rows
    first, second = run(2, orders, (6, 1), (50, 1), (6, 2))  # in other processes
    assert first[:2] == [one, one]  # wherever chunks end
    assert second[:2] == [other, other]
    assert first[2] not in (one, other)
    place = {row: at for at, row in enumerate(itertools.chain(*one[0]))}
    assert all(at >= row - 20 for row, at in place.items())


def calls(comm, equalize):
    """How many calls each epoch makes, and how many steps it has."""
    data = batches(frames(comm.rank, 24 + comm.rank), comm, BATCH, epochs=3, equalize=equalize)
    made = []
    for _ in range(3):
        before = comm.counters()["calls"]
        steps = sum(1 for _ in data)
        made.append((steps, comm.counters()["calls"] - before))
    return made


def calls_of_every_way():
    with open_comm() as comm:
        return [calls(comm, equalize) for equalize in WAYS]


def test_calls():
    """One a step and one at the end in the first epoch; then one that sends all lengths."""
    for rank, (pad, drop, join, alone) in enumerate(run(2, calls_of_every_way)):
        assert pad == join == [(4, 5), (4, 1), (4, 0)]
        assert drop == [(3, 4), (3, 1), (3, 0)]
        assert alone == [(3 + rank, 0)] * 3


def leaves_early():
    with open_comm() as comm:
        data = batches(frames(comm.rank, 20 + comm.rank), comm, BATCH, columns=COLUMNS, epochs=None)
        for batch in data:
            if batch.step == 1:
                break
        return seen(data, 2), comm.allreduce(1)


def test_an_epoch_may_be_left_after_the_same_step():
    for rank, (epochs, size) in enumerate(run(2, leaves_early)):
        assert size == 2
        for epoch, taken in enumerate(epochs):
            real = check_epoch("pad", (20, 21), rank, epoch + 1, taken)
            assert real == ids_of(rank, 20 + rank).tolist()


def weighted_mean(equalize):
    """The mean over all ranks, of sums of batches: the same for `pad` and `join`."""
    with open_comm() as comm:
        data = batches(frames(comm.rank, (5, 0, 31)[comm.rank]), comm, BATCH, equalize=equalize)
        sums = [
            (comm.allreduce(float(batch["half"][batch.mask].sum())), batch.total) for batch in data
        ]
        return np.array(sums).sum(axis=0).tolist()


@pytest.mark.parametrize("equalize", ["pad", "join"])
def test_total_makes_means_of_all_rows(equalize):
    rows = np.concatenate([ids_of(0, 5), ids_of(2, 31)])
    assert run(3, weighted_mean, equalize) == [[rows.sum() / 2, 36]] * 3


def joined_types():
    columns = {"whole": "int32", "real": "int64"} if os.environ["SPARKRING_RANK"] == "0" else {}
    with open_comm() as comm:
        rows = pd.DataFrame({"whole": [1, 2], "real": [0.5, 1]}).astype(columns or "float32")
        if not columns:
            rows["whole"] = rows["whole"].astype("int8")
        batch = next(iter(batches([rows], comm, 2)))
        return {name: str(x.dtype) for name, x in batch.items()}


def test_dtypes_hold_what_all_ranks_have():
    assert run(2, joined_types) == [{"whole": "int32", "real": "float64"}] * 2


# ---- Errors --------------------------------------------------------------------------------------


def first_chunk_is_bad():
    with open_comm() as comm:
        rows = pd.DataFrame({"age": [1.0, None if comm.rank == 1 else 3.0]})
        batches([rows], comm, 2)


def test_what_is_wrong_at_first_is_raised_on_all_ranks():
    for outcome in outcomes(3, first_chunk_is_bad):
        assert isinstance(outcome.error, sparkring.InvalidError)
        assert outcome.error.rank == 1
        text = "rank 1: rows 0 to 1 of its partition: column 'age': it has 1 null in 2 values"
        assert str(outcome.error).startswith(text)
        assert "missing=" in str(outcome.error)


def later_chunk_is_bad():
    with open_comm() as comm:
        good = pd.DataFrame({"age": [1.0, 2.0]})
        rows = [good, good, good.replace(1.0, np.nan) if comm.rank == 1 else good]
        for _ in batches(rows, comm, 2):
            pass


def test_what_is_wrong_later_ends_all_ranks():
    bystander, culprit = outcomes(2, later_chunk_is_bad)
    assert str(culprit.error).startswith("rank 1: rows 4 to 5 of its partition: column 'age'")
    assert isinstance(bystander.error, sparkring.AbortedError)
    assert bystander.error.rank == 1
    assert "rows 4 to 5 of its partition: column 'age'" in str(bystander.error)


def differ(what):
    with open_comm() as comm:
        given = {"batch_size": 4, "equalize": "pad", "epochs": 1}
        if comm.rank == 1:
            given.update(what)
        batches([pd.DataFrame({"x": [1]})], comm, **given)


@pytest.mark.parametrize(
    "what",
    [{"batch_size": 5}, {"equalize": None}, {"epochs": 2}],
    ids=lambda what: next(iter(what)),
)
def test_ranks_that_differ(what):
    for outcome in outcomes(2, differ, what):
        assert isinstance(outcome.error, sparkring.MismatchError)
        assert f"rank 1 has {next(iter(what))}=" in str(outcome.error)


def unlike(columns):
    with open_comm() as comm:
        batches([pd.DataFrame(columns[comm.rank])], comm, 2)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (({"x": [1]}, {"y": [1]}), "rank 1: it has the columns ['y']"),
        (({"x": [[1, 2]]}, {"x": [[1]]}), "rank 1: column 'x': a row of it has shape (1,)"),
        (({"x": [[1, 2], [3]]}, {"x": [[1, 2]]}), "that of row 1 has 1. Pad or cut them in Spark"),
    ],
)
def test_ranks_with_unlike_columns(columns, text):
    for outcome in outcomes(2, unlike, columns):
        assert isinstance(outcome.error, sparkring.InvalidError)
        assert text in str(outcome.error)


ARGUMENTS = [
    ({"batch_size": 0}, "batch_size is 0: it must be a whole number from 1 on"),
    ({"batch_size": 2.5}, "batch_size is 2.5"),
    ({"epochs": 0}, "epochs is 0"),
    ({"seed": -1}, "seed is -1"),
    ({"equalize": "cut"}, "equalize is 'cut': it must be one of 'pad', 'drop', 'join', None"),
    ({"as_": "jax"}, "as_ is 'jax'"),
    ({"dtype": "float99"}, "dtype is 'float99': NumPy does not know it"),
    ({"dtype": "U5"}, "dtype is 'U5': batches hold numbers"),
    ({"dtype": {"y": "int8"}}, "dtype names ['y'], and the arrays of a batch are ['x']"),
    ({"dtype": "int8"}, "rank 0: column 'x': it has float64 that int8 cannot hold"),
    ({"rows": [{"x": 300}], "dtype": "int8"}, "column 'x': it has int64 that int8 cannot hold"),
    ({"missing": {"y": 0}}, "missing names ['y'], and the columns are ['x']"),
    ({"missing": "0"}, "missing is '0': pass the number that replaces nulls"),
    ({"comm": 3}, "comm is of type int: pass the communicator that sparkring.init() returned"),
]


def refused():
    texts = []
    for wrong, _ in ARGUMENTS:
        with open_comm() as comm, pytest.raises(sparkring.InvalidError) as caught:
            next(iter(batches(**{"rows": [{"x": 0.5}], "comm": comm, "batch_size": 2, **wrong})))
        texts.append(str(caught.value))
    with open_comm() as comm:
        data = batches([{"x": 1}], comm, 1)
        list(data)
        with pytest.raises(sparkring.InvalidError, match="epoch 2 of 1: pass a larger epochs="):
            list(data)
    return texts


def test_arguments_that_make_no_sense():
    for text, (_, expected) in zip(run(1, refused)[0], ARGUMENTS):
        assert expected in text


def dropped_all():
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logging.getLogger("sparkring").addHandler(handler)
    with open_comm() as comm:
        assert list(batches(frames(comm.rank, 10 * comm.rank), comm, BATCH, equalize="drop")) == []
    return messages


def test_a_warning_where_drop_leaves_nothing():
    first, second = run(2, dropped_all)
    assert second == []
    assert len(first) == 1
    assert "fewer than batch_size=8 rows are on rank 0." in first[0]
