# SPDX-License-Identifier: Apache-2.0
"""Horovod's API for PyTorch: operations, optimizers, their state, and batch normalization."""

from __future__ import annotations

import os
import warnings

import hvd_operations
import pytest
from ranks import STRETCH, run


def train_in_every_way(shared):
    import sparkring.torch as hvd
    import torch

    os.environ["SPARKRING_SHARED_MEMORY"] = shared
    torch.set_num_threads(1)
    hvd.init(timeout=60, call_timeout=60)
    rank, size = hvd.rank(), hvd.size()
    for check in (
        hvd_operations.check,
        as_one_process,
        options_of_reductions,
        several_passes,
        unused_and_frozen,
        by_hand,
        sparse_gradients,
        wrong_arguments,
        adasum,
        states,
        schedules,
        outside,
        batch_norm,
        settings_that_differ,
    ):
        check(torch, hvd, rank, size)
    hvd.shutdown()


def data(torch, size):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4 * size, 5, generator=generator)
    return x, x.sum(1, keepdim=True).sin()


def make(torch, seed=2):
    torch.manual_seed(seed)
    layers = torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)
    return torch.nn.Sequential(*layers)


def fit(torch, model, optimizer, x, y, steps=4, passes=1):
    for _ in range(steps):
        for part, target in zip(x.chunk(passes), y.chunk(passes)):
            (torch.nn.functional.mse_loss(model(part), target) / passes).backward()
        optimizer.step()
        optimizer.zero_grad()
    return torch.cat([each.detach().flatten() for each in model.parameters()])


def alone(torch, size, **options):
    """Train in one process, with the batches of all ranks."""
    model = make(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return fit(torch, model, optimizer, *data(torch, size), **options)


def together(torch, hvd, rank, size, passes=1, **options):
    """Train with the other ranks, from the weights of rank 0."""
    model = make(torch, seed=2 if rank == 0 else 7)
    inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(inner, 100)
    optimizer = hvd.DistributedOptimizer(
        inner, model.named_parameters(), backward_passes_per_step=passes, **options
    )
    assert isinstance(optimizer, torch.optim.SGD) and schedule.optimizer is inner
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    x, y = data(torch, size)
    mine = slice(4 * rank, 4 * rank + 4)
    weights = fit(torch, model, optimizer, x[mine], y[mine], passes=passes)
    assert (hvd.broadcast(weights, 0) == weights).all()
    return weights


def as_one_process(torch, hvd, rank, size):
    expected = alone(torch, size)
    assert torch.allclose(together(torch, hvd, rank, size), expected, atol=1e-6)


def options_of_reductions(torch, hvd, rank, size):
    expected = alone(torch, size)
    model = make(torch)
    for options in (
        {"gradient_predivide_factor": 2.0},
        {"groups": 2},
        {"num_groups": 1},
        {"compression": hvd.Compression.fp16},
    ):
        atol = 1e-3 if "compression" in options else 1e-6
        weights = together(torch, hvd, rank, size, **options)
        assert torch.allclose(weights, expected, atol=atol), options
    inner = torch.optim.SGD(model.parameters(), lr=0.1 / size, momentum=0.9)
    layers = [list(model[0].parameters()), list(model[2].parameters())]
    optimizer = hvd.DistributedOptimizer(inner, op=hvd.Sum, groups=layers)
    x, y = (each[4 * rank : 4 * rank + 4] for each in data(torch, size))
    assert torch.allclose(fit(torch, model, optimizer, x, y), expected, atol=1e-6)


def several_passes(torch, hvd, rank, size):
    expected = alone(torch, size)
    assert torch.allclose(together(torch, hvd, rank, size, passes=2), expected, atol=1e-6)
    model = make(torch)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters()))
    model(torch.ones(1, 5)).sum().backward()
    with pytest.raises(AssertionError, match="zero_grad"):
        optimizer.zero_grad()
    with pytest.raises(AssertionError, match="backward_passes_per_step"):
        model(torch.ones(1, 5)).sum().backward()
    optimizer.step()


