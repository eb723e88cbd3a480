# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of Parquet files as batches: processor time and memory of each rank.

data.py [--rows N] [--ranks N,...] [--rounds N] [--petastorm PYTHON]; scripts/bench --data calls it.

The table has 32 columns of float32. Bare reading is a loop over all row groups with pyarrow, in one
process and one thread, without batches. The loader is measured in the order of the files, and with
rows shuffled across four row groups, alone and on several ranks, whose times are added. "large" is
the same in the order of files with row groups of 128 MB, which is Spark's size. Petastorm
reads with its pool of threads, and its loader for PyTorch shuffles in a buffer of as many rows.
Times begin after imports. All runs of a round follow each other, and each median is of all rounds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

COLUMNS, GROUP, FILES = 32, 62_500, 8
WINDOW, BATCH = 4, 1024  # row groups that are shuffled together; rows of a batch
TARGETS = (("ordered", "bare", 1.5), ("shuffled", "bare", 1.5), ("shuffled", "petastorm", 0.35))
MEMORY = 500  # MB


def write(folder, rows, files, group):
    """Write the table."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet as pq

    random = np.random.default_rng(1)
    Path(folder).mkdir()
    for number in range(files):
        shape = COLUMNS, rows // files
        columns = {f"c{i}": x for i, x in enumerate(random.random(shape, np.float32))}
        pq.write_table(pa.table(columns), f"{folder}/{number}.parquet", row_group_size=group)


# ---- What a process does -------------------------------------------------------------------------


def bare(folder):
    """Read all row groups."""
    from pyarrow import parquet as pq

    start, rows = time.process_time(), 0
    for path in sorted(Path(folder).iterdir()):
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                rows += file.read_row_group(group, use_threads=False).num_rows
    report(start, rows)


def loader(folder, shuffle):
    """Take all batches of this rank."""
    import pyarrow.parquet  # noqa: F401 (imports do not count)
    import sparkring
    from sparkring.data import parquet

    with sparkring.init() as comm:
        comm.barrier()
        start, rows = time.process_time(), 0
        with parquet(folder, comm, BATCH, shuffle=shuffle, equalize="join") as data:
            for batch in data:
                rows += len(batch["c31"])
        report(start, rows)


def petastorm(folder):
    """Take all batches of Petastorm's loader."""
    from petastorm import make_batch_reader
    from petastorm.pytorch import BatchedDataLoader

    start, rows = time.process_time(), 0
    with make_batch_reader(
        Path(folder).as_uri(), num_epochs=1, shuffle_row_groups=True, workers_count=1
    ) as reader:
        data = BatchedDataLoader(reader, BATCH, shuffling_queue_capacity=WINDOW * GROUP)
        for batch in data:
            rows += len(batch["c31"])
    report(start, rows)


def report(start, rows):
    """Print the processor time, the largest memory and the rows of this process."""
    seconds = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(json.dumps({"cpu": seconds, "memory": memory, "rows": rows}), flush=True)


# ---- All of them ---------------------------------------------------------------------------------


def measure(command, rows):
    """Run a command; return the processor time of all its processes, and the largest memory."""
    job = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = [json.loads(line[line.index("{") :]) for line in job.stdout.splitlines() if "{" in line]
    assert sum(process["rows"] for process in found) == rows, found
    return sum(process["cpu"] for process in found), max(process["memory"] for process in found)


def commands(options, folder):
    """Return the command of each system."""
    here = [sys.executable, __file__, "--folder", f"{folder}/small", "--do"]
    found = {"bare": [*here, "bare"]}
    for ranks in options.ranks:
        launcher = [sys.executable, "-m", "sparkring._launch.launcher", "-n", str(ranks)]
        suffix = "" if ranks == 1 else f", {ranks} ranks"
        found["ordered" + suffix] = [*launcher, *here, "ordered"]
        found["shuffled" + suffix] = [*launcher, *here, "shuffled"]
    launcher = [sys.executable, "-m", "sparkring._launch.launcher", "-n", "1"]
    large = [sys.executable, __file__, "--folder", f"{folder}/large", "--do"]
    found["ordered, large"] = [*launcher, *large, "ordered"]
    if options.petastorm:
        found["petastorm"] = [options.petastorm, "-W", "ignore", *here[1:], "petastorm"]
    return found


def compare(options):
    """Measure all systems, and print a table."""
    with tempfile.TemporaryDirectory(prefix="sparkring-bench-") as folder:
        for name, files, group in (("small", FILES, GROUP), ("large", FILES // 2, 16 * GROUP)):
            # In a process of its own, whose memory the processes to measure do not inherit.
            arguments = f"{folder}/{name}", options.rows, files, group
            writer = multiprocessing.Process(target=write, args=arguments)
            writer.start()
            writer.join()
        systems = commands(options, folder)
        found = {name: [] for name in systems}
        for number in range(options.rounds + 1):
            for name, command in systems.items():
                result = measure(command, options.rows)
                found[name] += [result] if number else []  # the first round fills caches
            print(f"bench: round {number} of {options.rounds} done", file=sys.stderr, flush=True)
    medians = {name: [median(values) for values in zip(*runs)] for name, runs in found.items()}
    print(f"| {options.rows:,} rows x {COLUMNS} float32 | CPU s | / bare | MB a rank |")
    print("|---|---|---|---|")
    for name, (cpu, memory) in medians.items():
        print(f"| {name} | {cpu:.2f} | {cpu / medians['bare'][0]:.2f} | {memory:.0f} |")
    for one, other, wanted in TARGETS:
        if one in medians and other in medians:
            ratio = medians[one][0] / medians[other][0]
            result = "met" if ratio <= wanted else "MISSED"
            print(f"{one} / {other}: {ratio:.2f}, wanted {wanted} at most: {result}")
    ours = max(memory for name, (_, memory) in medians.items() if name[:3] in ("ord", "shu"))
    print(f"memory: {ours:.0f} MB, wanted {MEMORY}: {'met' if ours <= MEMORY else 'MISSED'}")


def main():
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(prog="scripts/bench --data")
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--ranks", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--petastorm", metavar="PYTHON", help="a Python that has Petastorm")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--do", help=argparse.SUPPRESS)
    parser.set_defaults(ranks=[1, 2, 4])
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1")
    work = {
        "bare": lambda: bare(options.folder),
        "ordered": lambda: loader(options.folder, False),
        "shuffled": lambda: loader(options.folder, WINDOW),
        "petastorm": lambda: petastorm(options.folder),
        None: lambda: compare(options),
    }
    work[options.do]()


if __name__ == "__main__":
    main()
