# SPDX-License-Identifier: Apache-2.0
"""What it costs to start: whole Spark jobs with sparkring, without it, and with TorchDistributor.

startup.py [--ranks N] [--rounds N] [--only JOB,...] [--output FILE]; scripts/bench --startup calls
it.

Every job is a barrier stage of N tasks in one local Spark; a round runs each once, every other
round backwards. The first round is not counted: in it Java compiles and files get cached. Tasks do
not read their partitions, so each runs in a new Python process, as in the first job of a session,
and a job's time holds what it imports. The three jobs of PyTorch call the same function; the one by
hand exchanges an address, and has neither results, nor output, nor errors of the other ranks.
"""

import argparse
import contextlib
import datetime
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from other_load import OtherLoad

BENCH = Path(__file__).resolve().parent
MPI_COMPILER = shutil.which("mpicc.mpich") or shutil.which("mpicc")
QUIET = BENCH.parent / "demo" / "log4j2.properties"
STEPS, NOISE = 50, 0.1
MPI_PROGRAM = "#include <mpi.h>\nint main(void) { MPI_Init(0, 0); return MPI_Finalize(); }\n"


def show(text):
    """Tell how it goes; the table alone goes to standard output."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


# ---- What tasks do ------------------------------------------------------------------------------


def nothing(_rows):
    """Take part in the stage."""
    from pyspark import BarrierTaskContext

    yield BarrierTaskContext.get().partitionId()


def gather(_rows):
    """Wait for the other tasks as sparkring.init() does once, by Spark."""
    from pyspark import BarrierTaskContext

    yield BarrierTaskContext.get().allGather("")


def join_ring(_rows):
    """Become a rank; return the seconds of the import and of the rest."""
    begin = time.perf_counter()
    import sparkring

    imported = time.perf_counter()
    with sparkring.init():
        ready = time.perf_counter()
    yield imported - begin, ready - imported


def train():
    """Train a model with PyTorch, from the variables that torchrun sets; the same for all."""
    import torch

    torch.distributed.init_process_group("gloo")
    torch.manual_seed(torch.distributed.get_rank())
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(torch.rand(32, 64)), torch.arange(32) % 10)
        loss.backward()
        optimizer.step()
    torch.distributed.destroy_process_group()
    return float(loss.detach())


def train_by_hand(_rows):
    """Train in a barrier task that sets the variables itself."""
    import socket

    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    with contextlib.closing(socket.socket()) as free:
        free.bind(("", 0))
        port = context.allGather(str(free.getsockname()[1]))[0]
    host = context.getTaskInfos()[0].address.rpartition(":")[0]
    rank, size = context.partitionId(), len(context.getTaskInfos())
    os.environ.update(MASTER_ADDR=host, MASTER_PORT=port, RANK=str(rank), WORLD_SIZE=str(size))
    yield train()


# ---- The jobs -----------------------------------------------------------------------------------


class Jobs:
    """Runs jobs; a method each, which returns what its tasks return."""

    def __init__(self, spark, ranks):
        self._spark, self._ranks = spark, ranks
        self._programs = tempfile.TemporaryDirectory()

    def compile(self):
        """Make the program of `mpi`."""
        source = Path(self._programs.name, "program.c")
        source.write_text(MPI_PROGRAM)
        subprocess.run([MPI_COMPILER, source, "-o", source.with_suffix("")], check=True)

    def bare(self):
        """Run a barrier stage that does nothing."""
        return self._stage(nothing)

    def gather(self):
        """Run one whose tasks wait for each other, by Spark."""
        return self._stage(gather)

    def init(self):
        """Run one that makes a communicator."""
        return self._stage(join_ring)

    def run(self):
        """Do the same by sparkring.spark.run, without showing output: `bare` has none."""
        from sparkring.spark import run

        return run(lambda comm: comm.rank, num_proc=self._ranks, verbose=0)

    def shown(self):
        """Do the same, with output shown on the driver, as is the default."""
        from sparkring.spark import run

        return run(lambda comm: comm.rank, num_proc=self._ranks)

    def mpi(self):
        """Start an MPI program on each rank, which calls MPI_Init and MPI_Finalize."""
        from sparkring.spark import mpi

        return mpi([str(Path(self._programs.name, "program"))], num_proc=self._ranks, verbose=0)

    def torch_hand(self):
        """Train in a barrier stage."""
        return self._stage(train_by_hand)

    def torch_run(self):
        """Train by sparkring.spark.run, as users call it."""
        from sparkring.spark import run

        def work(comm):
            comm.torch_env()
            return train()

        return run(work, num_proc=self._ranks)

    def torch_distributor(self):
        """Train by Spark's TorchDistributor."""
        from pyspark.ml.torch.distributor import TorchDistributor

        return TorchDistributor(self._ranks, local_mode=False, use_gpu=False).run(train)

    def _stage(self, function):
        rdd = self._spark.sparkContext.parallelize(list(range(self._ranks)), self._ranks)
        return rdd.barrier().mapPartitions(function).collect()