def unused_and_frozen(torch, hvd, rank, size):
    """Rank 0 alone uses the second layer; the first one is thawed later."""
    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    both = torch.nn.ModuleList([first, second])
    hvd.broadcast_parameters(both.named_parameters(), 0)
    first.weight.requires_grad_(False)
    inner = torch.optim.SGD(both.parameters(), lr=1.0)
    optimizer = hvd.DistributedOptimizer(inner, both.named_parameters())
    before = [first.weight.clone(), second.bias.clone()]
    x = torch.ones(1, 2)
    (first(x) + second(x) if rank == 0 else first(x)).sum().backward()
    optimizer.step()
    assert (first.weight == before[0]).all()
    assert torch.allclose(second.bias, before[1] - 1 / size)
    optimizer.zero_grad()
    first.weight.requires_grad_(True)
    first(x * (rank + 1)).sum().backward()
    optimizer.step()
    assert torch.allclose(first.weight, before[0] - (size + 1) / 2)


def by_hand(torch, hvd, rank, size):
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("w", weight)])
    (weight * rank).sum().backward()
    optimizer.synchronize()
    assert (weight.grad == (size - 1) / 2).all()
    weight.grad.clamp_(max=0.25)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with optimizer.skip_synchronize():
            optimizer.step()
    assert weight.tolist() == [-0.25] * 2
    optimizer.synchronize()
    with pytest.warns(UserWarning, match=r"called without optimizer\.skip_synchronize\(\)"):
        optimizer.step()


def sparse_gradients(torch, hvd, rank, size):
    for sparse_as_dense in (False, True):
        table = torch.nn.Embedding(4, 2, sparse=True)
        hvd.broadcast_parameters(table.state_dict(), 0)
        before = table.weight.detach().clone()
        inner = torch.optim.SGD(table.parameters(), lr=1.0)
        optimizer = hvd.DistributedOptimizer(
            inner, table.named_parameters(), sparse_as_dense=sparse_as_dense
        )
        table(torch.tensor([rank, 3])).sum().backward()
        optimizer.step()
        moved = (before - table.weight).detach()
        assert torch.allclose(moved[3], torch.ones(2), atol=1e-6)
        assert torch.allclose(moved[:size], torch.full((size, 2), 1 / size), atol=1e-6)


def wrong_arguments(torch, hvd, rank, size):
    model = make(torch)
    named = list(model.named_parameters())
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    for match, options in (
        ("names twice", {"named_parameters": [(named[0][0], each) for _, each in named]}),
        ("miss 1 param", {"named_parameters": named[1:]}),
        ("no pairs", {"named_parameters": model.parameters()}),
        ("op=Average alone", {"op": hvd.Sum, "gradient_predivide_factor": 2.0}),
        ("takes Average", {"op": hvd.Max}),
        ("pass 1 or more", {"backward_passes_per_step": 0}),
        ("groups have", {"groups": [[torch.nn.Parameter(torch.ones(1))]]}),
    ):
        with pytest.raises(ValueError, match=match):
            hvd.DistributedOptimizer(inner, **options)
    with pytest.raises(ValueError, match="have no names"):
        hvd.broadcast_parameters(model.parameters(), 0)


def adasum(torch, hvd, rank, size):
    weight = torch.nn.Parameter(torch.zeros(size))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), op=hvd.Adasum)
    weight[rank].backward()
    optimizer.step()  # the ranks step at right angles
    assert torch.allclose(weight, torch.full((size,), -1.0))
    optimizer.zero_grad()
    weight[0].backward()
    optimizer.step()  # and now all alike
    assert torch.allclose(weight[0], torch.tensor(-2.0))
    with pytest.raises(AssertionError, match="combines steps"), optimizer.skip_synchronize():
        pass


