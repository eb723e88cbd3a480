# SPDX-License-Identifier: Apache-2.0
"""Arrays on GPUs in a reducer: by NCCL and through the host, on 2 and 3 ranks.

CUDA and NCCL are stubs on the memory of the host (gpu_stub.py).
"""

from __future__ import annotations

import os

import gpu_stub
import numpy as np
import pytest
import sparkring
from gpu_stub import FakeArray, FakeTensor
from ranks import open_comm, outcomes, run

both = pytest.mark.parametrize("path", ["nccl", "host"])
sizes = pytest.mark.parametrize("size", [2, 3])


@pytest.fixture(autouse=True)
def _find_stubs(gpu_stubs, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(gpu_stubs))
    monkeypatch.setenv("CUDA_STUB_GPUS", "8")


def begin(comm, path):
    """Give each rank a GPU of its own, and open a reducer that takes this path."""
    gpu = gpu_stub.Gpu(comm.rank)
    if path == "host":  # a reducer takes the path of the communicator's device
        comm.device("host", gpu=gpu.number)
    return gpu, comm.reducer()


def numbers(rank, shape=(6, 4), dtype="float32"):
    count = int(np.prod(shape))
    return (np.arange(count) % 11 + rank).reshape(shape).astype(dtype)


def compare(path):
    """Operations on arrays on GPUs give what those on arrays of the host give."""
    with open_comm() as comm:
        gpu, reducer = begin(comm, path)
        before = gpu.live()
        with reducer:
            assert reducer.explain_device() is None
            some = [numbers(comm.rank, (n, 3)) for n in range(1, 30)]
            on = [gpu.array(x) for x in some]
            order = range(len(on)) if comm.rank == 0 else reversed(range(len(on)))
            started = {i: reducer.allreduce(f"x.{i}", on[i], out=on[i]) for i in order}
            for i, submission in sorted(started.items()):
                assert submission.wait() is on[i]
                np.testing.assert_array_equal(on[i].host, comm.allreduce(some[i]))
            x, out = gpu.array(some[9]), gpu.array(some[9])
            factors = {"op": "avg", "prescale": 0.5, "postscale": 4}
            assert reducer.allreduce("factors", x, out=out, **factors).wait() is out
            np.testing.assert_allclose(out.host, comm.allreduce(some[9], **factors), rtol=1e-6)
            words = gpu.array(numbers(comm.rank, (5,), "int16"))
            reducer.allreduce_group("group", [x, words], out=[out, words]).wait()
            np.testing.assert_array_equal(out.host, comm.allreduce(some[9]))
            np.testing.assert_array_equal(
                words.host, comm.allreduce(numbers(comm.rank, (5,), "int16"))
            )
            reducer.broadcast("weights", x, root=1, out=x).wait()
            np.testing.assert_array_equal(x.host, comm.broadcast(some[9], 1))
            told, counters = reducer.explain_device(), reducer.counters()
            assert told.path == path and told.gpu == gpu.number and told.launches > 0
            assert 0 < counters["gpu_runs"] < counters["operations"]
        del on, x, out, words, started, submission, reducer
        assert gpu.live() == before


@sizes
@both
def test_operations_give_what_the_host_gives(size, path):
    run(size, compare, path)


def use_libraries():
    """Arrays of PyTorch and of CuPy get results of their own, on the current stream."""
    with open_comm() as comm:
        gpu, reducer = begin(comm, "nccl")
        stream = gpu.stream()
        gpu_stub.fake_modules(gpu, stream)
        x = numbers(comm.rank)
        with reducer:
            for kind in (FakeTensor, FakeArray):
                made = reducer.allreduce("x", kind(gpu, x)).wait()
                assert type(made) is kind
                np.testing.assert_array_equal(made.host, comm.allreduce(x))
                first, _ = reducer.allreduce_group("xs", [kind(gpu, x), kind(gpu, x[:2])]).wait()
                np.testing.assert_array_equal(first.host, comm.allreduce(x))
            with pytest.raises(sparkring.InvalidError, match="different streams"):
                reducer.allreduce_group("xs", [FakeTensor(gpu, x), gpu.array(x, stream=2)])
            with pytest.raises(sparkring.InvalidError, match="has no memory for the result"):
                reducer.allreduce("other", gpu.array(x))
            comm.device(gpu=gpu.number)
            made = reducer.allreduce("other", gpu.array(x)).wait()
            assert type(made) is sparkring.DeviceArray
            np.testing.assert_array_equal(gpu_stub.result(gpu, made), comm.allreduce(x))


def test_libraries():
    run(2, use_libraries)


