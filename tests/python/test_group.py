# SPDX-License-Identifier: Apache-2.0
"""Allreduce of groups of arrays, blocking and started."""

from __future__ import annotations

import re

import numpy as np
import pytest
import sparkring
from cases import DTYPES, check, numbers
from ranks import open_comm, run

pytestmark = pytest.mark.quick


def reduce_groups():
    with open_comm() as comm:
        for dtype in DTYPES:
            shapes = [(3,), (2, 0), (), (50, 3), (40000,), (2, 3, 4)]
            xs = [np.resize(numbers(comm.rank, dtype), shape) for shape in shapes]
            for op in ("sum", "prod"):
                expected = [comm.allreduce(x, op) for x in xs]
                results = comm.allreduce_group(xs, op)
                started = comm.allreduce_group_start(xs, op=op)
                assert isinstance(results, list)
                for group in (results, started.wait()):
                    assert len(group) == len(xs)
                    for result, one in zip(group, expected):
                        check(result, one, dtype)
        assert comm.allreduce_group([]) == []
        assert comm.allreduce_group_start(()).wait() == []
        return comm.allreduce_group([1, np.int64(2)]), comm.allreduce_group(iter([1.5]))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_group_of_mixed_sizes_and_shapes(size):
    assert run(size, reduce_groups) == [([size, 2 * size], [1.5 * size])] * size


def reduce_groups_into_out():
    with open_comm() as comm:
        xs = [np.full(i, 1.0) for i in (1, 20000, 5)]
        outs = [np.empty(1), np.empty((2, 10000)), np.empty(5)]
        results = comm.allreduce_group(xs, out=outs)
        assert all(map(lambda one, other: one is other, results, outs))
        comm.allreduce_group(xs, "prod", out=xs)
        halves = np.ones(6)
        comm.allreduce_group_start([halves[:3], halves[3:]], out=[halves[:3], halves[3:]]).wait()
        flags = comm.allreduce_group([np.array([True, comm.rank == 0])], "land")
        return [out.max() for out in outs + xs], halves.tolist(), flags[0].tolist()


def test_group_into_out():
    expected = ([2.0] * 3 + [1.0] * 3, [2.0] * 6, [True, False])
    assert run(2, reduce_groups_into_out) == [expected] * 2


def test_group_errors(comm):
    x = np.ones(4)
    for text, *arguments in [
        ("xs is of type int: pass a list of arrays", 3),
        (
            "xs[1] is of type str, which has no buffer of numbers: make an array of it with"
            " numpy.asarray(xs[1])",
            [x, "a"],
        ),
        ("allreduce_group: op avg is not defined on bool", [x > 0], "avg"),
        ('unknown op "median"', [x], "median"),
    ]:
        with pytest.raises(sparkring.InvalidError, match=f"^{re.escape(text)}"):
            comm.allreduce_group(*arguments)
    for text, xs, out in [
        ("out has 1 arrays and xs 2: pass one for each", [x, x], [x]),
        ("out is of type int: pass a list of arrays", [x], 3),
        ("out[1] has 3 elements and the result 4", [x, x], [np.ones(4), np.ones(3)]),
        ("out[0] overlaps xs[0] without being in place", [x[:3]], [x[1:]]),
        ("xs[1] overlaps out[0]: the arrays of a group must lie apart", [x, x], [x, np.ones(4)]),
    ]:
        with pytest.raises(sparkring.InvalidError, match=f"^{re.escape(text)}"):
            comm.allreduce_group(xs, out=out)
    both = np.ones(4)
    with pytest.raises(sparkring.InvalidError, match="the arrays of a group must lie apart"):
        comm.allreduce_group([x, x], out=[both, both])
    assert comm.allreduce_group([x, x[1:]])[1].tolist() == [1.0] * 3  # inputs may


def group_everything():
    with open_comm() as comm:
        kinds = ["float32", "int64", "uint8", "bool"]
        shapes = [(comm.size,), (comm.size, 3), (comm.size * 9000,), (0,)]
        xs = [np.resize(numbers(comm.rank, d), s) for d, s in zip(kinds, shapes)]
        root = comm.size - 1
        for name, *arguments in [
            ("allreduce",),
            ("reduce_scatter", "max"),
            ("allgather",),
            ("broadcast", root),
        ]:
            expected = [getattr(comm, name)(x, *arguments) for x in xs]
            started = getattr(comm, f"{name}_group_start")(xs, *arguments)
            for group in (getattr(comm, f"{name}_group")(xs, *arguments), started.wait()):
                assert len(group) == len(xs)
                for result, one in zip(group, expected):
                    check(result, one, name)
        values = [np.full(3, float(comm.rank)), np.array([comm.rank], np.int32)]
        comm.broadcast_group(values, root, out=values)
        return [value.tolist() for value in values]


@pytest.mark.parametrize("size", [1, 3])
def test_groups_of_every_kind_and_of_several_dtypes(size):
    last = size - 1
    assert run(size, group_everything) == [[[float(last)] * 3, [last]]] * size


def locate():
    with open_comm() as comm:
        x = np.array([comm.rank, -comm.rank, 5.0, np.nan if comm.rank == 1 else 0.0])
        least, largest = comm.minloc(x), comm.maxloc(x)
        number, rank = comm.maxloc(comm.rank * 2)
        assert rank.dtype == np.int32
        return [array.tolist() for array in (*least, *largest)], int(number), int(rank)


def test_minloc_and_maxloc():
    nan = pytest.approx(np.nan, nan_ok=True)
    least = [[0.0, -2.0, 5.0, nan], [0, 2, 0, 1]]
    largest = [[2.0, 0.0, 5.0, nan], [2, 0, 0, 1]]
    for arrays, number, rank in run(3, locate):
        assert arrays == least + largest
        assert (number, rank) == (4, 2)
