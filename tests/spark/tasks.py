# SPDX-License-Identifier: Apache-2.0
"""What the tests run inside barrier tasks; Spark ships this file to its executors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import sparkring
from pyspark import BarrierTaskContext, SparkFiles, TaskContext


def describe(rows):
    """Who this rank is, and where it runs."""
    with sparkring.init() as comm:
        yield {
            "rank": comm.rank,
            "partition": TaskContext.get().partitionId(),
            "size": comm.size,
            "local_rank": comm.local_rank,
            "local_size": comm.local_size,
            "hosts": list(comm.hosts),
            "executor": os.getcwd(),
            "pid": os.getpid(),
        }


def executor():
    """Find the executor of this rank: above it are a Python worker, and where workers come from."""
    found = os.getpid()
    while Path(f"/proc/{found}/comm").read_text().strip() != "java":
        found = int(Path(f"/proc/{found}/stat").read_text().rpartition(")")[2].split()[1])
    return found


def collect(comm):
    """One call of each collective, on data that differs between the ranks."""
    rank = comm.rank
    comm.barrier()
    return {
        "rank": rank,
        "sum": comm.allreduce(np.arange(5.0) + rank).tolist(),
        "max": int(comm.allreduce(np.array(rank), op="max")),
        "root": comm.broadcast(np.full(3, rank), root=1).tolist(),
        "all": comm.allgather(np.array([rank, 10 * rank])).ravel().tolist(),
    }


def collectives(rows):
    with sparkring.init() as comm:
        yield collect(comm)


def rank_of_four(token):
    """A function for mapPartitions: one of the first ranks of a ring that has others elsewhere."""

    def run(rows):
        rank = TaskContext.get().partitionId()
        with sparkring.init(rank=rank, size=4, root_address="127.0.0.1", token=token) as comm:
            yield {
                "rank": comm.rank,
                "sum": comm.allreduce(np.arange(5.0) + rank).tolist(),
                "root": comm.broadcast(np.full(3, float(rank)), root=1).tolist(),
                "all": comm.allgather(np.array([rank, 10.0 * rank])).ravel().tolist(),
            }

    return run


def encrypted(rows):
    """Over links that are encrypted with keys of each two ranks."""
    with sparkring.init(encryption=True, shared_memory=False) as comm:
        yield collect(comm), comm.encrypted, comm.link(comm.rank ^ 1)


def mpi(argv):
    """A function for mapPartitions: an MPI program between two collectives of the ranks."""

    def run(rows):
        lines = []
        with sparkring.init() as comm:
            before = collect(comm)
            comm.mpi_run(argv, output=lines.append)
            yield sorted(lines), before == collect(comm)

    return run


def mpi_inside(comm, packages, library, failing=None):
    """Use MPI in the rank's own process; one rank may fail while the others wait in MPI."""
    sys.path.append(packages)
    os.environ["MPI4PY_LIBMPI"] = library
    with comm.mpi_init() as world:
        if comm.rank == failing:
            raise ArithmeticError("no solution")
        return world.allgather(comm.rank)


def unasked(rows):
    """What a rank gets that sets no option of encryption, and a rank that turns it off."""
    with sparkring.init(shared_memory=False) as comm:
        comm.barrier()
        default = comm.encrypted, comm.link(comm.rank ^ 1)
    with sparkring.init(shared_memory=False, encryption=False) as comm:
        comm.barrier()
        yield default, (comm.encrypted, comm.link(comm.rank ^ 1))


def unasked_frames(frames):
    """The same default, for mapInPandas."""
    import pandas as pd

    for _ in frames:
        pass
    with sparkring.init() as comm:
        yield pd.DataFrame({"encrypted": [comm.encrypted]})


def twice(rows):
    """A second ring in the same task, after the first was closed."""
    for _ in range(2):
        with sparkring.init() as comm:
            yield collect(comm)


def average(frames):
    """For mapInPandas: the mean over all partitions of the column `id`."""
    import pandas as pd

    ids = pd.concat(frames)["id"]
    with sparkring.init() as comm:
        total, count = comm.allreduce(np.array([ids.sum(), len(ids)], dtype=np.float64))
        yield pd.DataFrame({"rank": [comm.rank], "mean": [total / count], "rows": [len(ids)]})


