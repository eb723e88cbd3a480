# SPDX-License-Identifier: Apache-2.0
"""Which rank takes which row: the order of an epoch, its deal, and where it goes on."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import numpy as np
import pytest
from sparkring import InvalidError
from sparkring.data._parquet import state as states
from sparkring.data._parquet.deal import Deal, Segment, cut, left, share
from sparkring.data._parquet.order import Order
from sparkring.data._parquet.state import State

pytestmark = pytest.mark.quick

GROUPS = np.array([5, 1, 7, 3, 9, 4, 2])
ROWS = int(GROUPS.sum())
MARKS = {"seed": 0, "shuffle": 2, "files": "abc"}


def rows_of(order, epoch, intervals, groups=GROUPS):
    """The numbers of the rows at these positions, counted through all row groups."""
    starts = np.cumsum(groups) - groups
    found = []
    for part in order.slices(epoch, intervals):
        rows = np.concatenate([np.arange(starts[g], starts[g] + groups[g]) for g in part.groups])
        found += rows[part.rows].tolist()
    return found


# ---- Order ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [0, 1, 2, 3, 7, 100])
def test_every_position_has_a_row(window):
    order = Order(GROUPS, window, 3)
    whole = rows_of(order, 4, [(0, ROWS)])
    assert sorted(whole) == list(range(ROWS))
    assert (whole == list(range(ROWS))) == (window == 0)
    for start, end in itertools.combinations(range(ROWS + 1), 2):
        assert rows_of(order, 4, [(start, end)]) == whole[start:end]
    assert rows_of(order, 4, [(20, 31), (2, 2), (0, 9)]) == whole[20:31] + whole[:9]
    assert rows_of(order, 4, []) == []


def test_order_follows_from_seed_and_epoch():
    orders = [
        tuple(rows_of(Order(GROUPS, 2, seed), epoch, [(0, ROWS)]))
        for seed in (0, 1, 1 << 80)
        for epoch in range(3)
    ]
    assert len(set(orders)) == len(orders)


def test_rows_stay_in_their_window():
    order = rows_of(Order(GROUPS, 2, 5), 0, [(0, ROWS)])
    owners = np.repeat(np.arange(len(GROUPS)), GROUPS)[order]
    windows = [list(dict.fromkeys(owners.tolist()))]
    assert sorted(windows[0]) == list(range(len(GROUPS)))
    permuted = np.random.RandomState(
        np.random.MT19937(np.random.SeedSequence((5, 0, 0)))
    ).permutation(len(GROUPS))
    at = 0
    for first in range(0, len(GROUPS), 2):
        members = permuted[first : first + 2]
        count = int(GROUPS[members].sum())
        assert set(owners[at : at + count]) == set(members)
        at += count


def test_order_is_that_of_earlier_versions():
    """A state that was saved by an earlier version must find its rows."""
    groups = np.array([3, 4, 2, 5])
    assert rows_of(Order(groups, 2, 7), 1, [(0, 14)], groups) == [
        3,
        6,
        1,
        4,
        5,
        2,
        0,
        8,
        10,
        12,
        7,
        13,
        11,
        9,
    ]


def test_no_rows():
    assert list(Order(np.array([], np.int64), 2, 0).slices(0, [])) == []


# ---- Deal ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", range(1, 8))
@pytest.mark.parametrize("rows", [0, 1, 6, 7, 8, 100, 101])
@pytest.mark.parametrize("equalize", ["join", "pad", "drop"])
def test_every_row_once_and_equal_steps(rows, size, equalize):
    batch_size = 4
    deal = Deal(rows, [], size, batch_size, equalize)
    taken = [positions(deal.intervals(rank)) for rank in range(size)]
    own = [[deal.own(rank, step) for step in range(deal.steps)] for rank in range(size)]
    for step in range(deal.steps):
        assert deal.total(step) == sum(counts[step] for counts in own)
        assert deal.row(step) == sum(sum(counts[:step]) for counts in own)
    real = list(itertools.chain(*(x[: sum(counts)] for x, counts in zip(taken, own))))
    if equalize == "drop":
        assert deal.steps == rows // size // batch_size
        assert len(set(real)) == len(real) == deal.steps * size * batch_size
        return
    assert deal.steps == math.ceil(math.ceil(rows / size) / batch_size)
    assert sorted(real) == list(range(rows))
    assert {sum(counts) for counts in own} <= {rows // size, -(-rows // size)}
    full = [deal.steps * batch_size] * size
    assert [len(x) for x in taken] == (
        full if equalize == "pad" else [sum(counts) for counts in own]
    )
    assert all(position < rows for x in taken for position in x)


def positions(intervals):
    return [position for interval in intervals for position in range(*interval)]


def test_pad_repeats_the_rows_that_follow():
    deal = Deal(10, [], 3, 3, "pad")
    assert [positions(deal.intervals(rank)) for rank in range(3)] == [
        [0, 1, 2, 3, 4, 5],
        [4, 5, 6, 7, 8, 9],
        [7, 8, 9, 0, 1, 2],
    ]
    alone = Deal(1, [], 3, 3, "pad")
    assert [positions(alone.intervals(rank)) for rank in range(3)] == [[0, 0, 0]] * 3


def test_cut():
    parts = [(10, 14), (2, 5), (20, 21)]
    whole = positions(parts)
    for start, end in itertools.combinations(range(len(whole) + 1), 2):
        assert positions(cut(parts, start, end)) == whole[start:end]
    assert share(7, 3, 0) == (0, 3) and share(7, 3, 2) == (5, 7)


# ---- Going on ------------------------------------------------------------------------------------


def test_going_on_with_the_same_ranks_changes_nothing():
    for rows, size, batch_size in itertools.product((23, 24, 40), (1, 2, 3, 5), (1, 2, 4)):
        whole = Deal(rows, [], size, batch_size, "join")
        for stop in range(1, whole.steps):
            if (row := whole.row(stop)) == rows:
                continue
            rest = Deal(rows, [Segment(size, row)], size, batch_size, "join")
            assert rest.steps == whole.steps - stop
            for rank in range(size):
                before = positions(whole.intervals(rank))
                assert positions(rest.intervals(rank)) == before[stop * batch_size :]
                assert rest.own(rank, 0) == whole.own(rank, stop)


def test_going_on_with_other_ranks_takes_every_row_once():
    dice = random.Random(1)
    for _ in range(300):
        rows, state = dice.randrange(1, 200), State()
        counts = Counter()
        while state.epoch == 0:
            size, batch_size = dice.randrange(1, 8), dice.randrange(1, 9)
            deal = Deal(rows, list(state.segments), size, batch_size, "join")
            stop = dice.randrange(1, deal.steps + 1)
            for rank in range(size):
                own = sum(deal.own(rank, step) for step in range(stop))
                counts.update(positions(deal.intervals(rank))[:own])
            done = stop == deal.steps
            state = State(1) if done else state.after(size, deal.row(stop))
            assert done or sorted(counts.elements()) == sorted(
                set(range(rows)) - set(positions(left(rows, list(state.segments))))
            )
            if not done:
                saved = states.write(state, MARKS)
                assert states.read(saved, MARKS, rows) == state
                assert saved["row"] == sum(counts.values())
        assert counts == Counter(range(rows))


def test_states_of_the_same_ranks_have_one_segment():
    state = State().after(3, 12).after(3, 30).after(2, 40).after(2, 44)
    assert state.segments == (Segment(3, 30), Segment(2, 44))
    assert State().after(3, 0) == State()


SAVED = states.write(State(2, (Segment(3, 12), Segment(2, 20))), MARKS)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"files": "xyz"}, "state is of other files, or the files have changed"),
        ({"seed": 5}, "state has seed=5 and seed=0 is passed: pass seed=5"),
        ({"shuffle": 0}, "state has shuffle=0 and shuffle=2 is passed"),
        ({"row": 21}, "its numbers contradict each other"),
        ({"ranks": [[3, 12], [2, 11]]}, "its numbers contradict each other"),
        ({"ranks": [[3, 20]]}, "its numbers contradict each other"),
        ({"ranks": [[0, 20]]}, "its numbers contradict each other"),
        ({"ranks": [[2, 50]], "row": 50}, "its numbers contradict each other"),
        ({"ranks": 3}, "pass what state() of a loader has returned"),
        ({"epoch": -1}, "pass what state() of a loader has returned"),
        ({"epoch": 1.5}, "pass what state() of a loader has returned"),
    ],
    ids=str,
)
def test_states_that_do_not_fit(change, text):
    states.read(SAVED, MARKS, 50)
    with pytest.raises(InvalidError) as caught:
        states.read({**SAVED, **change}, MARKS, 50)
    assert text in str(caught.value)


@pytest.mark.parametrize("given", [{}, {"epoch": 1}, 3], ids=str)
def test_what_is_no_state(given):
    with pytest.raises(InvalidError, match="pass what state"):
        states.read(given, MARKS, 50)
