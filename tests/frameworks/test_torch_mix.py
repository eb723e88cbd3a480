# SPDX-License-Identifier: Apache-2.0
"""Groups with another backend for another device, as ``cpu:sparkring,cuda:nccl``."""

from __future__ import annotations

import importlib.metadata

import process_group
import pytest
from ranks import run

RELEASE = tuple(int(each) for each in importlib.metadata.version("torch").split(".")[:2])
FIRST = (2, 14)  # the release of PyTorch from which on a group can have such a backend


def refuse(backend, other):
    problem = f"all devices of the group, and not {other}: install"
    with pytest.raises(RuntimeError, match=problem), process_group.group(backend=backend):
        pass


@pytest.mark.skipif(RELEASE >= FIRST, reason="PyTorch serves the mix")
@pytest.mark.parametrize(
    ("backend", "other"),
    [("cpu:sparkring,cuda:nccl", "cuda:nccl"), ("CPU:gloo,cuda:sparkring", "cpu:gloo")],
)
def test_a_mix_is_refused(backend, other):
    """PyTorch below 2.14 would use sparkring for all devices."""
    run(2, refuse, backend, other)


def collectives(backend):
    import test_torch_backend as suite
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    with process_group.group(backend=backend) as (rank, size):
        assert dist.group.WORLD._get_backend(torch.device("cpu")).name() == "sparkring"
        suite.reduce_types(torch, dist, rank, size)
        suite.reduce_bits(torch, dist, rank, size)
        suite.reduce_layouts(torch, dist, rank, size)
        suite.reduce_variants(torch, dist, rank, size)
        suite.move(torch, dist, rank, size)
        suite.exchange(torch, dist, rank, size)
        suite.objects(dist, rank, size)
        suite.functional(torch, dist, rank, size)
        suite.differentiable(torch, rank, size)
        suite.groups(torch, dist, rank, size)
        double = dist.all_reduce(torch.ones(3), async_op=True).get_future()
        assert (double.then(lambda future: future.value()[0] * 2).wait() == 2 * size).all()
        room = torch.empty(2)
        if rank == 0:
            dist.irecv(room).wait()  # from any rank
            assert (room == 1).all()
        elif rank == 1:
            dist.send(torch.ones(2), 0)
        dist.barrier()
    return process_group.threads()


@pytest.mark.skipif(RELEASE < FIRST, reason="PyTorch has no mix of such backends")
@pytest.mark.parametrize("debug", ["OFF", "DETAIL"])
@pytest.mark.parametrize("size", [2, 3])
def test_a_mix_on_the_cpu(size, debug, monkeypatch):
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", debug)
    assert run(size, collectives, "cpu:sparkring,cuda:gloo") == [[]] * size


def other_device():
    import torch
    import torch.distributed as dist

    with process_group.group(backend="cpu:gloo,cuda:sparkring") as (_, size):
        names = [
            dist.group.WORLD._get_backend(torch.device(each)).name() for each in ("cpu", "cuda")
        ]
        assert names == ["gloo", "sparkring"]
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        assert (tensor == size).all()
    return process_group.threads()


@pytest.mark.skipif(RELEASE < FIRST, reason="PyTorch has no mix of such backends")
def test_a_mix_on_gpus():
    assert run(2, other_device) == [[], []]


def one_device():
    import torch
    import torch.distributed as dist

    with process_group.group(backend="cpu:sparkring") as (_, size):
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        assert (tensor == size).all()


def test_one_device():
    run(2, one_device)
