# SPDX-License-Identifier: Apache-2.0
"""Every collective gives the right numbers, for every container, dtype and op, on every rank."""

from __future__ import annotations

import hashlib
import re

import numpy as np
import pytest
import sparkring
from cases import DTYPES, FLOATS, OPS, cases, check, is_defined, parted, reduced, total
from ranks import open_comm, outcomes, run

pytestmark = pytest.mark.quick

SIZES = [1, 2, 3, 4]


def check_on_root(comm, root, result, expected, name):
    """Compare a result that only root gets."""
    if comm.rank == root:
        check(result, expected, name)
    else:
        assert result is None, name


def ops_of(case):
    return [op for op in OPS if is_defined(op, case.values)]


def allreduce_case(comm, ranks, _):
    case = ranks[comm.rank]
    for op in ops_of(case):
        check(comm.allreduce(case.x, op), total(op, ranks, comm.rank), f"{op} of {case.name}")


def reduce_case(comm, ranks, root):
    case = ranks[comm.rank]
    for op in ops_of(case):
        result, expected = comm.reduce(case.x, op, root), total(op, ranks, comm.rank)
        check_on_root(comm, root, result, expected, f"{op} of {case.name}")


def broadcast_case(comm, ranks, _):
    case = ranks[comm.rank]
    for root in range(comm.size):
        check(comm.broadcast(case.x, root), ranks[root].values, f"{case.name} of {root}")


def gather_case(comm, ranks, _):
    case, expected = ranks[comm.rank], np.stack([other.values for other in ranks])
    check(comm.allgather(case.x), expected, case.name)
    for root in range(comm.size):
        check_on_root(comm, root, comm.gather(case.x, root), expected, case.name)


def gather_uneven_case(comm, ranks, root):
    case = ranks[comm.rank]
    if case.values.ndim == 0:
        with pytest.raises(sparkring.InvalidError, match=r"numpy\.atleast_1d\(x\)"):
            comm.allgatherv(case.x)
    else:
        expected = np.concatenate([other.values for other in ranks])
        check(comm.allgatherv(case.x), expected, case.name)
        check_on_root(comm, root, comm.gatherv(case.x, root), expected, case.name)


def every_collective():
    """Count the cases; the ranks start once for all collectives."""
    count = 0
    with open_comm() as comm:
        for ranks in zip(*(cases(rank) for rank in range(comm.size))):
            for compare in (
                allreduce_case,
                reduce_case,
                broadcast_case,
                gather_case,
                gather_uneven_case,
            ):
                compare(comm, ranks, count % comm.size)
            count += 1
    return count


@pytest.mark.parametrize("size", SIZES)
def test_every_container_and_dtype(size):
    assert run(size, every_collective) == [len(list(cases(0)))] * size


def scan_every_case():
    with open_comm() as comm:
        for ranks in zip(*(cases(rank) for rank in range(comm.size))):
            case = ranks[comm.rank]
            for op in ops_of(case):
                if op == "avg":
                    with pytest.raises(sparkring.InvalidError, match="divide the result of sum"):
                        comm.scan(case.x, op)
                    continue
                name = f"{op} of {case.name}"
                check(comm.scan(case.x, op), total(op, ranks[: comm.rank + 1], comm.rank), name)
                result = comm.exscan(case.x, op)
                if comm.rank > 0:
                    check(result, total(op, ranks[: comm.rank], 0), name)
        return [comm.exscan(x, op) for x, op in ((2, "sum"), (2.0, "prod"), (2.0, "min"))]


@pytest.mark.parametrize("size", [1, 3])
def test_scan_and_exscan(size):
    results = run(size, scan_every_case)
    assert results[0] == [0, 1.0, np.inf]
    assert results[-1] == ([4, 4.0, 2.0] if size == 3 else [0, 1.0, np.inf])


