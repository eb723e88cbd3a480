# SPDX-License-Identifier: Apache-2.0
"""The barrier that names the ranks that do not arrive."""

from __future__ import annotations

import re
import time
from datetime import timedelta

import process_group
import pytest
from ranks import run
from test_torch_mix import FIRST, RELEASE


def meet(backend):
    """Rank 1 stays away, then comes late; the group goes on."""
    import torch
    import torch.distributed as dist

    with process_group.group(backend=backend) as (rank, size):
        world = dist.group.WORLD
        if RELEASE < FIRST:  # PyTorch keeps its own function to Gloo, but not the method
            with pytest.raises(ValueError, match="GLOO"):
                dist.monitored_barrier()
            barrier = world.monitored_barrier
        else:
            barrier = dist.monitored_barrier
        for _ in range(3):
            barrier(timeout=timedelta(seconds=60))
        if rank == 1:
            time.sleep(2)
        problem = "monitored_barrier: rank 1 did not arrive within 1 s"
        with pytest.raises(dist.DistBackendError, match=problem):
            barrier(timeout=timedelta(seconds=1 if rank == 0 else 30))
        dist.all_reduce(torch.ones(1))
        if rank == 0:
            with pytest.raises(dist.DistBackendError) as caught:
                barrier(timeout=timedelta(seconds=0.1), wait_all_ranks=True)
            missing = re.search(r"rank ([\d, ]+) did not", str(caught.value))
            assert missing[1] == ", ".join(str(each) for each in range(1, size))
        dist.barrier()
        if rank > 0:
            with pytest.raises(dist.DistBackendError, match="rank 1"):
                barrier(timeout=timedelta(seconds=60))
        barrier(timeout=timedelta(seconds=60))
        numbers = [None] * size
        number = world._get_backend(torch.device("cpu"))._get_sequence_number_for_group()
        dist.all_gather_object(numbers, number)
        assert len(set(numbers)) == 1 and numbers[0] > 0
    return process_group.threads()


BACKENDS = ["sparkring", *(["cpu:sparkring,cuda:gloo"] if RELEASE >= FIRST else [])]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("debug", ["OFF", "DETAIL"])
def test_missing_ranks_are_named(backend, debug, monkeypatch):
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", debug)
    assert run(3, meet, backend) == [[]] * 3
