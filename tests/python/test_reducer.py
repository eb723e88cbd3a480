# SPDX-License-Identifier: Apache-2.0
"""Named arrays in any order."""

from __future__ import annotations

import math
import random
import threading

import numpy as np
import pytest
import sparkring
from ranks import open_comm, run

pytestmark = pytest.mark.quick


def reduce_in_any_order():
    with open_comm() as comm, comm.reducer() as reducer:
        order = random.Random(comm.rank).sample(range(40), 40)
        for _ in range(3):
            arrays = [np.full((2, 3), i + comm.rank, np.float32) for i in range(40)]
            started = {i: reducer.allreduce(f"w{i}", arrays[i], out=arrays[i]) for i in order}
            for i, submission in started.items():
                assert submission.wait() is arrays[i]
                assert submission.test()
                assert (arrays[i] == 3 * i + 3).all()
        counters = reducer.counters()
        assert counters["operations"] == 120
        assert counters["cached"] == 40
        return float(reducer.allreduce("mean", comm.rank, op="avg", dtype="int64").wait())


def test_any_order():
    assert run(3, reduce_in_any_order) == [1.0] * 3


def use_every_kind():
    with open_comm() as comm, comm.reducer(cycle_time=0) as reducer:
        rank = comm.rank
        rows = reducer.allgather("rows", np.full((rank + 1, 2), rank))
        swap = reducer.alltoall("swap", np.arange(3.0) + 10 * rank, splits=[1, 2])
        part = reducer.reduce_scatter("part", np.arange(3.0), prescale=2.0)
        root = reducer.broadcast("root", np.array([rank]), root=1)
        group = reducer.allreduce_group("group", [np.ones(2), np.ones((1, 3))], postscale=0.5)
        reducer.barrier("barrier").wait()
        shapes = [array.shape for array in group.wait()]
        return (
            rows.wait().tolist(),
            rows.rows,
            swap.wait().tolist(),
            swap.rows,
            part.wait().tolist(),
            root.wait().tolist(),
            shapes,
        )


def test_every_kind():
    first, second = run(2, use_every_kind)
    gathered = [[0, 0], [1, 1], [1, 1]]
    assert first == (gathered, [1, 2], [0, 10], [1, 1], [0, 4], [1], [(2,), (1, 3)])
    assert second == (gathered, [1, 2], [1, 2, 11, 12], [2, 2], [8], [1], [(2,), (1, 3)])


def disagree():
    with open_comm() as comm, comm.reducer() as reducer:
        shape = (2, 2) if comm.rank == 1 else (4,)
        with pytest.raises(sparkring.MismatchError, match=r"rank 1 .* float64 \[2, 2\], sum"):
            reducer.allreduce("x", np.ones(shape)).wait()
        for error, text, call in [
            (sparkring.InvalidError, "name is empty", lambda: reducer.allreduce("", 1)),
            (sparkring.InvalidError, "name is of type int", lambda: reducer.allreduce(5, 1)),
            (sparkring.InvalidError, "x is of type NoneType", lambda: reducer.allreduce("x", None)),
            (TypeError, "op must be str, not int", lambda: reducer.allreduce("x", 1, 3)),
            (TypeError, "root must be a whole number", lambda: reducer.broadcast("x", 1, "0")),
            (
                TypeError,
                r"splits\[0\] must be",
                lambda: reducer.alltoall("x", np.ones(1), [0.5, 0]),
            ),
        ]:
            with pytest.raises(error, match=text):
                call()
        return reducer.allreduce("x", np.ones(4)).wait().tolist()


def test_arrays_that_differ():
    assert run(2, disagree) == [[2.0] * 4] * 2


def test_settings_out_of_range():
    with open_comm(rank=0, addresses=["localhost"]) as comm:
        for name in ("threshold", "cache_capacity"):
            with pytest.raises(sparkring.InvalidError, match=f"{name} is 0: it must be 1 or more"):
                comm.reducer(**{name: 0})
        for name in ("cycle_time", "stall_timeout"):
            with pytest.raises(
                sparkring.InvalidError, match=f"{name} is -1: it must be a positive"
            ):
                comm.reducer(**{name: -1})
        with pytest.raises(sparkring.InvalidError, match="autotune must be True or False"):
            comm.reducer(autotune="no")


