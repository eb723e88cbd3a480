# SPDX-License-Identifier: Apache-2.0
"""The backend "sparkring" and Horovod's API on tensors of a GPU, a stub (torch_on_gpu.py)."""

from __future__ import annotations

import os
import warnings

import gpu_stub
import process_group
import pytest
import sparkring
from ranks import open_comm, outcomes, run

paths = pytest.mark.parametrize("path", ["nccl", "host"])
LONG = pytest.mark.long
worlds = pytest.mark.parametrize(
    ("size", "path"),
    [
        (3, "nccl"),
        (2, "host"),
        pytest.param(2, "nccl", marks=LONG),
        pytest.param(3, "host", marks=LONG),
    ],
)


@pytest.fixture(scope="session")
def stubs(tmp_path_factory):
    return gpu_stub.build(tmp_path_factory.mktemp("gpu"))


@pytest.fixture(autouse=True)
def _find_stubs(stubs, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(stubs))
    monkeypatch.setenv("CUDA_STUB_GPUS", "8")


def begin(path, at_once=True):
    """Import PyTorch, and open the device of the default group."""
    import torch.distributed as dist
    import torch_on_gpu

    gpu = torch_on_gpu.pretend(dist.get_rank(), at_once)
    device = dist.group.WORLD._comm.device(path, gpu=gpu.number)
    assert device.explain().path == path
    return gpu, device


def every_collective(path):
    """Run what test_torch_backend.py runs on tensors of the CPU."""
    import test_torch_backend as suite
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    with process_group.group() as (rank, size):
        _, device = begin(path)
        suite.reduce_types(torch, dist, rank, size)
        suite.reduce_bits(torch, dist, rank, size)
        suite.reduce_layouts(torch, dist, rank, size)
        suite.reduce_variants(torch, dist, rank, size)
        suite.move(torch, dist, rank, size)
        suite.exchange(torch, dist, rank, size)
        suite.objects(dist, rank, size)
        suite.coalesced(torch, dist, size)
        suite.functional(torch, dist, rank, size)
        return device.explain().calls


@worlds
def test_every_collective(size, path):
    for calls in run(size, every_collective, path):
        assert calls > 70