def reduce_with_factors():
    with open_comm() as comm:
        x, counts, whole = np.full(4, 4.0), [4] + [0] * (comm.size - 1), np.array([7, -7])
        with pytest.raises(sparkring.InvalidError, match="bool has no factors"):
            comm.allreduce(x > 0, "lor", prescale=2)
        results = [
            comm.allreduce(x, prescale=0.5, postscale=10),
            comm.allreduce_start(x, out=x.copy(), prescale=0.5, postscale=10).wait(),
            comm.allreduce_group([x, x[:3]], prescale=5)[1],
            comm.reduce(x, "max", postscale=0.25),
            comm.reduce_scatter(np.ones(comm.size), prescale=3),
            comm.reduce_scatterv(x, counts, prescale=3),
            comm.allreduce(whole, "max", postscale=0.5),
            comm.allreduce(x),
        ]
        assert x.tolist() == [4.0] * 4
        return [None if result is None else result.tolist() for result in results]


def test_factors_before_and_after():
    first, second = run(2, reduce_with_factors)
    same = [[40.0] * 4, [40.0] * 4, [40.0] * 3]
    assert first == [*same, [1.0] * 4, [6.0], [24.0] * 4, [3, -3], [8.0] * 4]
    assert second == [*same, None, [6.0], [], [3, -3], [8.0] * 4]


def scatter_sums():
    with open_comm() as comm:
        counts = [0, 3, 1, 2][: comm.size]
        every = [parted(rank, 1, (sum(counts), 2), np.float32) for rank in range(comm.size)]
        begin = sum(counts[: comm.rank])
        expected = reduced("sum", every)[begin : begin + counts[comm.rank]]
        check(comm.reduce_scatterv(every[comm.rank], counts), expected, "counts")
        with pytest.raises(sparkring.InvalidError, match="they must be equal"):
            comm.reduce_scatterv(every[comm.rank], [9] * comm.size)
        return True


@pytest.mark.parametrize("size", SIZES)
def test_reduce_scatterv(size):
    assert run(size, scatter_sums) == [True] * size


SHAPES = [(6,), (2, 3), (1, 2, 2), (0, 3), (3, 0)]  # of a part


def cut_every_case():
    count = 0
    with open_comm() as comm:
        for dtype in DTYPES:
            for shape in SHAPES:
                ranks = [parted(rank, comm.size, shape, dtype) for rank in range(comm.size)]
                parts = [np.split(x, comm.size) for x in ranks]
                x, name = ranks[comm.rank], f"{dtype} {shape}"
                total = reduced("sum", ranks)
                mine = np.split(total, comm.size)[comm.rank]
                check(comm.reduce_scatter(x, "sum"), mine, name)
                check(comm.reduce_scatter(np.asfortranarray(x), "sum"), mine, name)
                for root in range(comm.size):
                    given = x if comm.rank == root else np.zeros_like(x)
                    check(comm.scatter(given, root), parts[root][comm.rank], name)
                came = np.concatenate([parts[rank][comm.rank] for rank in range(comm.size)])
                check(comm.alltoall(x), came, name)
                check(comm.alltoall(np.asfortranarray(x)), came, name)
                count += 1
    return count


@pytest.mark.parametrize("size", SIZES)
def test_equal_parts(size):
    assert run(size, cut_every_case) == [len(DTYPES) * len(SHAPES)] * size


def rows(rank, count, dtype, width):
    """Return rows whose values show their rank."""
    return (np.arange(count * width).reshape(count, width) + 10 * rank).astype(dtype)


def uneven_every_case():
    with open_comm() as comm:
        ranks = range(comm.size)
        for turn, dtype in enumerate(DTYPES):
            for width in (1, 3, 0):
                counts = [(rank + turn) % 3 for rank in ranks]
                every = [rows(rank, counts[rank], dtype, width) for rank in ranks]
                x, name = every[comm.rank], f"{counts} of {dtype}"
                check(comm.allgatherv(x), np.concatenate(every), name)
                for root in ranks:
                    check_on_root(comm, root, comm.gatherv(x, root), np.concatenate(every), name)
                    whole = rows(root, sum(counts), dtype, width)
                    given = whole if comm.rank == root else whole[:0]
                    part = np.split(whole, np.cumsum(counts)[:-1])[comm.rank]
                    check(comm.scatterv(given, counts, root), part, name)
    return True


@pytest.mark.parametrize("size", SIZES)
def test_uneven_parts(size):
    assert run(size, uneven_every_case) == [True] * size


