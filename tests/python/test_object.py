# SPDX-License-Identifier: Apache-2.0
"""Any object goes to other ranks, and what is wrong with one harms no later call."""

from __future__ import annotations

import os
import pickle
import struct

import numpy as np
import pytest
import sparkring
from ranks import open_comm, run

pytestmark = pytest.mark.quick

SIZES = [1, 2, 3, 4]


def objects(rank):
    """Give objects of a rank, small and large, whose pickles differ in length from rank to rank."""
    large = np.arange(3000.0 * (rank + 1))
    frozen = large.copy()
    frozen.flags.writeable = False
    return [
        None,
        [],
        "",
        b"",
        rank,
        (True, 2**70 + rank, 1.5j),
        "ring" * rank,
        {"rank": rank, "nested": [{rank}, {"a": None}]},
        np.arange(rank),
        np.empty((0, 3)),
        bytearray(range(rank)),
        b"\0" * 9000 * rank,
        {"x": large, "y": [large.reshape(-1, 10).T, large[::2], frozen]},
        np.array([("a", rank)] * 999, dtype=[("name", "U2"), ("number", "i8")]),
        np.array([{"rank": rank}, None]),
    ]


def check(result, expected):
    """Compare two objects, arrays in them included: type, order in memory and content."""
    assert type(result) is type(expected)
    if isinstance(expected, dict):
        check(list(result), list(expected))
        check(list(result.values()), list(expected.values()))
    elif isinstance(expected, list):
        assert len(result) == len(expected)
        for one, other in zip(result, expected):
            check(one, other)
    elif isinstance(expected, np.ndarray):
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        if expected.flags.forc:
            assert result.flags.f_contiguous == expected.flags.f_contiguous
        assert result.flags.writeable == expected.flags.writeable
        assert result.flags.aligned
        assert result.tolist() == expected.tolist()
    else:
        assert result == expected


def move_every_object():
    with open_comm() as comm:
        me, ranks = comm.rank, range(comm.size)
        for every in zip(*(objects(rank) for rank in ranks)):
            every = list(every)
            check(comm.allgather_object(every[me]), every)
            sent = [every[me:] + every[to:] for to in ranks]
            check(comm.alltoall_object(sent), [every[rank:] + every[me:] for rank in ranks])
            for root in ranks:
                given = every[me] if me == root else print
                check(comm.broadcast_object(given, root), every[root])
                gathered = comm.gather_object(every[me], root)
                check(gathered, every if me == root else None)
                check(comm.scatter_object(every if me == root else None, root), every[me])
    return True


@pytest.mark.parametrize("size", SIZES)
def test_every_object(size):
    assert run(size, move_every_object) == [True] * size


def pass_objects_around():
    with open_comm() as comm:
        after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        for mine, theirs in zip(objects(comm.rank), objects(before)):
            if comm.rank % 2 == 0:
                assert comm.send_object(mine, after) is None
            check(comm.recv_object(before), theirs)
            if comm.rank % 2 == 1:
                comm.send_object(mine, after)
    return True


@pytest.mark.parametrize("size", [2, 3, 4])
def test_messages(size):
    assert run(size, pass_objects_around) == [True] * size


def reduce_objects():
    with open_comm() as comm:
        return (
            comm.allreduce_object([comm.rank]),
            comm.allreduce_object(str(comm.rank), lambda x, y: f"({x}{y})"),
            comm.allreduce_object({comm.rank}, op=set.union),
            comm.allreduce_object(np.full(5000, comm.rank), np.maximum).tolist(),
        )


@pytest.mark.parametrize("size", SIZES)
def test_reduction_in_rank_order(size):
    nested = ["0", "(01)", "((01)2)", "(((01)2)3)"][size - 1]
    ranks = list(range(size))
    assert run(size, reduce_objects) == [(ranks, nested, set(ranks), [size - 1] * 5000)] * size


