# SPDX-License-Identifier: Apache-2.0
"""Every collective gives the right numbers, for every container, dtype and op, on every rank."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from cases import DTYPES, FLOATS, OPS, cases, numbers, reduced
from ranks import open_comm, run

SIZES = [1, 2, 3, 4]


def check(result, expected, name):
    """Compare a result with what it should be: type, shape, dtype and bits."""
    assert type(result) is type(expected), name
    assert result.dtype == expected.dtype, name
    assert result.shape == expected.shape, name
    assert result.tobytes() == expected.tobytes(), f"{name}: {result} is not {expected}"


def all_cases(size):
    """Generate the inputs of all ranks side by side."""
    return zip(*(cases(rank) for rank in range(size)))


def allreduce_every_case():
    count = 0
    with open_comm() as comm:
        for ranks in all_cases(comm.size):
            case = ranks[comm.rank]
            for op in OPS:
                if op in ("land", "lor") and case.values.dtype.kind == "f":
                    continue
                expected = reduced(op, [other.values for other in ranks])
                expected = type(case.values)(expected) if case.is_number else np.asarray(expected)
                check(comm.allreduce(case.x, op), expected, f"{op} of {case.name}")
                count += 1
    return count


def broadcast_every_case():
    count = 0
    with open_comm() as comm:
        for ranks in all_cases(comm.size):
            case = ranks[comm.rank]
            for root in range(comm.size):
                expected = ranks[root].values
                check(comm.broadcast(case.x, root), expected, f"{case.name} of {root}")
                count += 1
    return count


def allgather_every_case():
    count = 0
    with open_comm() as comm:
        for ranks in all_cases(comm.size):
            case = ranks[comm.rank]
            expected = np.stack([other.values for other in ranks])
            check(comm.allgather(case.x), expected, case.name)
            count += 1
    return count


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "every_case", [allreduce_every_case, broadcast_every_case, allgather_every_case]
)
def test_every_container_and_dtype(every_case, size):
    counts = run(size, every_case)
    assert counts == counts[:1] * size
    assert counts[0] >= len(list(cases(0)))


def write_into_out():
    with open_comm() as comm:
        for dtype in DTYPES:
            every = [numbers(rank, dtype) for rank in range(comm.size)]
            x, out = every[comm.rank].copy(), np.empty((3, 10), dtype)
            assert comm.allreduce(x, out=out) is out
            assert out.tobytes() == reduced("sum", every).tobytes()
            assert comm.broadcast(x, 1, out=out) is out
            assert out.tobytes() == every[1].tobytes()
            assert x.tobytes() == every[comm.rank].tobytes()
            gathered = bytearray(comm.size * x.nbytes)
            view = memoryview(np.frombuffer(gathered, dtype))
            assert comm.allgather(x, out=view) is view
            assert bytes(gathered) == np.stack(every).tobytes()
    return True


def write_in_place():
    with open_comm() as comm:
        for dtype in DTYPES:
            every = [numbers(rank, dtype) for rank in range(comm.size)]
            x = every[comm.rank].copy()
            assert comm.allreduce(x, out=x) is x
            assert x.tobytes() == reduced("sum", every).tobytes()
            x = every[comm.rank].copy()
            assert comm.broadcast(x, 1, out=x) is x
            assert x.tobytes() == every[1].tobytes()
            every_row = np.zeros((comm.size, *x.shape), dtype)
            every_row[comm.rank] = every[comm.rank]
            comm.allgather(every_row[comm.rank], out=every_row)
            assert every_row.tobytes() == np.stack(every).tobytes()
    return True


@pytest.mark.parametrize("function", [write_into_out, write_in_place])
def test_out(function):
    assert run(3, function) == [True] * 3


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


def bfloat16_words(values):
    """Cut float32 to bfloat16, which small whole numbers survive."""
    return (values.astype("float32").view("uint32") >> 16).astype("uint16")


def reduce_bfloat16_words():
    with open_comm() as comm:
        words = bfloat16_words(numbers(comm.rank, "float32"))
        total = comm.allreduce(words, dtype="bfloat16")
        comm.allreduce(words, out=words, dtype="bfloat16")
        assert words.tobytes() == total.tobytes()
        return total


def test_bfloat16_words():
    expected = bfloat16_words(reduced("sum", [numbers(rank, "float32") for rank in range(3)]))
    for total in run(3, reduce_bfloat16_words):
        check(total, expected, "bfloat16")


def reduce_bfloat16_array():
    import ml_dtypes

    with open_comm() as comm:
        x = numbers(comm.rank, "float32").astype(ml_dtypes.bfloat16)
        total = comm.allreduce(x.T)
        assert comm.allreduce(x, out=x) is x
        assert x.tobytes() == total.T.tobytes()
        return str(total.dtype), total.astype("float32"), comm.allgather(x).dtype.name


def test_bfloat16_array():
    pytest.importorskip("ml_dtypes", reason="ml_dtypes, which adds bfloat16 to NumPy, is missing")
    expected = reduced("sum", [numbers(rank, "float32") for rank in range(2)])
    for dtype, total, gathered in run(2, reduce_bfloat16_array):
        assert (dtype, gathered) == ("bfloat16", "bfloat16")
        assert total.tolist() == expected.T.tolist()


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
    with open_comm() as comm:
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
        payload = moved["bytes_sent"] - 32 * moved["messages_sent"]
        assert payload == 2 * 3 * size_of_x // 4
        assert moved["calls"] == 1
        assert links[rank] == "self"
        assert links[(rank + 1) % 4] == "tcp"