def count_calls():
    with open_comm() as comm:
        x, counts, calls = np.zeros(2), [1, 1], []
        for call in (
            lambda: comm.scatterv(x, counts),
            lambda: comm.allgatherv(x),
            lambda: comm.gatherv(x),
            lambda: comm.alltoallv(x, counts),
        ):
            before = comm.counters()["calls"]
            call()
            calls.append(comm.counters()["calls"] - before)
        return calls


def test_counts_are_sent_where_they_are_unknown():
    assert run(2, count_calls) == [[1, 2, 2, 2]] * 2


def exchange_uneven():
    with open_comm() as comm:
        ranks = range(comm.size)
        sends = [[(rank * 2 + to) % 4 for to in ranks] for rank in ranks]
        for dtype in DTYPES:
            for width in (1, 3, 0):
                every = [rows(rank, sum(sends[rank]), dtype, width) for rank in ranks]
                parts = [np.split(every[rank], np.cumsum(sends[rank])[:-1]) for rank in ranks]
                expected = np.concatenate([parts[rank][comm.rank] for rank in ranks])
                counts = np.array(sends[comm.rank])
                check(comm.alltoallv(every[comm.rank], counts), expected, dtype)
                started = comm.alltoallv_start(every[comm.rank], counts, return_counts=True)
                result, received = started.wait()
                check(result, expected, dtype)
                assert received.tolist() == [sends[rank][comm.rank] for rank in ranks]
        nothing = comm.alltoallv(np.zeros((0, 2)), [0] * comm.size)
        check(nothing, np.zeros((0, 2)), "nothing")
    return True


@pytest.mark.parametrize("size", SIZES)
def test_uneven_exchange(size):
    assert run(size, exchange_uneven) == [True] * size


def pass_around():
    with open_comm() as comm:
        after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        for mine, theirs in zip(cases(comm.rank), cases(before)):
            if comm.rank % 2 == 0:
                assert comm.send(mine.x, after) is None
            check(comm.recv(mine.x, before), theirs.values, mine.name)
            if comm.rank % 2 == 1:
                comm.send(mine.x, after)
            out = np.empty_like(mine.values)
            comm.send(mine.x, before)
            assert comm.recv(out, after, out=out) is out
        comm.barrier()
    return True


@pytest.mark.parametrize("size", [2, 3, 4])
def test_messages(size):
    assert run(size, pass_around) == [True] * size


def refuse_peers():
    with open_comm() as comm:
        last = f"ranks go from 0 to {comm.size - 1}"
        for call in (comm.send, comm.recv):
            for peer in (-1, comm.size):
                with pytest.raises(sparkring.InvalidError, match=f"peer {peer} is no rank: {last}"):
                    call(1, peer)
            with pytest.raises(sparkring.InvalidError, match="peer is this rank itself: copy"):
                call(1, comm.rank)
        for call in (comm.reduce, comm.gather, comm.gatherv, comm.scatter):
            with pytest.raises(
                sparkring.InvalidError, match=f"root {comm.size} is no rank: {last}"
            ):
                call(np.zeros(2), root=comm.size)
        with pytest.raises(sparkring.InvalidError, match=f"root -1 is no rank: {last}"):
            comm.scatterv(np.zeros(2), [1, 1], root=-1)
        assert comm.usable
        comm.barrier()
    return True


def test_peers_and_roots():
    assert run(2, refuse_peers) == [True] * 2


def refuse_parts():
    with open_comm() as comm:
        text = "the first dimension of x is 3, which 2 ranks cannot share equally: pass a multiple"
        for call in (comm.scatter, comm.reduce_scatter, comm.alltoall):
            with pytest.raises(sparkring.InvalidError, match=text):
                call(np.zeros(3))
        with pytest.raises(sparkring.InvalidError, match="counts has 1 numbers and there are 2"):
            comm.alltoallv(np.zeros(3), [3])
        with pytest.raises(
            sparkring.InvalidError, match=r"counts\[1\] is -1: it must be 0 or more"
        ):
            comm.scatterv(np.zeros(3), [4, -1])
        text = "counts add up to 2 and the first dimension of x is 3: they must be equal"
        with pytest.raises(sparkring.InvalidError, match=text):
            comm.alltoallv(np.zeros(3), [1, 1])
        with pytest.raises(sparkring.InvalidError, match="fit into memory"):
            comm.alltoallv(np.zeros(3), [2**70, 1])
        with pytest.raises(TypeError):
            comm.alltoallv(np.zeros(3), [1.0, 2.0])
        assert comm.usable
        comm.barrier()
    return True


