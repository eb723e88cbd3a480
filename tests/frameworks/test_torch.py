# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DistributedDataParallel over gloo."""

from __future__ import annotations

import gc
import os

import digits
import numpy as np
from ranks import open_comm, run

EPOCHS, BATCH = 20, 32


def train():
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"  # torchrun's agent is not used
    with open_comm() as comm:
        comm.torch_env()
    return fit()


def fit(backend="gloo"):
    """Train with the variables of the environment, or in the process group that is there."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    if backend is not None:
        torch.distributed.init_process_group(backend)
    data = digits.load(torch.distributed.get_rank(), torch.distributed.get_world_size())
    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    for _ in range(EPOCHS):
        for batch in torch.arange(len(x)).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    guess = network(torch.from_numpy(data.test_x)).argmax(1).numpy()
    weights = np.concatenate([p.detach().numpy().ravel() for p in network.parameters()])
    del model  # it holds the group, whose threads must end before the interpreter does
    gc.collect()
    torch.distributed.destroy_process_group()
    return float((guess == data.test_y).mean()), weights


def test_ranks_train_one_network():
    (first, weights), (second, same) = run(2, train)
    assert first == second >= digits.ACCURACY
    assert np.array_equal(weights, same)
