# SPDX-License-Identifier: Apache-2.0
"""Elastic training by Horovod's API, its restart on Spark, and the hook of PyTorch's own DDP."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import process_group
import pytest
from ranks import run


def train_on():
    import sparkring.torch as hvd
    import torch

    torch.set_num_threads(1)
    hvd.init(timeout=60, call_timeout=60)
    rank, size = hvd.rank(), hvd.size()
    go_on_after_a_mismatch(torch, hvd, rank)
    end_after_three_failures(torch, hvd, rank)
    share_samples(torch, hvd, rank, size)
    hvd.allreduce_async(torch.ones(1), name=f"never.{rank}")
    hvd.shutdown()  # does not wait for what no other rank will submit
    average_by_the_hook(torch, hvd)


def go_on_after_a_mismatch(torch, hvd, rank):
    """An operation that fails on all ranks takes them back to the last commit."""
    part = hvd.add_process_set([1])
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    state = hvd.elastic.TorchState(model, optimizer, epoch=0, seen=[])
    resets, visits = [], []
    state.register_reset_callbacks([lambda: resets.append(state.epoch)])

    @hvd.elastic.run
    def train(state, last):
        for state.epoch in range(state.epoch, last):  # noqa: B020
            visits.append(state.epoch)
            fails = len(visits) == 3
            if fails:
                hvd.allreduce_async(torch.ones(1), name=f"left.{rank}")
            with torch.no_grad():
                model.weight.fill_(float(state.epoch))
            state.seen.append(state.epoch)
            hvd.allreduce(torch.ones(2 + rank * fails), name="step")
            if state.epoch != 1:
                state.commit()
        return state.seen

    assert train(state, 4) == [0, 0, 1, 2, 3]
    assert visits == [0, 1, 2, 0, 1, 2, 3]
    assert resets == [0] and model.weight.item() == 3.0
    assert part.included() == (rank == 1)
    hvd.remove_process_set(part)


def end_after_three_failures(torch, hvd, rank):
    calls = []

    @hvd.elastic.run
    def fail(state):
        calls.append(state.epoch)
        hvd.allreduce(torch.ones(2 + rank), name="never")

    with pytest.raises(hvd.HorovodInternalError, match="MismatchError"):
        fail(hvd.elastic.ObjectState(epoch=5))
    assert calls == [5, 5, 5]


def share_samples(torch, hvd, rank, size):
    sampler = hvd.elastic.ElasticSampler(list(range(10)), shuffle=True, seed=3)
    everyone = [index for part in hvd.allgather_object(list(sampler)) for index in part]
    assert set(everyone) == set(range(10)) and len(everyone) == size * len(sampler)
    state = hvd.elastic.TorchState(sampler=sampler, batch=0)
    first = sampler.indices[:2]
    sampler.record_batch(0, 2)
    state.save()
    state.sync()
    done = {index for part in hvd.allgather_object(first) for index in part}
    assert sampler.processed_indices == done
    left = {index for part in hvd.allgather_object(list(sampler)) for index in part}
    assert left == set(range(10)) - done
    sampler.set_epoch(1)
    assert len(sampler) == -(-10 // size)


def average_by_the_hook(torch, hvd):
    """PyTorch's own DDP, with its gradients over the reducer."""
    with process_group.group() as (rank, size):
        hvd.init(timeout=60, call_timeout=60)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
        model.register_comm_hook(hvd.global_process_set, hvd.allreduce_hook)
        for _ in range(2):
            model.zero_grad()
            model(torch.full((1, 3), rank + 1.0)).sum().backward()
            assert model.module.weight.grad.tolist() == [[(size + 1) / 2] * 3]
        hvd.shutdown()


def test_elastic_and_hook():
    run(2, train_on)


def train_with_checkpoint(comm, path):
    """Die once, in the second epoch; the next attempt goes on after the first one."""
    from sparkring._horovod import context, elastic, operations, ranks  # torch has no part in it

    context.init()
    assert ranks.size() == comm.size

    @elastic.run(checkpoint=path)
    def train(state):
        for state.epoch in range(state.epoch, 3):  # noqa: B020
            operations.barrier()  # rank 0 has written its last commit
            state.seen.append((comm.attempt, state.epoch))
            if comm.attempt == 0 and state.epoch == 1 and comm.rank == 1:
                os._exit(1)
            operations.barrier()  # fails in the first attempt, so its second epoch has no commit
            state.epoch += 1
            state.commit()
        return state.seen

    seen = train(elastic.ObjectState(epoch=0, seen=[]))
    context.shutdown()
    assert comm.allreduce(1) == comm.size
    return seen


def test_restart_from_checkpoint(tmp_path: Path):
    from sparkring.spark import run as run_ranks

    results = run_ranks(
        train_with_checkpoint, args=(str(tmp_path),), num_proc=-2, max_restarts=1, verbose=0
    )
    assert results == [[(0, 0), (1, 1), (1, 2)]] * 2


def train_where_ranks_die(comm, folder, deaths):
    """Six epochs; a rank in `deaths` dies once, at the beginning of its epoch."""
    import sparkring.torch as hvd
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    hvd.init()
    model = torch.nn.Linear(4, 1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        named_parameters=model.named_parameters(),
    )
    state = hvd.elastic.TorchState(model, optimizer, epoch=0, seen=[])
    resets = []
    state.register_reset_callbacks([lambda: resets.append(state.epoch)])

    @hvd.elastic.run(checkpoint=folder)
    def train(state):
        for state.epoch in range(state.epoch, 6):  # noqa: B020
            if state.epoch == deaths.get(comm.rank) and not (died := Path(folder, "died")).exists():
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            rows = torch.Generator().manual_seed(100 * state.epoch + comm.rank)
            x = torch.randn(16, 4, generator=rows)
            optimizer.zero_grad()
            (model(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
            optimizer.step()
            state.seen.append(state.epoch)
            state.epoch += 1
            state.commit()
        return [weights.detach().numpy().tobytes() for weights in model.parameters()]

    weights = train(state)
    hvd.shutdown()
    return weights, state.seen, resets, comm.attempt


def test_a_lost_rank_is_replaced(tmp_path: Path):
    """Rank 0 dies: the others go back to their last commit in memory, and it gets theirs."""
    from sparkring.spark import run as run_ranks

    results = [
        run_ranks(
            train_where_ranks_die,
            args=(str(tmp_path / name), deaths),
            num_proc=-2,
            max_restarts=1,
            recovery="replace",
            verbose=0,
        )
        for name, deaths in (("well", {}), ("lost", {0: 3}))
    ]
    (well, _, _, _), *_ = results[0]
    assert [resets for _, _, resets, _ in results[1]] == [[], [3]]
    for weights, seen, _, attempt in results[1]:
        assert (weights, seen, attempt) == (well, list(range(6)), 0)
