# SPDX-License-Identifier: Apache-2.0
"""PyTorch over the backend "sparkring" beside Gloo, in the same processes.

Each process has a group of either backend, and rounds alternate between them. Prints medians as
Markdown.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import time

import sparkring.torch  # noqa: F401 (it registers the backend)
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch.nn.parallel import DistributedDataParallel

SIZES = {"8 B": (8, 300), "64 KiB": (65536, 150), "1 MiB": (1 << 20, 40), "25 MB": (25_000_000, 4)}
WIDTHS = {"1 M": (890, 20), "25 M": (4870, 3)}  # parameters: width of the layers, steps a round
BATCH = 16


def network(width: int) -> torch.nn.Module:
    """Return the same network on every rank."""
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(256, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, 10),
    )


def alternate(names: list[str], rounds: int, barrier, measure) -> dict[str, float]:
    """Return the median of every system. The ranks pass a barrier of it before each round."""
    results = {name: [] for name in names}
    for index in range(rounds):
        for name in names[:: 1 if index % 2 else -1]:
            barrier(name)
            results[name].append(measure(name))
    return {name: statistics.median(values) for name, values in results.items()}


def steps_a_second(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> float:
    """Train on random numbers, after one step that does not count."""
    x, y = torch.randn(BATCH, 256), torch.randint(0, 10, (BATCH,))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    step()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return steps / (time.perf_counter() - start)


def allreduce(groups: dict, size: int, calls: int, rounds: int) -> dict[str, float]:
    """Return microseconds."""
    tensor = torch.ones(max(size // 4, 1))

    def measure(name: str) -> float:
        group = groups[name]
        for _ in range(2):
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=group)
        start = time.perf_counter()
        for _ in range(calls):
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=group)
        return (time.perf_counter() - start) / calls * 1e6

    return alternate(list(groups), rounds, barrier_of(groups), measure)


def train(groups: dict, width: int, steps: int, rounds: int) -> dict[str, float]:
    """Return steps a second."""
    models = {
        name: DistributedDataParallel(network(width), process_group=group)
        for name, group in groups.items()
    }

    def measure(name: str) -> float:
        optimizer = torch.optim.SGD(models[name].parameters(), 1e-3)
        return steps_a_second(models[name], optimizer, steps)

    return alternate(list(groups), rounds, barrier_of(groups), measure)


def barrier_of(groups: dict):
    """Return the barrier of a group by its name."""
    return lambda name: dist.barrier(group=groups[name])


def rank_main(rank: int, size: int, port: int, rounds: int) -> None:
    """Measure as a rank; rank 0 prints."""
    torch.set_num_threads(1)
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size)
    )
    dist.init_process_group("gloo")
    groups = {"gloo": dist.group.WORLD, "sparkring": dist.new_group(backend="sparkring")}
    rows = [
        (f"allreduce, {label}, µs", allreduce(groups, *SIZES[label], rounds)) for label in SIZES
    ]
    rows += [
        (f"DDP, {label} parameters, steps/s", train(groups, *WIDTHS[label], rounds))
        for label in WIDTHS
    ]
    if rank == 0:
        print(f"| {size} ranks | Gloo | sparkring | sparkring / Gloo |\n|---|---|---|---|")
        for name, values in rows:
            gloo, ours = values["gloo"], values["sparkring"]
            print(f"| {name} | {gloo:.1f} | {ours:.1f} | {ours / gloo:.2f} |", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def free_port() -> int:
    """Return a port for the ranks to meet at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def main() -> None:
    """Start the ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    processes.spawn(rank_main, (options.ranks, free_port(), options.rounds), nprocs=options.ranks)


if __name__ == "__main__":
    main()
