# SPDX-License-Identifier: Apache-2.0
"""Horovod's API on NumPy's arrays: the context, operations, process sets and objects."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
import sparkring
from ranks import open_comm, run
from sparkring._horovod import builds, context, objects, operations, ops
from sparkring._horovod import ranks as hvd
from sparkring._horovod import settings as variables
from sparkring._horovod.errors import HorovodInternalError
from sparkring._horovod.process_sets import ProcessSet, global_process_set
from sparkring._horovod.reduction import Reduction

SUM = Reduction(op=ops.Sum)


def use_everything(shared):
    os.environ["SPARKRING_SHARED_MEMORY"] = shared
    with pytest.raises(ValueError, match=r"call init\(\) first"):
        hvd.rank()
    context.init(timeout=30, call_timeout=20)
    rank, size = hvd.rank(), hvd.size()
    know_ranks(rank, size)
    reduce_arrays(rank, size)
    move_arrays(rank, size)
    submit_from_threads(rank, size)
    fail_and_go_on(rank, size)
    send_objects(rank, size)
    use_process_sets(rank, size)
    last = count_names_anew(rank, size)
    context.shutdown()
    assert not context.is_initialized()
    again(rank, size)
    return last


def know_ranks(rank, size):
    assert context.is_initialized()
    assert (hvd.local_rank(), hvd.local_size()) == (rank, size)
    assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)
    assert hvd.is_homogeneous()
    assert not builds.mpi_enabled() and builds.nccl_built() == 0


def reduce_arrays(rank, size):
    x = np.full((2, 3), rank + 1.0)
    total = size * (size + 1) / 2
    assert (operations.allreduce(x).wait() == total / size).all()
    assert (operations.allreduce(x, Reduction(op=ops.Sum, prescale=2)).wait() == 2 * total).all()
    assert (operations.allreduce(x, Reduction("max", ops.Max)).wait() == size).all()
    assert (operations.allreduce(-x, out=x).wait() == -total / size).all()
    assert operations.allreduce(np.array([-rank])).wait().tolist() == [-(sum(range(size)) // size)]
    equal = operations.allreduce(np.array([3.0, 4.0]), Reduction(op=ops.Adasum)).wait()
    assert equal.tolist() == [3.0, 4.0]
    apart = np.eye(size)[rank]
    assert operations.allreduce(apart, Reduction(op=ops.Adasum)).wait().tolist() == [1.0] * size
    mixed = [np.ones(2), np.full(3, rank, "int32"), np.zeros((1, 2))]
    results = operations.grouped_allreduce(mixed, SUM).wait()
    assert [each.tolist() for each in results] == [
        [size, size],
        [sum(range(size))] * 3,
        [[0.0, 0.0]],
    ]


def move_arrays(rank, size):
    work = operations.allgather(np.full((rank, 2), rank))
    assert work.wait()[:, 0].tolist() == [r for r in range(size) for _ in range(r)]
    rows = np.repeat(np.arange(size + 1.0), 2).reshape(-1, 2)
    mine = operations.reducescatter(rows, SUM).wait()
    first = [0, 1] if rank == 0 else [rank + 1]
    assert mine[:, 0].tolist() == [size * each for each in first]
    work = operations.alltoall(np.arange(size * 2 + 1), splits=[2] * size)
    assert work.wait().tolist() == [2 * rank, 2 * rank + 1] * size
    assert work.rows == [2] * size
    for splits in ([1.0] * size, [1] * (size + 1), [2**31] * size, [9] * size, [-1] * size):
        with pytest.raises(ValueError, match="splits"):
            operations.alltoall(np.arange(size), splits=splits)
    with pytest.raises(ValueError, match="pass splits"):
        operations.alltoall(np.arange(size + 1))
    assert operations.broadcast(np.array([rank]), size - 1).wait().tolist() == [size - 1]
    with pytest.raises(ValueError, match="root_rank"):
        operations.broadcast(np.zeros(1), size)
    operations.barrier()


def submit_from_threads(rank, size):
    """Threads whose orders differ between ranks do not wait for each other for ever."""
    results = {}

    def work(name):
        for i in range(10):
            one = operations.allgather(np.array([rank]), name=f"{name}.{i}")
            two = operations.broadcast(np.array([i]), 0, name=f"{name}.{i}")
            results[name] = (one.wait().tolist(), two.wait().tolist())

    names = [f"thread{(i + rank) % 3}" for i in range(3)]
    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {name: (list(range(size)), [9]) for name in names}


def fail_and_go_on(rank, size):
    work = operations.allreduce(np.zeros(2 + rank), Reduction("uneven"))
    with pytest.raises(HorovodInternalError, match="MismatchError") as caught:
        work.wait()
    assert isinstance(caught.value.__cause__, sparkring.MismatchError)
    work = operations.allreduce(np.ones(2), SUM._replace(name="uneven"))
    assert work.wait().tolist() == [size] * 2


def send_objects(rank, size):
    assert objects.broadcast_object({"rank": rank}, root_rank=1) == {"rank": 1}
    assert objects.allgather_object("x" * rank) == ["x" * r for r in range(size)]
    large = objects.broadcast_object(np.arange(5000) if rank == 0 else None)
    assert large[-1] == 4999


def use_process_sets(rank, size):
    last = context.add_process_set([size - 1, 1])
    assert last.process_set_id == 1
    assert last.included() == (rank in (1, size - 1))
    assert last.size() == len({1, size - 1})
    assert global_process_set.ranks == list(range(size))
    if last.included():
        of_last = SUM._replace(process_set=last)
        assert operations.allreduce(np.ones(1), of_last).wait() == last.size()
        sent = operations.broadcast(np.array([rank]), size - 1, process_set=last)
        assert sent.wait().tolist() == [size - 1]
        with pytest.raises(ValueError, match="member of the process set"):
            operations.broadcast(np.zeros(1), 0, process_set=last)
    else:
        with pytest.raises(ValueError, match="is not in the process set"):
            operations.allreduce(np.ones(1), Reduction(process_set=last))
    with pytest.raises(ValueError, match="exists already"):
        context.add_process_set([1, size - 1])
    with pytest.raises(HorovodInternalError, match="different process sets"):
        context.add_process_set([0, rank])
    assert context.remove_process_set(last)
    assert not context.remove_process_set(last)
    assert not context.remove_process_set(global_process_set)
    with pytest.raises(ValueError, match="not in use"):
        last.rank()


def count_names_anew(rank, size):
    """After a join the names of operations agree again, though ranks made different numbers."""
    for _ in range(rank):
        operations.allreduce(np.ones(1)).wait()
    last = operations.join()
    assert operations.allreduce(np.ones(1), SUM).wait() == size
    return last


def again(rank, size):
    """Init after a shutdown, with variables, and over a communicator that stays open."""
    os.environ["HOROVOD_FUSION_THRESHOLD"] = "4096"
    os.environ["HOROVOD_CYCLE_TIME"] = "0.5"
    context.init(timeout=30, call_timeout=20, process_sets=[ProcessSet([1])])
    counters = global_process_set.group().reducer.counters()
    assert counters["threshold"] == 4096
    assert counters["cycle_time"] == 0.0005
    assert operations.allreduce(np.ones(1), SUM).wait() == size
    context.shutdown()
    os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "0"
    with open_comm() as comm:
        for given in (comm, None):
            context.init(given)
            assert operations.allreduce(np.ones(1), SUM).wait() == size
            with pytest.raises(ValueError, match="DYNAMIC_PROCESS_SETS is 0"):
                context.add_process_set([0])
            context.shutdown()
        assert comm.allreduce(1) == size


@pytest.mark.parametrize(("size", "shared"), [(2, "0"), (3, "1")], ids=["2-tcp", "3-shm"])
def test_ranks(size, shared):
    assert run(size, use_everything, shared) == [size - 1] * size


def test_settings(monkeypatch):
    for name, value in (
        ("FUSION_THRESHOLD", "0"),
        ("CACHE_CAPACITY", "7"),
        ("STALL_CHECK_TIME_SECONDS", "30"),
        ("STALL_SHUTDOWN_TIME_SECONDS", "90"),
        ("TIMELINE", "/tmp/t"),
        ("TIMELINE_MARK_CYCLES", "1"),
    ):
        monkeypatch.setenv(f"HOROVOD_{name}", value)
    read = variables.Settings.read()
    assert read == (1, None, 7, 30.0, 90.0, False, None, "/tmp/t", True, True)
    monkeypatch.setenv("HOROVOD_STALL_CHECK_DISABLE", "1")
    monkeypatch.setenv("HOROVOD_CYCLE_TIME", "20")
    monkeypatch.setenv("HOROVOD_AUTOTUNE", "1")
    monkeypatch.setenv("HOROVOD_AUTOTUNE_LOG", "/tmp/log")
    with pytest.warns(RuntimeWarning, match="CYCLE_TIME"):
        settings = variables.Settings.read()
    assert (settings.autotune, settings.autotune_log) == (True, "/tmp/log")
    assert (settings.warn_after, settings.cycle_time) == (0.0, 0.005)
    variables.Settings.read()
    monkeypatch.setenv("HOROVOD_CYCLE_TIME", "fast")
    with pytest.raises(ValueError, match="HOROVOD_CYCLE_TIME is 'fast'"):
        variables.Settings.read()