def misuse():
    """Errors on this rank alone, and those of ranks that differ, leave the reducer usable."""
    with open_comm() as comm:
        gpu, reducer = begin(comm, "nccl")
        x, host = gpu.array(numbers(comm.rank)), numbers(comm.rank)
        unsupported = sparkring.UnsupportedError
        with reducer:
            for match, call in (
                ("reduce_scatter takes no arrays on GPUs", lambda: reducer.reduce_scatter("x", x)),
                ("allgather takes no arrays on GPUs", lambda: reducer.allgather("x", x)),
                ("alltoall takes no arrays on GPUs", lambda: reducer.alltoall("x", x)),
                (
                    "int32 on GPUs has no factors",
                    lambda: reducer.allreduce(
                        "x", words := gpu.array(host.astype("int32")), out=words, prescale=2
                    ),
                ),
            ):
                with pytest.raises(unsupported, match=match):
                    call()
            for call in (
                lambda: reducer.allreduce("x", x, out=host),
                lambda: reducer.allreduce("x", host, out=x),
                lambda: reducer.allreduce_group("x", [x, host], out=[x, host]),
            ):
                with pytest.raises(sparkring.InvalidError, match="another array of the call on a"):
                    call()
            differs = {"x": host} if comm.rank == 1 else {"x": x, "out": x}
            with pytest.raises(sparkring.MismatchError) as caught:
                reducer.allreduce("x", **differs).wait()
            assert "rank 0 (127.0.0.1) submitted allreduce of float32 [6, 4] on GPUs, sum" in str(
                caught.value
            )
            reducer.allreduce("x", x, out=x).wait()
            np.testing.assert_array_equal(x.host, comm.allreduce(host))


def test_misuse():
    run(2, misuse)


def join():
    """A rank that has joined has no array on a GPU."""
    with open_comm() as comm:
        gpu, reducer = begin(comm, "nccl")
        with reducer:
            if comm.rank > 0:
                x = gpu.array(numbers(comm.rank))
                reducer.allreduce("x", x, out=x).wait()
                total = sum(numbers(rank) for rank in range(1, comm.size))
                np.testing.assert_array_equal(x.host, total)
            assert reducer.join() > 0


@sizes
def test_a_rank_that_has_joined_gives_zeros(size):
    run(size, join)


def go_through_the_host(reason):
    with open_comm() as comm:
        gpu, reducer = begin(comm, "auto")
        x = gpu.array(numbers(comm.rank))
        with reducer:
            reducer.allreduce("x", x, out=x).wait()
            np.testing.assert_array_equal(x.host, comm.allreduce(numbers(comm.rank)))
            told = reducer.explain_device()
            assert told.path == "host" and reason in told.reason


def test_without_nccl_operations_go_through_the_host(gpu_stubs, tmp_path, monkeypatch):
    for name in ("libcuda.so.1", "libnvrtc.so.12"):
        (tmp_path / name).symlink_to(gpu_stubs / name)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    run(2, go_through_the_host, "libnccl")


def fail(how):
    """Rank 1 ends, or its NCCL fails, in a fused reduction."""
    comm = open_comm(call_timeout=10)
    gpu, reducer = begin(comm, "nccl")
    some = [gpu.array(numbers(comm.rank, (1000,))) for _ in range(8)]
    reducer.allreduce("first", some[0], out=some[0]).wait()
    comm.barrier()
    if comm.rank == 1 and how == "death":
        os._exit(0)
    started = [reducer.allreduce(f"x.{i}", x, out=x) for i, x in enumerate(some)]
    said = set()
    for submission in started:
        with pytest.raises(sparkring.RingError) as caught:
            submission.wait()
        said.add((caught.value.status, caught.value.rank, str(caught.value)))
    with pytest.raises(type(caught.value)):
        reducer.allreduce("late", some[0], out=some[0])
    assert len(said) == 1
    reducer.abort("over")
    if how == "nccl":
        assert comm.usable, "the reducer has failed, not the communicator"
    comm.abort()
    return said.pop()


@pytest.mark.parametrize(("how", "status"), [("death", "PEER_LOST"), ("nccl", "SYSTEM")])
@sizes
def test_failures_name_the_rank(size, how, status, monkeypatch):
    if how == "nccl":
        monkeypatch.setenv("NCCL_STUB_FAILS", "async:1:2")
    for rank, ended in enumerate(outcomes(size, fail, how)):
        if rank == 1 and how == "death":
            continue
        assert ended.error is None, ended.error
        got, at, said = ended.value
        assert got == status and at == 1 and "127.0.0.1" in said, said