def group_of_kinds():
    """A group of several dtypes is one operation, also for a rank that has joined."""
    with open_comm() as comm, comm.reducer(stall_timeout=math.inf) as reducer:
        xs = [np.ones(2, "float32"), np.array([comm.rank]), np.ones(3, "uint16")]
        kinds = [None, None, "bfloat16"]
        other = [*xs[:2], xs[2].astype("int16")]
        with pytest.raises(sparkring.MismatchError, match=r"2 float32, 1 int64, 3 int16\]"):
            reducer.allreduce_group("mixed", other if comm.rank else xs).wait()
        with pytest.raises(sparkring.MismatchError, match="avg, a note"):
            reducer.allreduce_group("x", xs[:1], "avg", note="a note" if comm.rank else None).wait()
        shaped = np.ones((2, 3) if comm.rank else (3, 2))
        with pytest.raises(sparkring.MismatchError, match=r"shapes \[2\], \[3, 2\].* \[2, 3\]"):
            reducer.allreduce_group("shaped", [xs[0], shaped]).wait()
        sums = reducer.allreduce_group("mixed", xs, dtype=kinds, op="max").wait()
        if comm.rank == 1:
            ones = reducer.allreduce_group("later", xs[:2]).wait()
            sums = [*sums, *ones]
        reducer.join()
        assert reducer.counters()["runs"] <= 4
        return [x.tolist() for x in sums]


def test_groups_of_several_dtypes():
    first, second = run(2, group_of_kinds)
    assert first == [[1, 1], [1], [1, 1, 1]]
    assert second == [*first, [1, 1], [1]]


def leave_early():
    """A rank with two reducers leaves both, so a wait in the second one ends at once."""
    with open_comm() as comm:
        first, second = comm.reducer(), comm.reducer()
        text = ""
        if comm.rank == 1:
            first.leave()
            second.leave()
        else:
            with pytest.raises(sparkring.MismatchError, match="rank 1") as caught:
                second.allreduce("x", 1).wait()
            text = str(caught.value)
        first.close()
        second.close()
        return text


def test_leave():
    first, second = run(2, leave_early)
    assert "has closed its reducer" in first
    assert second == ""


def submit_twice():
    with open_comm() as comm, comm.reducer() as reducer:
        if comm.rank == 1:
            first = reducer.allreduce("x", 1)
            with pytest.raises(sparkring.InvalidError, match="in flight on this rank"):
                reducer.allreduce("x", 1)
            return first.wait()
        return reducer.allreduce("x", 1).wait()


def test_name_in_flight():
    assert run(2, submit_twice) == [2, 2]


def join_early():
    with open_comm() as comm, comm.reducer() as reducer:
        sums = [reducer.allreduce("x", 1).wait() for _ in range(3 * comm.rank)]
        return sums, reducer.join()


def test_join():
    assert run(2, join_early) == [([], 1), ([1, 1, 1], 1)]


def submit_from_threads():
    with open_comm() as comm, comm.reducer() as reducer:
        sums = {}

        def work(name):
            sums[name] = [reducer.allreduce(name, i).wait() for i in range(20)]

        threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sums


def test_threads():
    expected = [2 * i for i in range(20)]
    assert run(2, submit_from_threads) == [dict.fromkeys("abc", expected)] * 2


def fail_inside():
    with open_comm() as comm:
        try:
            with comm.reducer() as reducer:
                if comm.rank == 1:
                    raise ValueError("no data")
                reducer.allreduce("x", 1).wait()
        except ValueError:
            return "raised"
        except sparkring.AbortedError as error:
            return str(error)


def test_exception_aborts_the_reducer():
    text, raised = run(2, fail_inside)
    assert raised == "raised"
    assert "ValueError: no data" in text


def tune(path):
    with open_comm() as comm, comm.reducer(autotune_log=path) as reducer:
        for _ in range(160):
            assert reducer.allreduce("x", np.ones(1000)).wait()[0] == comm.size
        counters = reducer.counters()
    return counters["threshold"], counters["cycle_time"]


def test_autotune(tmp_path):
    one, other = run(2, tune, tmp_path / "log")
    *tried, last = (tmp_path / "log").read_text().splitlines()
    threshold, cycle_time, rate, chosen = last.split(",")
    assert one == other == (int(threshold), float(cycle_time))
    assert (len(tried), chosen) == (15, "1")
    assert float(rate) > 0


def drop_submissions():
    """Neither a dropped submission nor a dropped reducer leaves the other ranks in doubt."""
    with open_comm() as comm:
        reducer = comm.reducer()
        for i in range(20):
            reducer.allreduce(f"{i}", np.ones(1000))
        reducer.barrier("end").wait()
        reducer.close()
        return comm.allreduce(1)


def test_dropped_submissions():
    assert run(2, drop_submissions) == [2, 2]