def share_memory():
    with open_comm() as comm:
        x = np.arange(9000.0) + comm.rank
        for result in (comm.broadcast_object([x, x + 1]), comm.allgather_object(x)):
            first, second = result
            assert first.base is not None and not first.flags.owndata
            assert not np.shares_memory(first, second) and not np.shares_memory(first, x)
            first[:] = -1
            assert second.min() >= 0 and x.min() >= 0
        small = {"small": np.arange(3)}
        assert comm.broadcast_object(small) is not small
        return comm.allgather_object(small)[0]["small"].flags.owndata


def test_large_arrays_are_copied_once():
    assert run(2, share_memory) == [False, False]


def count_calls():
    with open_comm() as comm:
        x = [comm.rank, np.zeros(9000)]
        counts = []
        for call in (
            lambda: comm.broadcast_object(x),
            lambda: comm.allgather_object(x),
            lambda: comm.gather_object(x),
            lambda: comm.scatter_object(x),
            lambda: comm.alltoall_object(x),
            lambda: comm.allreduce_object(x),
            lambda: comm.recv_object(1) if comm.rank == 0 else comm.send_object(x, 0),
        ):
            before = comm.counters()["calls"]
            call()
            counts.append(comm.counters()["calls"] - before)
        return counts


def test_two_calls():
    assert run(2, count_calls) == [[2] * 7] * 2


def calls(comm, x, root):
    """List the calls in which root's x goes to all other ranks, or some part of it does."""
    xs = [0] * (comm.size - 1)
    return [
        lambda: comm.broadcast_object(x, root),
        lambda: comm.allgather_object(x),
        lambda: comm.scatter_object([*xs, x], root),
        lambda: comm.alltoall_object([*xs, x]),
        lambda: comm.allreduce_object(x),
    ]


def failure(call, kind=sparkring.InvalidError):
    """Tell the rank and the text of the error that call() must raise."""
    with pytest.raises(kind) as caught:
        call()
    return getattr(caught.value, "rank", None), str(caught.value)


def fail_to_pickle():
    with open_comm() as comm:
        text = "TypeError: cannot pickle 'generator' object"
        x = (i for i in range(3)) if comm.rank == 1 else comm.rank
        for call in calls(comm, x, 1):
            if comm.rank == 1:
                assert failure(call, TypeError) == (None, text[11:])
            else:
                assert failure(call) == (1, f"rank 1 could not send its object: {text}")
            assert comm.allreduce(1) == comm.size
        if comm.rank == 1:
            failure(lambda: comm.gather_object(x), TypeError)
            failure(lambda: comm.send_object(x, 0), TypeError)
            comm.send_object("later", 0)
        elif comm.rank == 0:
            assert failure(lambda: comm.gather_object(x))[0] == 1
            assert failure(lambda: comm.recv_object(1))[0] == 1
            assert comm.recv_object(1) == "later"
        else:
            assert comm.gather_object(x) is None
        return comm.allgather_object(comm.rank)


def test_a_rank_that_cannot_pickle():
    assert run(3, fail_to_pickle) == [[0, 1, 2]] * 3


class Lonely:
    """Can be unpickled on rank 1 only."""

    def __reduce__(self):
        return (be_lonely, ())


def be_lonely():
    if os.environ["SPARKRING_RANK"] != "1":
        raise LookupError("there is no friend here")
    return "friend"


def fail_to_unpickle():
    with open_comm() as comm:
        text = "the object of rank 1 cannot be unpickled here: LookupError: there is no friend here"
        x = Lonely() if comm.rank == 1 else comm.rank
        if comm.rank == 1:
            assert comm.broadcast_object(x, 1) == "friend"
            assert comm.allgather_object(x) == [0, "friend", 2]
            comm.send_object(x, 0)
        else:
            assert failure(lambda: comm.broadcast_object(x, 1)) == (1, text)
            assert failure(lambda: comm.allgather_object(x)) == (1, text)
            if comm.rank == 0:
                assert failure(lambda: comm.recv_object(1)) == (1, text)
        return comm.allgather_object(comm.rank)


def test_a_rank_that_cannot_unpickle():
    assert run(3, fail_to_unpickle) == [[0, 1, 2]] * 3