def rank_two_fails(rows):
    comm = sparkring.init()
    comm.barrier()
    if comm.rank == 2:
        raise ArithmeticError("rank 2 divided by zero")
    comm.allreduce(np.ones(1000))
    yield comm.rank


def rank_one_fails_once(marker):
    """A function for mapPartitions; `marker` is a file that remembers the failure."""

    def run(rows):
        comm = sparkring.init()
        if comm.rank == 1 and not os.path.exists(marker):
            open(marker, "w").close()
            raise ArithmeticError("rank 1 fails at the first attempt")
        yield float(comm.allreduce(np.array(1.0)))
        comm.close()

    return run


def rank_three_stays_away(rows):
    """Rank 3 never calls init; the others must not wait for ever."""
    if TaskContext.get().partitionId() == 3:
        return
    sparkring.init(timeout=5)
    yield TaskContext.get().partitionId()


def r_rank(script, token, partition_type="integer", columns=()):
    """A function for mapPartitions that lets an R process be this task's rank.

    R gets the barrier as sparklyr hands it to a closure: the addresses as a list of strings, the
    partition as an integer or a double. Behind it come the rows as CSV, if `columns` names them.
    """

    def run(rows):
        context = BarrierTaskContext.get()
        addresses = ", ".join(json.dumps(info.address) for info in context.getTaskInfos())
        partition = f"{context.partitionId()}{'L' if partition_type == 'integer' else ''}"
        barrier = f"list(address = list({addresses}), partition = {partition})"
        lines = [f"list(barrier = {barrier}, token = {json.dumps(token)})"]
        if columns:
            lines += [",".join(str(value) for value in row) for row in [columns, *rows]]
        process = subprocess.run(
            ["Rscript", "--vanilla", SparkFiles.get(script)],
            input="\n".join(lines) + "\n",
            capture_output=True,
            text=True,
            timeout=400,
        )
        if process.returncode != 0:
            raise RuntimeError(process.stderr)
        yield json.loads(process.stdout)

    return run


def take(rows, **options):
    """What a rank gets of its partition: rows of each batch, their sum over all, and the types."""
    from sparkring.data import batches

    with sparkring.init() as comm:
        data = batches(rows, comm, 8, columns={"id": "id", "x": ["half", "vector"]}, **options)
        taken = [[(batch["id"][batch.mask], batch) for batch in data] for _ in range(2)]
        return {
            "rank": comm.rank,
            "ids": [[ids.tolist() for ids, _ in epoch] for epoch in taken],
            "totals": [[batch.total for _, batch in epoch] for epoch in taken],
            "rows": [[len(batch["x"]) for _, batch in epoch] for epoch in taken],
            "types": sorted({f"{x.dtype}{x.shape[1:]}" for _, b in taken[0] for x in b.values()}),
            "agrees": all(
                (b["x"][:, 0] == b["id"] / 2).all() and (b["x"][:, 2] == b["id"]).all()
                for _, b in (*taken[0], *taken[1])
            ),
        }


def take_frames(frames):
    import pandas as pd

    yield pd.DataFrame({"found": [json.dumps(take(frames, epochs=2, equalize="pad"))]})


def take_arrow(record_batches):
    import pyarrow as pa

    found = take(record_batches, epochs=2, equalize="join", shuffle_buffer=10)
    yield pa.RecordBatch.from_pydict({"found": [json.dumps(found)]})


def take_rows(rows):
    yield take(rows, epochs=2, equalize="drop", memory=0)


def r_program(script, token):
    """A function for mapPartitions that lets an R program be this task's rank.

    It is one for sparkring-run, and gets what that would pass it: in its environment.
    """

    def run(rows):
        context = BarrierTaskContext.get()
        addresses = [info.address.rpartition(":")[0] for info in context.getTaskInfos()]
        variables = {
            "SPARKRING_RANK": str(context.partitionId()),
            "SPARKRING_SIZE": str(len(addresses)),
            "SPARKRING_ADDRESSES": ",".join(addresses),
            "SPARKRING_TOKEN": token,
        }
        process = subprocess.run(
            ["Rscript", "--vanilla", SparkFiles.get(script)],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=400,
        )
        if process.returncode != 0:
            raise RuntimeError(process.stdout + process.stderr)
        yield process.stdout

    return run
