# SPDX-License-Identifier: Apache-2.0
"""The front end ``import sparkring.torch as hvd`` beside Horovod, in the same processes.

Each process has initialized both, and rounds alternate between them. Horovod has its default
settings and operations of Gloo. Its thread runs a cycle each millisecond also while ours is
measured. Prints medians as Markdown. A ratio above 1 means that sparkring is faster.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from pathlib import Path

import horovod
import horovod.torch
import sparkring.torch
import torch
import torch.multiprocessing as processes
from horovod.runner import gloo_run
from horovod.runner.common.util import hosts
from horovod.runner.http.http_server import RendezvousServer
from torch_backend import SIZES, WIDTHS, alternate, free_port, network, steps_a_second

SYSTEMS = {"horovod": horovod.torch, "sparkring": sparkring.torch}
COLUMNS = ("ranks", "case", "size", "unit", *SYSTEMS)
MANY = {"500 of 4 KiB": (500, 1024, 5)}  # tensors, elements of each, calls a round


def compare(rounds: int, measure) -> dict[str, float]:
    """Return the median of each system."""
    return alternate(list(SYSTEMS), rounds, lambda name: SYSTEMS[name].barrier(), measure)


def allreduce(size: int, calls: int, rounds: int) -> dict[str, float]:
    """Return microseconds."""
    tensor = torch.ones(size // 4)

    def measure(name: str) -> float:
        reduce = SYSTEMS[name].allreduce_
        for _ in range(2):
            reduce(tensor, name="one")
        start = time.perf_counter()
        for _ in range(calls):
            reduce(tensor, name="one")
        return (time.perf_counter() - start) / calls * 1e6

    return compare(rounds, measure)


def allreduce_many(count: int, elements: int, calls: int, rounds: int) -> dict[str, float]:
    """Return microseconds from the first start to the last result."""
    tensors = {f"many.{i}": torch.ones(elements) for i in range(count)}

    def measure(name: str) -> float:
        hvd = SYSTEMS[name]

        def call() -> None:
            for handle in [hvd.allreduce_async_(x, name=key) for key, x in tensors.items()]:
                hvd.synchronize(handle)

        call()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - start) / calls * 1e6

    return compare(rounds, measure)


def train(width: int, steps: int, rounds: int) -> dict[str, float]:
    """Return steps a second."""
    trained = {}
    for name, hvd in SYSTEMS.items():
        model = network(width)
        plain = torch.optim.SGD(model.parameters(), 1e-3)
        trained[name] = model, hvd.DistributedOptimizer(plain, model.named_parameters())
    return compare(rounds, lambda name: steps_a_second(*trained[name], steps))


def rank_main(rank: int, environments: list[dict], rounds: int, rows) -> None:
    """Measure as a rank; rank 0 hands over the rows."""
    os.environ.update(environments[rank])
    torch.set_num_threads(1)
    for hvd in SYSTEMS.values():
        hvd.init()
    cases = [
        ("allreduce", "µs", allreduce, SIZES),
        ("tensors", "µs", allreduce_many, MANY),
        ("parameters", "steps/s", train, WIDTHS),
    ]
    for case, unit, function, sizes in cases:
        for label, arguments in sizes.items():
            medians = function(*arguments, rounds)
            if rank == 0:
                rows.put((len(environments), case, label, unit, *medians.values()))
    for hvd in SYSTEMS.values():
        hvd.shutdown()


def environments_of(size: int, port: int) -> list[dict[str, str]]:
    """Return the variables of the ranks, by which Horovod and sparkring find the other ranks."""
    common = gloo_run.create_run_env_vars("127.0.0.1", ["lo"], str(port))
    common.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE=str(size))
    slots = hosts.get_host_assignments(hosts.parse_hosts(f"127.0.0.1:{size}"), size)
    return [
        {**common, **gloo_run.create_slot_env_vars(slot), "RANK": str(slot.rank)} for slot in slots
    ]


def measure(size: int, rounds: int) -> list[tuple]:
    """Run the ranks, and return the rows of rank 0."""
    server = RendezvousServer()
    environments = environments_of(size, server.start())
    server.init(hosts.get_host_assignments(hosts.parse_hosts(f"127.0.0.1:{size}"), size))
    rows = processes.get_context("spawn").SimpleQueue()
    processes.spawn(rank_main, (environments, rounds, rows), nprocs=size)
    server.stop()
    found = []
    while not rows.empty():
        found.append(rows.get())
    return found


def show(rows: list[tuple]) -> None:
    """Print the rows of one number of ranks."""
    print(f"\n| {rows[0][0]} ranks | Horovod {horovod.__version__} | sparkring | ratio |")
    print("|---|---|---|---|")
    for _, case, label, unit, theirs, ours in rows:
        ratio = theirs / ours if unit == "µs" else ours / theirs
        print(f"| {case}, {label}, {unit} | {theirs:.1f} | {ours:.1f} | {ratio:.2f} |", flush=True)


def main() -> None:
    """Measure with each number of ranks."""
    parser = argparse.ArgumentParser(prog="scripts/bench --horovod", description=__doc__)
    parser.add_argument("--ranks", default="2,4", help="numbers of ranks (default: 2,4)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--csv", type=Path, help="a file for the medians")
    options = parser.parse_args()
    rows = []
    for size in map(int, options.ranks.split(",")):
        rows += measure(size, options.rounds)
        show([row for row in rows if row[0] == size])
    if options.csv:
        with options.csv.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows((*row[:4], *(f"{value:.2f}" for value in row[4:])) for row in rows)


if __name__ == "__main__":
    main()
