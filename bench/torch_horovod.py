# SPDX-License-Identifier: Apache-2.0
"""The front end ``import sparkring.torch as hvd`` beside Horovod, each in processes of its own.

Horovod has operations of Gloo, which connects by TCP, and runs with its default cycle of 1 ms and
with one of 0.1 ms. sparkring runs over TCP and in the memory of the host. Rounds alternate between
the four. Prints medians as Markdown.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import os
import statistics
import time
from pathlib import Path

import horovod
import torch
import torch.multiprocessing as processes
from horovod.runner import gloo_run
from horovod.runner.common.util import hosts
from horovod.runner.http.http_server import RendezvousServer
from torch_backend import SIZES, WIDTHS, free_port, network, steps_a_second

SYSTEMS = {  # a column, its front end, its environment
    "horovod": ("horovod.torch", {"HOROVOD_CYCLE_TIME": "1"}),
    "horovod_short": ("horovod.torch", {"HOROVOD_CYCLE_TIME": "0.1"}),
    "sparkring_tcp": ("sparkring.torch", {"SPARKRING_SHARED_MEMORY": "0"}),
    "sparkring": ("sparkring.torch", {}),
}
COLUMNS = ("ranks", "case", "size", "unit", *SYSTEMS)
REPEATS = 3  # of a case in the same processes
MANY = {"500 of 4 KiB": (500, 1024, 5)}  # tensors, elements of each, calls a round


def allreduce(hvd, size: int, calls: int) -> float:
    """Return microseconds."""
    tensor = torch.ones(size // 4)
    for _ in range(2):
        hvd.allreduce_(tensor, name="one")
    start = time.perf_counter()
    for _ in range(calls):
        hvd.allreduce_(tensor, name="one")
    return (time.perf_counter() - start) / calls * 1e6


def allreduce_many(hvd, count: int, elements: int, calls: int) -> float:
    """Return microseconds from the first start to the last result."""
    tensors = {f"many.{i}": torch.ones(elements) for i in range(count)}

    def call() -> None:
        for handle in [hvd.allreduce_async_(x, name=key) for key, x in tensors.items()]:
            hvd.synchronize(handle)

    call()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls * 1e6


def train(hvd, width: int, steps: int) -> float:
    """Return steps a second."""
    model = network(width)
    plain = torch.optim.SGD(model.parameters(), 1e-3)
    optimizer = hvd.DistributedOptimizer(plain, model.named_parameters())
    return steps_a_second(model, optimizer, steps)


CASES = {  # its unit, its function, what it is called with
    "allreduce": ("µs", allreduce, SIZES),
    "tensors": ("µs", allreduce_many, MANY),
    "parameters": ("steps/s", train, WIDTHS),
}


def rank_main(rank: int, module: str, environments: list[dict], numbers) -> None:
    """Measure as a rank; rank 0 hands over the numbers."""
    os.environ.update(environments[rank])
    torch.set_num_threads(1)
    hvd = importlib.import_module(module)
    hvd.init()
    for case, (_, function, sizes) in CASES.items():
        for label, arguments in sizes.items():
            found = []
            for _ in range(REPEATS):
                hvd.barrier()
                found.append(function(hvd, *arguments))
            if rank == 0:
                numbers.put(((case, label), statistics.median(found)))
    hvd.shutdown()


def environments_of(size: int, port: int) -> list[dict[str, str]]:
    """Return the variables of the ranks, by which Horovod and sparkring find the other ranks."""
    common = gloo_run.create_run_env_vars("127.0.0.1", ["lo"], str(port))
    common.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE=str(size))
    slots = hosts.get_host_assignments(hosts.parse_hosts(f"127.0.0.1:{size}"), size)
    return [
        {**common, **gloo_run.create_slot_env_vars(slot), "RANK": str(slot.rank)} for slot in slots
    ]


def launch(size: int, system: str) -> dict[tuple, float]:
    """Measure each case in new processes."""
    module, settings = SYSTEMS[system]
    server = RendezvousServer()
    environments = [{**each, **settings} for each in environments_of(size, server.start())]
    server.init(hosts.get_host_assignments(hosts.parse_hosts(f"127.0.0.1:{size}"), size))
    numbers = processes.get_context("spawn").SimpleQueue()
    processes.spawn(rank_main, (module, environments, numbers), nprocs=size)
    server.stop()
    found = {}
    while not numbers.empty():
        key, number = numbers.get()
        found[key] = number
    return found


def measure(size: int, rounds: int) -> list[tuple]:
    """Return a row of medians for each case."""
    found = [{name: launch(size, name) for name in SYSTEMS} for _ in range(rounds)]
    return [
        (
            size,
            case,
            label,
            unit,
            *(statistics.median(each[name][case, label] for each in found) for name in SYSTEMS),
        )
        for case, (unit, _, sizes) in CASES.items()
        for label in sizes
    ]


def show(rows: list[tuple]) -> None:
    """Print the rows of one number of ranks."""
    print(f"\nHorovod {horovod.__version__}, {rows[0][0]} ranks\n")
    print(f"| case | {' | '.join(SYSTEMS)} |")
    print("|---|" + "---|" * len(SYSTEMS))
    for _, case, label, unit, *medians in rows:
        print(f"| {case}, {label}, {unit} | {' | '.join(f'{each:.1f}' for each in medians)} |")


def main() -> None:
    """Measure with each number of ranks."""
    parser = argparse.ArgumentParser(prog="scripts/bench --horovod", description=__doc__)
    parser.add_argument("--ranks", default="2,4", help="numbers of ranks (default: 2,4)")
    parser.add_argument("--rounds", type=int, default=3, help="launches of each (default: 3)")
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
            writer.writerows((*row[:4], *(f"{value:.1f}" for value in row[4:])) for row in rows)


if __name__ == "__main__":
    main()