def test_bad_parts():
    assert run(2, refuse_parts) == [True] * 2


def differ_in_shape(call, shapes):
    with open_comm() as comm:
        getattr(comm, call)(np.zeros(shapes[comm.rank]))


def differ_in_a_group(start):
    with open_comm() as comm:
        xs = [np.zeros(2), np.zeros((2, 6) if comm.rank == 0 else (3, 4))]
        if start:
            comm.allreduce_group_start(xs).wait()
        comm.allreduce_group(xs)


@pytest.mark.parametrize(
    ("call", "texts"),
    [
        ("allreduce", ["shape (2, 6)", "shape (3, 4)"]),
        ("reduce", ["shape (2, 6)", "shape (3, 4)"]),
        ("broadcast", ["shape (2, 6)", "shape (3, 4)"]),
        ("allgather", ["shape (2, 6)", "shape (3, 4)"]),
        ("alltoall", ["shape (2, 6)", "shape (4, 3)"]),
        ("allgatherv", ["rows of shape (6)", "rows of shape (2, 3)"]),
        ("gatherv", ["rows of shape (6)", "rows of shape (3, 2)"]),
    ],
)
def test_the_shape_must_be_alike(call, texts):
    """As many elements each: the error shows both shapes on every rank."""
    shapes = [tuple(map(int, re.findall(r"\d+", text))) for text in texts]
    if texts[0].startswith("rows"):
        shapes = [(2, *shape) for shape in shapes]
    for outcome in outcomes(2, differ_in_shape, call, shapes):
        assert isinstance(outcome.error, sparkring.MismatchError)
        assert all(text in str(outcome.error) for text in texts)


@pytest.mark.parametrize("start", [False, True])
def test_the_shapes_of_a_group_must_be_alike(start):
    for outcome in outcomes(2, differ_in_a_group, start):
        assert isinstance(outcome.error, sparkring.MismatchError)
        for text in ("xs[1] of shape (2, 6)", "xs[1] of shape (3, 4)"):
            assert text in str(outcome.error)


def reduce_bool():
    with open_comm() as comm:
        x = np.array([True, comm.rank == 0, False])
        return (
            comm.allreduce(x, "land"),
            comm.allreduce(x, "lor"),
            comm.broadcast(x, 1),
            comm.allgather(x)[:, 1],
        )


def test_bool():
    for every, some, sent, gathered in run(3, reduce_bool):
        assert {array.dtype for array in (every, some, sent, gathered)} == {np.dtype(bool)}
        assert every.tolist() == [True, False, False]
        assert some.tolist() == [True, True, False]
        assert sent.tolist() == [True, False, False]
        assert gathered.tolist() == [True, False, False]


def reduce_random():
    with open_comm() as comm:
        random = np.random.default_rng(comm.rank)
        digests = []
        for dtype in FLOATS:
            total = comm.allreduce(random.standard_normal(100_003).astype(dtype))
            digests.append(hashlib.sha256(total).hexdigest())
    return digests


@pytest.mark.parametrize("size", [2, 3, 4])
def test_the_same_bits_on_every_rank(size):
    first, *others = run(size, reduce_random)
    assert len(set(first)) == len(FLOATS)
    assert others == [first] * (size - 1)


def measure_traffic():
    count = 120_000
    with open_comm(algorithms="allreduce:ring", shared_memory=False) as comm:
        before = comm.counters()
        comm.allreduce(np.ones(count))
        after = comm.counters()
        peers = [comm.counters(peer) for peer in range(comm.size)]
        links = [comm.link(peer) for peer in range(comm.size)]
    sent = {name: after[name] - before[name] for name in after}
    assert sum(peer["bytes_sent"] for peer in peers) == after["bytes_sent"]
    return sent, links, 8 * count


def test_ring_traffic():
    for rank, (moved, links, size_of_x) in enumerate(run(4, measure_traffic)):
        payload = moved["bytes_sent"] - 40 * moved["messages_sent"]
        assert payload == 2 * 3 * size_of_x // 4
        assert moved["calls"] == 1
        assert links[rank] == "self"
        assert links[(rank + 1) % 4] == "tcp"
