# SPDX-License-Identifier: Apache-2.0
"""Batches as tensors: PyTorch's DistributedDataParallel on partitions of unequal length."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from ranks import open_comm, run
from sparkring.data import batches

SIZES, BATCH, EPOCHS, RATE = (21, 0, 6), 8, 2, 0.1


def rows_of(rank):
    random = np.random.default_rng(rank)
    return [(random.normal(size=3), random.normal()) for _ in range(SIZES[rank])]


def alone():
    """The weights that one process gets which takes all ranks' rows of a step."""
    parts = [rows_of(rank) for rank in range(len(SIZES))]
    weights = np.zeros(3)
    for _ in range(EPOCHS):
        for start in range(0, max(SIZES), BATCH):
            rows = [row for part in parts for row in part[start : start + BATCH]]
            x, y = (np.array(values) for values in zip(*rows))
            weights -= RATE * 2 * x.T @ (x @ weights - y) / len(y)
    return weights


def train(equalize):
    import torch
    from torch.nn.parallel import DistributedDataParallel

    with open_comm() as comm:
        comm.torch_env()
        torch.distributed.init_process_group("gloo")
        data = batches(
            rows_of(comm.rank),
            comm,
            BATCH,
            columns={"x": 0, "y": 1},
            epochs=EPOCHS,
            equalize=equalize,
            as_="torch",
        )
        network = torch.nn.Linear(3, 1, bias=False, dtype=torch.float64)
        torch.nn.init.zeros_(network.weight)
        model = DistributedDataParallel(network)
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        for _ in range(EPOCHS):
            for batch in data:
                losses = (model(batch["x"])[:, 0] - batch["y"]) ** 2
                optimizer.zero_grad()
                (losses[batch.mask].sum() * comm.size / batch.total).backward()
                optimizer.step()
        del model  # it holds the group, whose threads must end before the interpreter does
        gc.collect()
        torch.distributed.destroy_process_group()
        return network.weight.detach().numpy().ravel()


@pytest.mark.parametrize("equalize", ["pad", "join"])
def test_ranks_train_as_one_process_would(equalize):
    found = run(len(SIZES), train, equalize)
    assert all(np.array_equal(weights, found[0]) for weights in found)
    np.testing.assert_allclose(found[0], alone(), rtol=1e-12)


def memory():
    import torch

    with open_comm() as comm:
        drawn = next(iter(batches(range(4), comm, 4, as_="torch", dtype="float32")))
        kept = batches(range(4), comm, 4, as_="torch", epochs=2)
        first = next(iter(kept))["value"]
        second = next(iter(kept))["value"]
        second += 1
        types = [str(values.dtype) for values in (drawn["value"], first, drawn.mask)]
        return types, isinstance(drawn.mask, torch.Tensor), first.tolist(), second.tolist()


def test_tensors():
    expected = ["torch.float32", "torch.int64", "torch.bool"]
    assert run(1, memory) == [(expected, True, [0, 1, 2, 3], [1, 2, 3, 4])]
