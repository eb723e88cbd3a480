# SPDX-License-Identifier: Apache-2.0
"""Arrays on GPUs in the calls of a communicator: by NCCL and through the host, on 2 and 3 ranks.

CUDA and NCCL are stubs on the memory of the host (gpu_stub.py). tests/gpu has what needs a GPU.
"""

from __future__ import annotations

import os

import gpu_stub
import numpy as np
import pytest
import sparkring
from gpu_stub import FakeArray, FakeJax, FakeTensor, Lent
from ranks import open_comm, outcomes, run

both = pytest.mark.parametrize("path", ["nccl", "host"])
sizes = pytest.mark.parametrize("size", [2, 3])


@pytest.fixture(autouse=True)
def _find_stubs(gpu_stubs, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(gpu_stubs))
    monkeypatch.setenv("CUDA_STUB_GPUS", "8")


def begin(comm):
    """Give each rank a GPU of its own."""
    return gpu_stub.Gpu(comm.rank)


def numbers(rank, shape=(6, 4), dtype="float32"):
    count = int(np.prod(shape))
    return (np.arange(count) % 11 + rank).reshape(shape).astype(dtype)


def values(comm, gpu, made):
    comm.device().wait(made)
    return gpu_stub.result(gpu, made).copy()


# ---- Every call gives what the host gives