def refuse_arguments():
    with open_comm() as comm:
        last = f"ranks go from 0 to {comm.size - 1}"
        for call in (comm.broadcast_object, comm.gather_object, comm.scatter_object):
            for root in (-1, comm.size):
                text = failure(lambda call=call, root=root: call([1, 2], root))[1]
                assert f"root {root} is no rank: {last}" in text
        assert "peer 7 is no rank" in failure(lambda: comm.send_object(1, 7))[1]
        assert "peer 7 is no rank" in failure(lambda: comm.recv_object(7))[1]
        assert "peer is this rank itself" in failure(lambda: comm.send_object(1, comm.rank))[1]
        text = failure(lambda: comm.allreduce_object(1, "sum"))[1]
        assert text == "op is of type str: pass a function of two objects"
        ops = (max, min)
        differ = failure(lambda: comm.allreduce_object(1, ops[comm.rank]), sparkring.MismatchError)
        assert differ[0] == 1
        assert "rank 0 passes the function max as op and rank 1 min: pass the same" in differ[1]
        length = "xs has 3 objects and there are 2 ranks: pass one for each rank"
        for xs, text in (
            ([1, 2, 3], length),
            (None, "xs is of type NoneType: pass a list with one object for each rank"),
        ):
            for call in (comm.scatter_object, comm.alltoall_object):
                at_fault, what = failure(
                    lambda call=call, xs=xs: call(xs if comm.rank == 0 else "ab")
                )
                if comm.rank == 0:
                    assert (at_fault, what) == (None, text)
                else:
                    assert at_fault == 0
                    assert what.startswith("rank 0 could not send its object: ")
                    assert what.endswith(text)
        return comm.allgather_object(comm.rank)


def test_bad_arguments():
    assert run(2, refuse_arguments) == [[0, 1]] * 2


FOREIGN = {
    b"ring-R3<": "the object of rank 1 comes from R, and Python cannot read it: send arrays",
    b"ring-py9": "the object of rank 1 comes from another version of sparkring, and Python cannot",
}
PLAIN = "other ranks sent bytes that are no objects: all ranks must call the same method"


def send_foreign_objects():
    dangerous = pickle.dumps(Lonely())
    with open_comm() as comm:
        for kind, text in FOREIGN.items():
            envelope = dangerous + struct.pack("<8sd", kind, len(dangerous) + 16)
            if comm.rank == 1:
                comm.allgatherv(envelope)
            else:
                at_fault, what = failure(lambda: comm.allgather_object(comm.rank))
                assert at_fault == 1 and what.startswith(text)
        trailers = [(b"anything", 16), (b"ring-py5", 99), (b"ring-py5", -1), (b"ring-py5", 8)]
        for plain in (b"", b"short", *(struct.pack("<8sd", *trailer) for trailer in trailers)):
            if comm.rank == 1:
                comm.allgatherv(plain)
            else:
                assert failure(lambda: comm.allgather_object(0)) == (None, PLAIN)
        return comm.allgather_object(comm.rank)


def send_arrays_around_a_function():
    x = [np.full(1000, 1.0), lambda y: y + 1, np.full(1000, 2.0)]
    with open_comm() as comm:
        first, function, second = comm.broadcast_object(x)
        return first.sum(), function(1), second.sum()


def test_arrays_around_what_only_cloudpickle_takes():
    assert run(2, send_arrays_around_a_function) == [(1000, 2, 2000)] * 2


def test_foreign_objects():
    assert run(2, send_foreign_objects) == [[0, 1]] * 2


def open_without_token():
    del os.environ["SPARKRING_TOKEN_FILE"]
    with open_comm() as comm:
        before = comm.counters()["calls"]
        for call in (
            *calls(comm, 1, 1),
            lambda: comm.gather_object(1),
            lambda: comm.send_object(1, 1 - comm.rank),
            lambda: comm.recv_object(1 - comm.rank),
        ):
            at_fault, text = failure(call)
            assert at_fault is None and "ranks have no token, so any" in text
        assert comm.counters()["calls"] == before
        return comm.allreduce(1)


def test_no_objects_without_a_token():
    assert run(2, open_without_token) == [2, 2]
    with sparkring.init() as comm:
        assert not comm.authenticated
        assert comm.allgather_object("alone") == ["alone"]
