# SPDX-License-Identifier: Apache-2.0
"""Tensors of a GPU: in the calls of a communicator, in the backend, in Horovod's API."""

from __future__ import annotations

import os

import numpy as np
import process_group
import pytest
import sparkring
from ranks import open_comm, outcomes, run

paths = pytest.mark.parametrize("path", ["nccl", "host"])


def apart(rank):
    """Make this rank one on a host of its own, to NCCL; NCCL of the wheel reads it at its start."""
    os.environ["NCCL_HOSTID"] = f"rank-{rank}"
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")


def every_call(path):
    """Each call gives on a busy stream what it gives on the host."""
    import torch

    with open_comm() as comm:
        apart(comm.rank)
        device = comm.device(path, gpu=0)
        assert device.explain().path == path, str(device.explain())
        side = torch.cuda.Stream()
        for dtype in (torch.float32, torch.float64, torch.int64, torch.uint8, torch.bfloat16):
            host = torch.arange(12 * 1000).reshape(12, 1000).remainder(7).add(comm.rank).to(dtype)
            with torch.cuda.stream(side):
                torch.cuda._sleep(50_000_000)
                x = host.cuda(non_blocking=True)
                for name in ("allreduce", "broadcast", "allgather", "reduce_scatter", "alltoall"):
                    made = getattr(comm, name)(x)
                    assert made.is_cuda and made.dtype is dtype
                    assert torch.equal(made.cpu(), getattr(comm, name)(host)), (name, dtype)
                counts = [12 // comm.size] * comm.size
                made = comm.alltoallv(x, counts)
                assert torch.equal(made.cpu(), comm.alltoallv(host, counts))
                reduced, expected = comm.reduce(x, root=1), comm.reduce(host, root=1)
                assert (reduced is None) == (expected is None)
                if reduced is not None:
                    assert torch.equal(reduced.cpu(), expected)
                assert comm.allreduce(x, out=x) is x
                assert torch.equal(x.cpu(), comm.allreduce(host))
                if comm.rank == 0:
                    comm.send(x, 1)
                if comm.rank == 1:
                    assert torch.equal(comm.recv(x, 0).cpu(), x.cpu())
        many = [torch.full((n,), comm.rank + 1.0, device="cuda") for n in range(1, 200)]
        for made in comm.allreduce_group(many):
            assert (made == sum(range(1, comm.size + 1))).all()
        device.allreduce_group(many, out=many, wire="bfloat16")
        device.wait(many[0])
        half = device.cast(many[0], "float16", scale=0.5)
        assert torch.equal(torch.from_dlpack(half).float() * 2, many[0])


@paths
def test_every_call(path):
    run(2, every_call, path)


class Interface:
    """A tensor, seen through one protocol."""

    def __init__(self, tensor):
        self.tensor = tensor

    @property
    def __cuda_array_interface__(self):
        return self.tensor.__cuda_array_interface__


class Lent:
    """A tensor, seen through the other protocol."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def protocols(path):
    import torch

    with open_comm() as comm:
        apart(comm.rank)
        comm.device(path, gpu=0)
        for kind in (Interface, Lent):
            made = comm.allreduce(kind(torch.full((3, 2), comm.rank + 1.0, device="cuda")))
            assert type(made) is sparkring.DeviceArray
            seen = torch.from_dlpack(made)
            assert seen.is_cuda and (seen == 3).all()
            del made
            assert (torch.as_tensor(seen) == 3).all()
        try:
            import cupy
        except ImportError:
            return
        made = comm.allreduce(cupy.full((3, 2), comm.rank + 1.0))
        assert type(made) is cupy.ndarray and (made.get() == np.full((3, 2), 3.0)).all()


@paths
def test_protocols(path):
    run(2, protocols, path)


def backend(path):
    """Run what tests/frameworks/test_torch_backend.py runs on tensors of the CPU."""
    import test_torch_backend as suite
    import torch
    import torch.distributed as dist

    with process_group.group() as (rank, size):
        apart(rank)
        dist.group.WORLD._comm.device(path, gpu=0)
        torch.set_default_device("cuda")
        suite.reduce_types(torch, dist, rank, size)
        suite.reduce_variants(torch, dist, rank, size)
        suite.move(torch, dist, rank, size)
        suite.exchange(torch, dist, rank, size)
        suite.coalesced(torch, dist, size)
        suite.functional(torch, dist, rank, size)


@paths
def test_the_backend(path):
    run(2, backend, path)


def train(path):
    """Steps of DistributedDataParallel give the parameters of one process with the whole batch."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    with process_group.group() as (rank, size):
        apart(rank)
        device = dist.group.WORLD._comm.device(path, gpu=0)
        nets = [nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 1)) for _ in range(2)]
        nets[1].load_state_dict(nets[0].state_dict())
        x, y = torch.randn(12 * size, 64).cuda(), torch.randn(12 * size, 1).cuda()
        shared = DistributedDataParallel(nets[0].cuda(), bucket_cap_mb=0.01)
        rows = slice(rank * 12, (rank + 1) * 12)
        for net, part in ((shared, rows), (nets[1].cuda(), slice(None))):
            optimizer = torch.optim.SGD(net.parameters(), 0.1)
            for _ in range(20):
                optimizer.zero_grad()
                nn.functional.mse_loss(net(x[part]), y[part]).backward()
                optimizer.step()
        for one, other in zip(nets[0].parameters(), nets[1].parameters()):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        assert device.explain().calls >= 40


@paths
def test_training(path):
    run(2, train, path)


def horovod(path):
    import sparkring.torch as hvd
    import torch

    with open_comm() as comm:
        apart(comm.rank)
        comm.device(path, gpu=0)  # the reducer takes its path
        hvd.init()
        model = torch.nn.Linear(3, 1).cuda()
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), 0.1), named_parameters=model.named_parameters()
        )
        model(torch.full((2, 3), float(hvd.rank()), device="cuda")).sum().backward()
        optimizer.step()
        weights = hvd.allgather(model.weight.detach())
        assert weights.is_cuda and (weights == weights[0]).all()
        reducer = hvd.global_process_set.group().reducer
        told = reducer.explain_device()
        assert told.path == path and reducer.counters()["gpu_runs"] >= 2, str(told)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
            x = torch.full((1000,), comm.rank + 1.0, device="cuda")
            assert (hvd.allreduce(x, op=hvd.Sum) == 3).all()
        hvd.shutdown()


@paths
def test_horovods_api(path):
    run(2, horovod, path)


def die(path):
    import torch

    comm = open_comm()
    apart(comm.rank)
    device = comm.device(path, gpu=0)
    x = torch.ones(1 << 22, device="cuda")
    comm.allreduce(x)
    device.wait(x)
    if comm.rank == 1:
        os._exit(0)
    with pytest.raises(sparkring.PeerLostError) as caught:
        for _ in range(1000):
            comm.allreduce(x)
            device.wait(x)
    comm.abort()
    return caught.value.rank


@paths
def test_a_rank_dies(path):
    survivor = outcomes(2, die, path)[0]
    assert survivor.error is None, survivor.error
    assert survivor.value == 1