def states(torch, hvd, rank, size):
    """The state of the root, which has stepped, reaches ranks that have not."""
    model = make(torch)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (rank + 1))
    if rank == 1:
        fit(torch, model, optimizer, *data(torch, 1))
    hvd.broadcast_optimizer_state(optimizer, root_rank=1)
    state = optimizer.state_dict()
    assert state["param_groups"][0]["lr"] == 0.2 and state["state"][0]["step"] == 4
    moments = state["state"][0]["exp_avg"]
    assert moments.abs().sum() > 0 and (hvd.broadcast(moments, 1) == moments).all()
    groups = [{"params": [each]} for each in model.parameters()]
    kinds = torch.optim.SGD if rank == 0 else torch.optim.Adam
    for other, text in (
        (kinds(model.parameters(), lr=0.1), r"rank 0: SGD .* rank 1: Adam with groups of \[4\]"),
        (torch.optim.SGD(groups[: 3 + (rank == 0)], lr=0.1), r".*\[1, 1, 1, 1\] .* \[1, 1, 1\] "),
    ):
        with pytest.raises(hvd.HorovodInternalError, match=f"different optimizers: {text}"):
            hvd.broadcast_optimizer_state(other, root_rank=0)


def schedules(torch, hvd, rank, size):
    """A scheduler made on the first optimizer stays connected when a state is loaded."""
    for op in (hvd.Average, hvd.Adasum):
        weight = torch.nn.Parameter(torch.ones(1))
        inner = torch.optim.SGD([weight], lr=0.8 if rank == 0 else 0.1)
        schedule = torch.optim.lr_scheduler.StepLR(inner, 1, gamma=0.5)
        optimizer = hvd.DistributedOptimizer(inner, [("w", weight)], op=op)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        optimizer.load_state_dict(optimizer.state_dict())
        for _ in range(3):
            optimizer.zero_grad()
            weight.sum().backward()
            optimizer.step()
            schedule.step()
        assert abs(optimizer.param_groups[0]["lr"] - 0.1) < 1e-9
        assert abs(weight.item() - (1 - 0.8 - 0.4 - 0.2)) < 1e-6


def outside(torch, hvd, rank, size):
    """Ranks outside the process set step with their own gradients."""
    some = hvd.add_process_set([0, 1])
    for op in (hvd.Average, hvd.Adasum):
        weight = torch.nn.Parameter(torch.zeros(1))
        inner = torch.optim.SGD([weight], lr=1.0)
        optimizer = hvd.DistributedOptimizer(inner, [("w", weight)], op=op, process_set=some)
        (weight * 2).sum().backward()
        optimizer.step()
        assert weight.item() == -2
        optimizer.zero_grad()
    table = torch.nn.Embedding(3, 2, sparse=True)
    inner = torch.optim.SparseAdam(list(table.parameters()), lr=0.1)
    optimizer = hvd.DistributedOptimizer(inner, sparse_as_dense=True)
    before = table.weight.detach().clone()
    table(torch.tensor([1])).sum().backward()
    optimizer.step()
    assert ((table.weight != before).any(1) == torch.tensor([False, True, False])).all()
    assert hvd.remove_process_set(some)


def batch_norm(torch, hvd, rank, size):
    """Ranks with parts of different lengths compute what one process does with the whole batch."""
    whole = torch.randn(3 * size, 4, 2, generator=torch.Generator().manual_seed(1)) * 3 + 5
    start = 3 * rank + (rank > 0)
    mine = slice(start, 3 * rank + 3 + (rank + 1 < size))
    torch.manual_seed(2)
    one, ours = torch.nn.BatchNorm1d(4), hvd.SyncBatchNorm(4)
    slope = torch.randn(whole.shape)
    x = whole.clone().requires_grad_()
    expected = one(x)
    (expected * slope).sum().backward()
    part = whole[mine].clone().requires_grad_()
    result = ours(part)
    (result * slope[mine]).sum().backward()
    assert torch.allclose(result, expected[mine], atol=1e-5)
    assert torch.allclose(part.grad, x.grad[mine], atol=1e-5)
    assert torch.allclose(ours.running_mean, one.running_mean, atol=1e-5)
    assert torch.allclose(ours.running_var, one.running_var, atol=1e-5)
    assert torch.allclose(hvd.allreduce(ours.weight.grad, op=hvd.Sum), one.weight.grad, atol=1e-4)
    assert torch.allclose(ours.eval()(part), one.eval()(whole)[mine], atol=1e-5)


