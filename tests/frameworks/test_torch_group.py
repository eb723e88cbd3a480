# SPDX-License-Identifier: Apache-2.0
"""How a process group of the backend "sparkring" is found, begins and ends."""

from __future__ import annotations

import gc
import importlib.metadata
import os
import secrets
from datetime import timedelta

import process_group
import pytest
import sparkring
from ranks import open_comm, run


def find_by_name():
    """What PyTorch does from 2.14 on when a program names the backend."""
    import torch.distributed as dist

    (entry,) = importlib.metadata.entry_points(group="torch.distributed.backends", name="sparkring")
    assert "SPARKRING" not in dist.Backend._plugins
    entry.load()()
    assert "SPARKRING" in dist.Backend._plugins


def test_the_backend_is_found_by_name():
    run(1, find_by_name)


def leave_nothing():
    import torch
    import torch.distributed as dist

    counts = []
    for _ in range(3):
        with process_group.group() as (rank, size):
            dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()
            work = dist.isend(torch.ones(3), (rank + 1) % size)
            dist.recv(torch.ones(3), (rank - 1) % size)
            work.wait()
            dist.new_group([0, 1])
        gc.collect()
        counts.append(process_group.sockets())
    return process_group.threads(), counts[1] - counts[0], counts[2] - counts[1]


def test_the_end_leaves_nothing():
    assert run(2, leave_nothing) == [([], 0, 0)] * 2


def own_communicator():
    import torch
    import torch.distributed as dist

    with open_comm() as comm:
        os.environ.update(RANK="7", WORLD_SIZE="1")  # of an earlier group
        group = comm.torch_group()
        assert comm.torch_group() is group
        variables = {"RANK": comm.rank, "WORLD_SIZE": comm.size, "LOCAL_RANK": comm.local_rank}
        assert all(os.environ[name] == str(value) for name, value in variables.items())
        assert os.environ["TORCHELASTIC_RUN_ID"]  # for Lightning
        assert torch.cuda.is_available() or os.environ["ACCELERATE_USE_CPU"] == "true"
        assert os.environ["MASTER_ADDR"] == comm.hosts[0] and int(os.environ["MASTER_PORT"]) > 0
        devices = {"cpu", "cuda"} if torch.backends.cuda.is_built() else {"cpu"}
        assert set(dist.Backend.backend_capability["sparkring"]) == devices
        rows = [torch.empty(comm.rank) for _ in range(comm.size)]  # rank 0 receives nothing
        dist.all_to_all(rows, [torch.ones(i) for i in range(comm.size)])
        assert [x.tolist() for x in rows] == [[1.0] * comm.rank] * comm.size
        assert group.rank() == comm.rank == dist.get_rank()
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        assert (tensor == comm.size).all()
        half = dist.new_group([comm.size - 1])
        if comm.rank == comm.size - 1:
            dist.all_reduce(tensor, group=half)
        dist.destroy_process_group()
        assert comm.allreduce(1) == comm.size
        again = comm.torch_group()
        assert again is not group
        dist.destroy_process_group()
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        with pytest.raises(sparkring.InvalidError, match="has a default process group"):
            comm.torch_group()
        dist.destroy_process_group()


def test_a_group_over_an_open_communicator():
    run(2, own_communicator)


def find_group(token):
    import torch.distributed as dist

    with open_comm() as comm:
        comm.torch_env()
    os.environ["SPARKRING_TOKEN"] = token.format(rank=os.environ["SPARKRING_RANK"])
    import sparkring.torch  # noqa: F401

    try:
        dist.init_process_group("sparkring", timeout=timedelta(seconds=5))
    except dist.DistBackendError as error:
        return type(error.__cause__)
    dist.destroy_process_group()
    return None


def test_a_token_of_the_environment_counts():
    token = secrets.token_hex()
    assert run(2, find_group, token) == [None, None]
    refused = {sparkring.AuthError, sparkring.TimeoutError}
    assert set(run(2, find_group, token + "{rank}")) <= refused


def test_sparkring_alone_imports_no_torch():
    import subprocess
    import sys

    code = "import sparkring, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