def overlap(path):
    """Works are events on a stream: a wait joins it, and a future is complete at once."""
    import numpy as np
    import torch
    import torch.distributed as dist

    with process_group.group() as (rank, size):
        gpu, _ = begin(path, at_once=False)
        untouchable = gpu_stub.Memory(gpu, (1000,), np.float32)
        seen = np.ctypeslib.as_array(
            (np.ctypeslib.ctypes.c_float * 1000).from_address(untouchable.address)
        )
        tensor = torch.from_numpy(seen)  # only the GPU can read it
        untouchable.host[...] = rank + 1
        works = [dist.all_reduce(tensor, async_op=True) for _ in range(3)]
        (own,) = dist.group.WORLD._streams.values()
        assert own.marks == 3 and own.joins == 0
        future = works[-1].get_future()
        assert future.done() and future.value()[0] is tensor
        assert works[-1].get_future() is future
        assert works[0].wait() and own.joins >= 1
        assert all(work.is_completed() and work.is_success() for work in works)
        assert works[0].exception() is None and works[0].result()[0] is tensor
        assert (untouchable.host == sum(range(1, size + 1)) * size * size).all()
        dist.broadcast(tensor, 1)
        parts = [tensor[: 1000 // size] for _ in range(size)]
        assert len(parts) == size
        works[1].synchronize()


@paths
def test_works_are_events_on_a_stream(path):
    run(2, overlap, path)


def train(path):
    """Steps of DistributedDataParallel give the parameters of one process with the whole batch."""
    import torch
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    torch.manual_seed(0)
    with process_group.group() as (rank, size):
        _, device = begin(path)
        model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
        alone = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
        alone.load_state_dict(model.state_dict())
        x, y = torch.randn(12 * size, 8), torch.randn(12 * size, 1)
        shared = DistributedDataParallel(model, bucket_cap_mb=1e-3)
        for net, rows in ((shared, slice(rank * 12, (rank + 1) * 12)), (alone, slice(None))):
            optimizer = torch.optim.SGD(net.parameters(), 0.1)
            for _ in range(5):
                optimizer.zero_grad()
                nn.functional.mse_loss(net(x[rows]), y[rows]).backward()
                optimizer.step()
        for one, other in zip(model.parameters(), alone.parameters()):
            torch.testing.assert_close(one, other)
        return device.explain().calls


@worlds
def test_training(size, path):
    for calls in run(size, train, path):
        assert calls >= 10, "the device has carried the buckets"


def fail(path):
    """Rank 1 dies between two calls."""
    import torch
    import torch.distributed as dist

    with process_group.group(timeout=20, destroy=False) as (rank, _):
        begin(path, at_once=False)
        tensor = torch.ones(1 << 16)
        dist.all_reduce(tensor)
        if rank == 1:
            dist.group.WORLD._comm.device().wait()
            os._exit(0)
        with pytest.raises(dist.DistBackendError) as caught:
            for _ in range(1000):
                dist.all_reduce(tensor, async_op=True).wait()
                _poll(dist)
        dist.group.WORLD.abort()
        return str(caught.value), caught.value.__cause__.rank


def _poll(dist):
    """Let the failure arrive: a work that the GPU never ends would hang here."""
    import time

    time.sleep(0.01)


@paths
def test_a_rank_dies(path):
    ended = outcomes(3, fail, path)
    for rank in (0, 2):
        assert ended[rank].error is None, ended[rank].error
        text, at = ended[rank].value
        assert at == 1 and "PeerLostError" in text and "127.0.0.1" in text


def hvd_operations(path):
    """Run operations of Horovod's API, of which some are staged, and steps of an optimizer."""
    warnings.simplefilter("ignore")
    import hvd_operations as suite
    import sparkring.torch as hvd
    import torch
    import torch_on_gpu

    torch.set_num_threads(1)
    with open_comm() as comm:
        gpu = torch_on_gpu.pretend(comm.rank)
        if path == "host":  # a reducer takes the path of the communicator's device
            comm.device("host", gpu=gpu.number)
        hvd.init()
        rank, size = hvd.rank(), hvd.size()
        x = torch.full((4, 2), rank + 1.0)
        total = sum(range(1, size + 1))
        assert (hvd.allreduce(x, op=hvd.Sum) == total).all()
        assert hvd.allreduce_(x, op=hvd.Average) is x and (x == total / size).all()
        some = [torch.full((3,), float(rank)), torch.full((2,), rank)]
        for made in hvd.grouped_allreduce(some, op=hvd.Sum):
            assert (made == total - size).all()
        assert hvd.allgather(torch.full((rank + 1,), rank)).tolist() == [
            r for r in range(size) for _ in range(r + 1)
        ]
        y = torch.full((2,), rank)
        assert hvd.broadcast_(y, 1) is y and y.tolist() == [1, 1]
        received, counts = hvd.alltoall(torch.arange(size), torch.ones(size, dtype=torch.int32))
        assert received.tolist() == [rank] * size and counts.tolist() == [1] * size
        assert hvd.reducescatter(torch.ones(size, 2), op=hvd.Sum).tolist() == [[size] * 2]
        assert suite
        reducer = hvd.global_process_set.group().reducer
        assert reducer.explain_device().path == path
        assert reducer.counters()["gpu_runs"] == 5, "allreduces of three dtypes, and a broadcast"
        model = torch.nn.Linear(3, 1)
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), 0.1), named_parameters=model.named_parameters()
        )
        model(torch.full((2, 3), float(rank))).sum().backward()
        optimizer.step()
        weights = hvd.allgather(model.weight.detach())
        assert (weights == weights[0]).all()
        counters = reducer.counters()
        assert counters["gpu_runs"] > 5, "parameters and gradients"
        hvd.shutdown()


@worlds
def test_horovods_api(size, path):
    run(size, hvd_operations, path)


def test_without_a_driver(tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    for ended in outcomes(2, lack):
        assert ended.error is None, ended.error
        assert "UnsupportedError: rank 0 (127.0.0.1) has no GPU for a device" in ended.value


def lack():
    import torch
    import torch.distributed as dist
    from sparkring.torch import _gpu_calls, _streams

    assert _gpu_calls and sparkring
    with process_group.group():
        tensor = torch.ones(3)
        _streams.is_here = lambda tensor: True
        _streams.Streams = lambda device: None
        with pytest.raises(dist.DistBackendError) as caught:
            dist.all_reduce(tensor)
    return str(caught.value)
