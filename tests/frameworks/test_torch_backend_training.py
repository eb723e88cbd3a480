# SPDX-License-Identifier: Apache-2.0
"""What PyTorch builds on process groups trains over the backend "sparkring"."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import process_group
import pytest
import sparkring
from ranks import LIMIT, outcomes, run


def network(torch, width=32):
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, 1)
    )


def samples(torch, size):
    return torch.randn(16 * size, 8, generator=torch.Generator().manual_seed(2))


def fit(torch, model, parameters, x, steps=4):
    optimizer = torch.optim.SGD(parameters, 0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def train_replicas():
    """The replicas learn what one process learns from all samples."""
    import torch
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    with process_group.group() as (rank, size):
        x = samples(torch, size)

        def bf16(state, bucket):  # under its own name PyTorch keeps this hook to GPUs
            return default_hooks.bf16_compress_hook(state, bucket)

        alone = network(torch)
        fit(torch, alone, alone.parameters(), x)
        for options in (
            {},
            {"static_graph": True},
            {"find_unused_parameters": True},
            {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.001},
        ):
            module = network(torch)
            model = DistributedDataParallel(module, **options)
            fit(torch, model, model.parameters(), x[rank::size])
            for mine, theirs in zip(module.parameters(), alone.parameters()):
                torch.testing.assert_close(mine, theirs)
        for hook, state in (
            (default_hooks.fp16_compress_hook, None),
            (bf16, None),
            (powerSGD_hook.powerSGD_hook, powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2)),
        ):
            module = network(torch)
            model = DistributedDataParallel(module)
            model.register_comm_hook(state, hook)
            fit(torch, model, model.parameters(), x[rank::size])
            assert_same(torch, module, size)
        partly_used(torch, rank, size)
        skip_and_join(torch, rank, size)


def assert_same(torch, module, size):
    flat = torch.cat([each.detach().flatten() for each in module.parameters()])
    every = [torch.empty_like(flat) for _ in range(size)]
    torch.distributed.all_gather(every, flat)
    assert all(torch.equal(each, flat) for each in every)


def partly_used(torch, rank, size):
    """Only rank 0 uses the second layer."""
    from torch.nn.parallel import DistributedDataParallel

    class Partly(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.first, self.second = torch.nn.Linear(8, 1), torch.nn.Linear(8, 1)

        def forward(self, x):
            return self.first(x) + (self.second(x) if rank == 0 else 0)

    module = Partly()
    model = DistributedDataParallel(module, find_unused_parameters=True)
    fit(torch, model, model.parameters(), samples(torch, size)[rank::size])
    assert_same(torch, module, size)


def skip_and_join(torch, rank, size):
    from torch.nn.parallel import DistributedDataParallel

    module = network(torch)
    model = DistributedDataParallel(module)
    with model.no_sync():
        model(torch.full((2, 8), float(rank))).sum().backward()
    local = module[2].weight.grad.clone()
    others = [torch.empty_like(local) for _ in range(size)]
    torch.distributed.all_gather(others, local)
    assert not torch.equal(others[0], others[1])
    with model.join():
        for _ in range(3 + rank):
            model(torch.ones(2, 8)).sum().backward()


@pytest.mark.parametrize("size", [pytest.param(2, marks=pytest.mark.long), 3])
def test_distributed_data_parallel(size):
    run(size, train_replicas)


def train_shards(folder):
    import torch
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    with process_group.group() as (rank, size):
        x, mesh = samples(torch, size), init_device_mesh("cpu", (size,))
        alone = network(torch)
        fit(torch, alone, alone.parameters(), x)
        for dtype, tolerance in ((None, 1e-5), (torch.bfloat16, 5e-2)):
            policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=dtype)
            model = network(torch)
            for layer in (model[0], model[2], model):
                fully_shard(layer, mesh=mesh, mp_policy=policy)
            fit(torch, model, model.parameters(), x[rank::size])
            weight = model[0].weight.full_tensor()
            assert torch.allclose(weight, alone[0].weight, atol=tolerance)
        state = {"model": model.state_dict()}
        checkpoint.save(state, checkpoint_id=folder)
        saved = weight.detach().clone()
        with torch.no_grad():
            model[0].weight.zero_()
        checkpoint.load(state, checkpoint_id=folder)
        assert torch.equal(model[0].weight.full_tensor(), saved)

        old = FullyShardedDataParallel(network(torch), device_id=torch.device("cpu"))
        fit(torch, old, old.parameters(), x[rank::size])
        with FullyShardedDataParallel.summon_full_params(old):
            assert torch.allclose(old[0].weight, alone[0].weight, atol=1e-5)

        module = network(torch)
        model = DistributedDataParallel(module)
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            model(x[rank::size]).square().mean().backward()
            optimizer.step()
        assert torch.allclose(module[0].weight, alone[0].weight, atol=1e-5)
        tensors(torch, mesh, size)


def tensors(torch, mesh, size):
    """DTensor, and a network whose layers are split among the ranks."""
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    whole = torch.arange(8.0 * size).view(2 * size, 4)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(sharded.full_tensor(), whole)
    assert sharded.sum().full_tensor() == whole.sum()
    model, x = network(torch, 8 * size), torch.ones(2, 8)
    expected = model(x)
    split = parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    assert torch.allclose(split(x), expected, atol=1e-5)


@pytest.mark.parametrize("size", [pytest.param(2, marks=pytest.mark.long), 3])
def test_shards(size, tmp_path):
    run(size, train_shards, str(tmp_path / "checkpoint"))


def die():
    import torch
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    with process_group.group(destroy=False) as (rank, _):
        model = DistributedDataParallel(torch.nn.Linear(100, 100))
        model(torch.ones(2, 100)).sum().backward()
        torch.distributed.barrier()
        if rank == 1:
            os._exit(0)
        start = time.monotonic()
        with pytest.raises(RuntimeError, match=r"rank 1 \(127.0.0.1\) was lost") as caught:
            for _ in range(3):
                model(torch.ones(2, 100)).sum().backward()
        seconds = time.monotonic() - start
        with pytest.raises(torch.distributed.DistBackendError) as later:
            torch.distributed.all_reduce(torch.ones(1))
        torch.distributed.destroy_process_group()
        threads = process_group.threads()
        return seconds, str(caught.value), type(later.value.__cause__), threads


def test_a_death_is_an_error_of_every_survivor():
    first, died, last = outcomes(3, die)
    assert died.value is None
    for survivor in (first, last):
        seconds, message, cause, threads = survivor.value
        assert seconds < LIMIT
        assert "PeerLostError" in message
        assert cause is sparkring.PeerLostError
        assert threads == []


SUITE = Path(__file__).with_name("torch_suite.py")


def test_suite_of_pytorch():
    """`torch_suite.py` runs the same with three ranks."""
    suite = subprocess.run(
        [sys.executable, str(SUITE), "-k", "all_", "-k", "send_recv", "-k", "DistributedData"],
        env={**os.environ, "WORLD_SIZE": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert suite.returncode == 0, suite.stdout + suite.stderr
    assert "Ran 0 tests" not in suite.stderr