WHAT = {
    "bare": "a barrier job",
    "gather": "the same with Spark's own allGather()",
    "init": "the same with sparkring.init(), which calls that",
    "run": "the same by sparkring.spark.run(verbose=0)",
    "shown": "the same by sparkring.spark.run()",
    "mpi": "an MPI program on each rank by sparkring.spark.mpi()",
    "torch_hand": "PyTorch in a barrier job, by hand",
    "torch_run": "PyTorch by sparkring.spark.run()",
    "torch_distributor": "PyTorch by Spark's TorchDistributor",
}
RATIOS = (  # a job, over another, at most or at least
    ("init", "gather", "<=", 1.5),
    ("run", "gather", "<=", 2.5),
    ("torch_run", "torch_hand", "<=", 1.25),
    ("torch_distributor", "torch_run", ">=", 1.0),
)
MORE = (("mpi", "run", 0.3),)  # a job, over another, at most so many seconds


def start_spark(ranks):
    """Start Spark here, with a slot for each rank."""
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master(f"local[{ranks}]")
        .appName("sparkring bench")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={QUIET.as_uri()}")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def measure(names, ranks, rounds):
    """Run all jobs; return the seconds of each, and those that ranks took to join."""
    seconds, met = {name: [] for name in names}, []
    spark = start_spark(ranks)
    jobs = Jobs(spark, ranks)
    if "mpi" in names:
        jobs.compile()
    try:
        for number in range(rounds + 1):
            with OtherLoad() as other:
                for name in names[::-1] if number % 2 else names:
                    start = time.perf_counter()
                    returned = getattr(jobs, name)()
                    if number:
                        seconds[name].append(time.perf_counter() - start)
                        met += [max(returned, key=sum)] if name == "init" else []
            show(f"round {number} of {rounds} done" if number else "warm")
            if number and other.share > NOISE:
                show(f"noisy: other programs used {other.share:.0%} of the processors")
    finally:
        spark.stop()
    return seconds, met


# ---- What comes out -----------------------------------------------------------------------------


def table(times, met, ranks):
    """Yield the lines of the table."""
    title = f"startup, {ranks} tasks in local Spark: a whole job"
    yield f"\n{title:<58}{'seconds':>10}{'/ bare':>10}"
    for name, seconds in times.items():
        over = f"{seconds / times['bare']:.2f}" if "bare" in times else "-"
        yield f"{WHAT[name]:<58}{seconds:>10.3f}{over:>10}"
    if met:
        yield f"{'  of that: from the start of a task to its communicator':<58}{sum(met):>10.3f}"
        yield f"{'    import sparkring, with NumPy':<58}{met[0]:>10.3f}"
        yield f"{'    sparkring.init()':<58}{met[1]:>10.3f}"
    yield f"\n{'target':<58}{'wanted':>10}{'measured':>10}"
    for job, other, sign, wanted in RATIOS:
        row = f"{job + ' over ' + other:<58}{f'{sign} {wanted:7.2f}':>10}"
        if job in times and other in times:
            ratio = times[job] / times[other]
            reached = ratio <= wanted if sign == "<=" else ratio >= wanted
            yield f"{row}{ratio:>10.2f}  {'met' if reached else 'MISSED'}"
        else:
            yield f"{row}{'-':>10}  not measured"
    for job, other, wanted in MORE:
        if job in times and other in times:
            more = times[job] - times[other]
            row = f"{f'{job} over {other}, seconds':<58}{f'<= {wanted:7.2f}':>10}"
            yield f"{row}{more:>10.2f}  {'met' if more <= wanted else 'MISSED'}"


def write(times, met, output):
    """Write one JSON object a line."""
    rows = [{"job": name, "seconds": round(seconds, 4)} for name, seconds in times.items()]
    if met:
        rows.append({"job": "init", "import": round(met[0], 4), "init": round(met[1], 4)})
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    print(f"\nwritten to {output}")


def installed(name):
    """Whether a job's needs are here; reports what is missing."""
    if name == "mpi" and MPI_COMPILER is None:
        show("mpi: not installed: mpich and libmpich-dev")
        return False
    needs = {"torch_": ("torch",), "torch_distributor": ("torch", "pandas", "pyarrow")}
    for start, modules in needs.items():
        for module in modules if name.startswith(start) else ():
            try:
                __import__(module)
            except ImportError:
                show(f"{name}: not installed: pip install {module}")
                return False
    return True


def parse(arguments):
    """Read the options."""
    parser = argparse.ArgumentParser(prog="scripts/bench --startup")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(WHAT), metavar="JOB,...", help=", ".join(WHAT))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    options.only = options.only.split(",")
    if unknown := set(options.only) - set(WHAT):
        parser.error(f"no job {', '.join(unknown)}: choose from {', '.join(WHAT)}")
    return options


def main():
    """Do what the command line asks for."""
    options = parse(sys.argv[1:])
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", SPARK_LOCAL_IP="127.0.0.1")
    os.environ.update(PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable)
    logging.disable(logging.WARNING)  # TorchDistributor's
    start = datetime.datetime.now()
    names = [name for name in options.only if installed(name)]
    seconds, met = measure(names, options.ranks, options.rounds)
    times = {name: median(rounds) for name, rounds in seconds.items()}
    steps = [median(step) for step in zip(*met)]
    print(*table(times, steps, options.ranks), sep="\n")
    name = f"{start:%Y-%m-%d-%H%M}-startup.json"
    write(times, steps, options.output or BENCH / "results" / name)


if __name__ == "__main__":
    main()