def compare(path):
    with open_comm() as comm:
        gpu = begin(comm)
        before = gpu.live()
        device = comm.device(path, gpu=gpu.number)
        assert device.explain().path == path
        x, size = numbers(comm.rank), comm.size
        on = gpu.array(x)

        def same(made, expected):
            seen = values(comm, gpu, made)
            assert seen.shape == expected.shape and seen.dtype == expected.dtype
            np.testing.assert_array_equal(seen, expected)

        same(comm.allreduce(on), comm.allreduce(x))
        same(comm.allreduce(on, op="max"), comm.allreduce(x, op="max"))
        same(comm.allreduce(on, prescale=0.5, postscale=4), 2 * comm.allreduce(x))
        reduced, expected = comm.reduce(on, root=1), comm.reduce(x, root=1)
        assert (reduced is None) == (expected is None) == (comm.rank != 1)
        if reduced is not None:
            same(reduced, expected)
        same(comm.broadcast(on, 1), comm.broadcast(x, 1))
        same(comm.allgather(on), comm.allgather(x))
        same(comm.reduce_scatter(on), comm.reduce_scatter(x))
        same(comm.alltoall(on), comm.alltoall(x))
        counts = np.full(size, 6 // size) + np.eye(size, dtype=int)[0] * (6 % size)
        made, rows = comm.alltoallv(on, counts, return_counts=True)
        expected, expected_rows = comm.alltoallv(x, counts, return_counts=True)
        same(made, expected)
        np.testing.assert_array_equal(rows, expected_rows)
        for dtype in ("float64", "int64", "uint8", "float16", "bool", "complex64", "int16"):
            typed = (x % 2).astype(dtype)
            op = "max" if dtype == "bool" else "sum"
            same(comm.allreduce(gpu.array(typed), op), comm.allreduce(typed, op))
        same(comm.allreduce(gpu.array(x[:0])), comm.allreduce(x[:0]))
        same(comm.allreduce(gpu.array(x[0, 0].reshape(()))), comm.allreduce(x[0, 0].reshape(())))
        del made, on, reduced
    return before == gpu.live()


@sizes
@both
def test_every_call_gives_what_the_host_gives(size, path):
    assert all(run(size, compare, path))


def compare_groups(path):
    with open_comm() as comm:
        gpu = begin(comm)
        comm.device(path, gpu=gpu.number)
        xs = [numbers(comm.rank, (6, 2)), numbers(comm.rank, (3, 5, 2)), numbers(comm.rank, (6,))]
        xs += [numbers(comm.rank, (6,), "int32"), numbers(comm.rank, (12,), "int32")]
        on = [gpu.array(x) for x in xs]
        for name, some in (
            ("allreduce_group", 5),
            ("allgather_group", 5),
            ("broadcast_group", 5),
            ("reduce_scatter_group", 1 if comm.size == 2 else 2),
        ):
            expected = getattr(comm, name)(xs[:some])
            made = getattr(comm, name)(on[:some])
            assert len(made) == some
            for one, other in zip(made, expected):
                np.testing.assert_array_equal(values(comm, gpu, one), other)
        outs = [gpu.array(np.zeros_like(x)) for x in xs]
        assert comm.allreduce_group(on, out=outs)[0] is outs[0]
        comm.device().wait()
        for one, other in zip(outs, comm.allreduce_group(xs)):
            np.testing.assert_array_equal(one.host, other)
        with pytest.raises(sparkring.InvalidError, match="out has 1 arrays and xs 5"):
            comm.allreduce_group(on, out=outs[:1])
        halves = comm.device().allreduce_group(on[:3], wire="bfloat16", prescale=1 / comm.size)
        mean = comm.allreduce_group(xs[:3], op="avg")
        for one, other in zip(halves, mean):
            np.testing.assert_allclose(values(comm, gpu, one), other, rtol=0.02)


@sizes
@both
def test_groups(size, path):
    run(size, compare_groups, path)


def exchange(path):
    with open_comm() as comm:
        gpu = begin(comm)
        x = gpu.array(numbers(comm.rank, (1000,)))
        if comm.rank < 2:
            with pytest.raises(
                sparkring.InvalidError, match=r"all ranks open a device: call comm\.device"
            ):
                comm.send(x, 1 - comm.rank)
        comm.device(path, gpu=gpu.number)
        if comm.rank == 0:
            comm.send(x, 1)
        if comm.rank == 1:
            out = gpu.array(np.zeros(1000, "float32"))
            assert comm.recv(x, 0, out=out) is out
            comm.device().wait()
            np.testing.assert_array_equal(out.host, numbers(0, (1000,)))
            comm.send(out, 2 % comm.size)
        if comm.rank == 2 % comm.size:
            np.testing.assert_array_equal(values(comm, gpu, comm.recv(x, 1)), numbers(0, (1000,)))


@sizes
@both
def test_messages(size, path):
    run(size, exchange, path)


# ---- Arrays of libraries


def use_libraries(path):
    with open_comm() as comm:
        gpu = begin(comm)
        stream = gpu.stream()
        gpu_stub.fake_modules(gpu, stream)
        comm.device(path, gpu=gpu.number)
        x = numbers(comm.rank, (5, 3))
        total = comm.allreduce(x)
        device = comm.device()
        for kind in (FakeTensor, FakeArray):
            made = comm.allreduce(gpu.array(x, kind))
            assert type(made) is kind
            device.wait(made)  # on the current stream of the library
            np.testing.assert_array_equal(made.host, total)
            out = gpu.array(np.zeros_like(x), kind)
            assert comm.allreduce(gpu.array(x, kind), out=out) is out
            assert comm.allreduce(out, out=out) is out
            device.wait(stream)
            np.testing.assert_array_equal(out.host, comm.size * total)
        lent = gpu.array(x, Lent)
        made = comm.allreduce(lent)
        assert lent.streams == [1], "it was asked to be ready for the default stream"
        assert lent.made == lent.deleted == 1
        assert type(made) is sparkring.DeviceArray, "the module has no from_dlpack"
        np.testing.assert_array_equal(gpu_stub.result(gpu, made), total)
        jax = gpu.array(x, FakeJax)
        name, made = comm.allreduce(jax)
        assert name == "jax" and jax.streams == [1]
        np.testing.assert_array_equal(gpu_stub.result(gpu, made), total)
        with_stream = comm.allreduce(gpu.array(x, stream=stream))
        assert with_stream.__cuda_array_interface__["stream"] == stream
        np.testing.assert_array_equal(values(comm, gpu, with_stream), total)
        of_thread = comm.allreduce(gpu.array(x, stream=2))  # another stream in threads of NCCL
        assert of_thread.__cuda_array_interface__["stream"] == 1
        np.testing.assert_array_equal(values(comm, gpu, of_thread), total)
        halves = device.cast(gpu.array(x, stream=2), "float16")
        np.testing.assert_array_equal(values(comm, gpu, halves), x.astype("float16"))
        assert comm.allreduce(gpu.array(x), out=out) is out, "two libraries"
        device.wait(stream)


@both
def test_each_library_gets_its_own(path):
    run(2, use_libraries, path)


def lend_result():
    """A result goes through DLPack into another call, and lives longer than the communicator."""
    with open_comm() as comm:
        gpu = begin(comm)
        x = numbers(comm.rank, (4,))
        first = comm.allreduce(gpu.array(x))
        total = comm.allreduce(x)
        assert first.__dlpack_device__() == (2, comm.rank)
        again = comm.allreduce(Capsule(first))
        np.testing.assert_array_equal(gpu_stub.result(gpu, again), comm.size * total)
        first.__dlpack__()  # nobody takes it
        capsule = again.__dlpack__(max_version=(1, 0))
        words = gpu.array(np.array([0x3F80, 0x4000], "uint16"))
        made = comm.allreduce(words, dtype="bfloat16")
        assert made.dtype == "bfloat16"
        np.testing.assert_array_equal(
            values(comm, gpu, made),
            [0x4000 if comm.size == 2 else 0x4040, 0x4080 if comm.size == 2 else 0x40C0],
        )
    del first, made, capsule
    assert "float32" in repr(again)
    np.testing.assert_array_equal(gpu_stub.result(gpu, again), comm.size * total)


class Capsule:
    """What has DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@sizes
def test_a_result_is_lent(size):
    run(size, lend_result)


# ---- The device


def open_by_a_call():
    with open_comm() as comm:
        gpu = begin(comm)
        made = comm.allreduce(gpu.array(numbers(comm.rank)))
        device = comm.device()
        explained = device.explain()
        assert explained.gpu == comm.rank and explained.calls == 1
        assert "NCCL 2.28.3" in str(explained) and str(explained) in repr(device)
        with pytest.raises(sparkring.InvalidError, match="has a device already: rank"):
            comm.device("host")
        with pytest.raises(sparkring.InvalidError, match=r"on GPU 5.*comm.device\(gpu=5\)"):
            gpu.number = 5
            comm.allreduce(gpu.array(numbers(0), Lent))
        request = comm.allreduce_start(gpu.array(numbers(comm.rank)))
        np.testing.assert_array_equal(gpu_stub.result(gpu, request.wait()), values(comm, gpu, made))
        assert request.test() and device.test()
        half = device.cast(made, "float16", scale=0.5)
        device.wait()
        np.testing.assert_array_equal(
            gpu_stub.result(gpu, half), gpu_stub.result(gpu, made).astype("float16") / 2
        )
        assert device.cast(half, "float32", 2, out=made) is made
        child = comm.split(comm.rank % 2)
        alone = child.allreduce(gpu.array(np.ones(3)))
        child.device().wait()
        np.testing.assert_array_equal(gpu_stub.result(gpu, alone), np.full(3, float(child.size)))
        child.close()
    return explained.path


def test_the_first_call_opens_the_device():
    assert run(3, open_by_a_call) == ["nccl"] * 3


def go_through_the_host(reason):
    with open_comm() as comm:
        gpu = begin(comm)
        made = comm.allreduce(gpu.array(numbers(comm.rank)))
        explained = comm.device().explain()
        assert explained.path == "host" and explained.page_locked == 1
        assert reason in explained.reason and reason in explained.text, explained
        np.testing.assert_array_equal(values(comm, gpu, made), comm.allreduce(numbers(comm.rank)))


def test_without_nccl_calls_go_through_the_host(gpu_stubs, tmp_path, monkeypatch):
    (tmp_path / "libcuda.so.1").symlink_to(gpu_stubs / "libcuda.so.1")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    run(2, go_through_the_host, "rank 0 (127.0.0.1) cannot use NCCL: ")


def test_where_nccl_cannot_begin_calls_go_through_the_host(monkeypatch):
    monkeypatch.setenv("NCCL_STUB_FAILS", "id:0:0")
    run(2, go_through_the_host, "rank 0 (127.0.0.1) ")


def refuse():
    with open_comm() as comm:
        with pytest.raises(sparkring.UnsupportedError) as caught:
            comm.device()
        comm.barrier()
        with pytest.raises(
            sparkring.InvalidError, match="'fast': it must be one of auto, nccl, host"
        ):
            comm.device("fast")
        comm.barrier()
    return str(caught.value)


def test_without_a_driver_the_error_names_rank_and_host(tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    for text in run(2, refuse):
        assert text.startswith("rank 0 (127.0.0.1) has no GPU for a device: ")
        assert "libcuda.so.1" in text


def misuse():
    with open_comm() as comm:
        gpu = begin(comm)
        comm.device(gpu=gpu.number)
        x, host = gpu.array(numbers(comm.rank)), numbers(comm.rank)
        invalid = sparkring.InvalidError
        for wrong, why, call in (
            (invalid, "another array of the call on a GPU", lambda: comm.allreduce(x, out=host)),
            (invalid, "another array of the call on a GPU", lambda: comm.allreduce(host, out=x)),
            (
                invalid,
                "xs.1. is in the memory of the host",
                lambda: comm.allreduce_group([x, host]),
            ),
            (
                invalid,
                "holds float64",
                lambda: comm.allreduce(x, out=gpu.array(host.astype(float))),
            ),
            (invalid, "has 6 elements", lambda: comm.allreduce(x, out=gpu.array(host[:3, :2]))),
            (invalid, "overlaps", lambda: comm.alltoall(x, out=x)),
            (invalid, "not contiguous", lambda: comm.allreduce(gpu.array(host, strides=(4, 24)))),
            (
                invalid,
                "not aligned",
                lambda: comm.allreduce(gpu.array(host, data=(x.address + 1, False))),
            ),
            (invalid, "masked", lambda: comm.allreduce(gpu.array(host, mask=x))),
            (invalid, "holds float32, not int8", lambda: comm.allreduce(x, dtype="int8")),
            (invalid, "unknown op", lambda: comm.allreduce(x, op="median")),
            (invalid, "is for integers and bool", lambda: comm.allreduce(x, op="band")),
            (invalid, "share equally", lambda: comm.alltoall(gpu.array(host[:5]))),
            (invalid, "add up to", lambda: comm.alltoallv(x, [1] * comm.size)),
            (invalid, "single number", lambda: comm.alltoall(gpu.array(host[0, 0].reshape(())))),
            (sparkring.UnsupportedError, "gather takes no arrays on GPUs", lambda: comm.gather(x)),
            (sparkring.UnsupportedError, "takes no prescale", lambda: comm.reduce(x, prescale=2)),
            (TypeError, "unexpected keyword argument", lambda: comm.allreduce(x, root=1)),
        ):
            with pytest.raises(wrong, match=why):
                call()
        messages = comm.messages()
        with pytest.raises(invalid, match="in the memory of a GPU, which this call does not"):
            messages.send_start(x, 0)
        messages.close()
        comm.barrier()
        comm.allreduce(x)


def test_errors_before_anything_is_sent():
    run(2, misuse)


# ---- Failures


def fail(path, how):
    """Rank 1 ends in the midst of calls, or makes another one."""
    comm = open_comm(call_timeout=2 if how == "mismatch" else 10)
    gpu = begin(comm)
    device = comm.device(path, gpu=gpu.number)
    x = gpu.array(numbers(comm.rank, (1 << 16,)))
    comm.allreduce(x)
    device.wait()
    comm.barrier()
    if comm.rank == 1 and how == "death":
        os._exit(0)
    if comm.rank == 1 and how == "abort":
        device.abort("enough")
    with pytest.raises(sparkring.RingError) as caught:
        for _ in range(3):
            if comm.rank == 1 and how == "mismatch":
                comm.allgather(x)
            else:
                comm.allreduce(x)
            device.wait()
    assert comm.usable, "the device has failed, not the communicator"
    with pytest.raises(type(caught.value)):
        comm.allreduce(x)
    comm.abort()
    return caught.value.status, caught.value.rank, str(caught.value)


@sizes
@both
@pytest.mark.parametrize(
    ("how", "status"), [("death", "PEER_LOST"), ("abort", "ABORTED"), ("mismatch", "MISMATCH")]
)
def test_failures_name_the_rank(size, path, how, status, monkeypatch):
    if how == "mismatch":  # NCCL does not report it, and hangs
        monkeypatch.setenv("NCCL_STUB_FAILS", "hang:-1:2")
    for rank, ended in enumerate(outcomes(size, fail, path, how)):
        if rank == 1 and how == "death":
            continue
        assert ended.error is None, ended.error
        got, at, text = ended.value
        assert got == status, text
        if how == "mismatch":
            assert (
                "allreduce(count 65536, float32, sum)" in text and "allgather(count 65536" in text
            )
        else:
            assert at == 1 and "127.0.0.1" in text, text


def fail_in_nccl():
    comm = open_comm(call_timeout=2)
    gpu = begin(comm)
    device = comm.device(gpu=gpu.number)
    x = gpu.array(numbers(comm.rank))
    with pytest.raises(sparkring.RingError) as caught:
        for _ in range(4):
            comm.allreduce(x)
            device.wait()
    total = comm.allreduce(numbers(comm.rank))  # the host goes on
    comm.close()
    return caught.value.rank, str(caught.value), float(total[0, 0])


@pytest.mark.parametrize("failure", ["async:1:2", "hang:1:2"])
def test_nccl_fails_in_the_midst(failure, monkeypatch):
    monkeypatch.setenv("NCCL_STUB_FAILS", failure)
    for rank, text, total in run(2, fail_in_nccl):
        assert "127.0.0.1" in text
        assert rank is None or rank in (0, 1)
        assert total == 1.0