def settings_that_differ(torch, hvd, rank, size):
    for mine, text in (
        ({"backward_passes_per_step": 2}, "backward_passes_per_step=2"),
        ({"groups": 2}, r"groups=\d from .*weight, \d from "),
        ({"num_groups": 1}, r"groups=\d from .*weight, "),
        ({"compression": hvd.Compression.fp16}, "compression=FP16Compressor"),
        ({"op": hvd.Sum}, "op=Sum"),
        ({"gradient_predivide_factor": 2.0}, "gradient_predivide_factor=2.0"),
        ({"sparse_as_dense": True}, "sparse_as_dense=True"),
        ({}, "4 names with checksum "),
    ):
        model = make(torch)
        given = mine if rank == 0 else {}
        end = "" if mine or rank > 0 else ".other"
        parameters = model.named_parameters(prefix="differ")
        named = [(f"{n}{end}" if "bias" in n else n, p) for n, p in parameters]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=named, **given)
        for _ in range(given.get("backward_passes_per_step", 1)):
            model(torch.ones(1, 5)).sum().backward()
        with pytest.raises(hvd.HorovodInternalError, match=f"rank 0 .*barrier, {text}.*; rank "):
            optimizer.step()
        optimizer.zero_grad()
    model = make(torch)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    model(torch.ones(1, 5)).sum().backward()
    optimizer.step()
    passes = 1 + (rank == 0)
    optimizer.set_backward_passes_per_step(passes)
    for _ in range(passes):
        model(torch.ones(1, 5)).sum().backward()
    text = r"gradient\..*avg, backward_passes_per_step=2; rank"
    with pytest.raises(hvd.HorovodInternalError, match=text):
        optimizer.step()
    given = {"op": hvd.Adasum, "backward_passes_per_step": passes}
    model = make(torch)
    given["named_parameters"] = model.named_parameters(prefix="differ")
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), **given)
    with pytest.raises(hvd.HorovodInternalError, match="backward_passes_per_step=2, op=Adasum"):
        for _ in range(passes):
            optimizer.step()
    named = list(make(torch).named_parameters())
    with pytest.raises(hvd.HorovodInternalError, match=r"4 names with .*3 names with"):
        hvd.broadcast_parameters(named if rank == 0 else named[1:], 0)


def submit_on_some(shared):
    """Operations that some ranks miss fail alone, also where the other ranks submit nothing."""
    import sparkring
    import sparkring.torch as hvd
    import torch

    os.environ["SPARKRING_SHARED_MEMORY"] = shared
    os.environ["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] = str(2 * STRETCH)
    comm = sparkring.init(timeout=60, call_timeout=60)
    hvd.init(comm)
    rank, one = hvd.rank(), torch.ones(1)
    some = hvd.add_process_set([1, 2])
    for place, of in ((hvd.global_process_set, ""), (some, r" of process set 1 \(ranks 1, 2\)")):
        if rank == 1:
            text = rf'"allreduce.lonely{of}" has waited .* s for .*rank 2.*: submit it on all ranks'
            with pytest.raises(hvd.HorovodInternalError, match=f"TimeoutError: tensor {text}"):
                hvd.allreduce(one, name="lonely", process_set=place)
        comm.barrier()
        if place.included():
            total = hvd.allreduce(one, op=hvd.Sum, name="lonely", process_set=place)
            assert total.item() == place.size()
    with pytest.raises(hvd.HorovodInternalError, match=r"one of 3 tensors.*one of 2 tensors"):
        hvd.grouped_allgather([one] * (3 if rank == 0 else 2), name="group")
    hvd.shutdown()
    comm.close()


@pytest.mark.parametrize(
    ("size", "shared"),
    [pytest.param(2, "0", marks=pytest.mark.long), (3, "1")],
    ids=["2-tcp", "3-shm"],
)
def test_training(size, shared):
    run(size, train_in_every_way, shared)


def test_operations_of_some_ranks():
    run(3, submit_on_some, "1")
