# SPDX-License-Identifier: Apache-2.0
"""R and Python ranks in one ring: the same bytes on both sides, and the same errors."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import parts
import pytest

HERE = Path(__file__).parent
DEADLINE = 400


def digest(x):
    return hashlib.md5(x.tobytes()).hexdigest()


def r_is_ready():
    if shutil.which("Rscript") is None:
        return False
    probe = ["Rscript", "-e", "library(sparkring)"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not r_is_ready(), reason="R or its package sparkring is missing")


def launch(r, python, *options):
    """Run four ranks: R on the even ones, Python on the odd ones. Return the lines of each."""
    choose = 'if [ $((SPARKRING_RANK % 2)) = 0 ]; then exec Rscript "$1"; else exec "$0" "$2"; fi'
    launcher = [sys.executable, "-m", "sparkring._launch.launcher", "-n", "4", *options]
    job = subprocess.run(
        [*launcher, "sh", "-c", choose, sys.executable, r, python],
        timeout=DEADLINE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert job.returncode == 0, job.stdout + job.stderr
    lines = job.stdout.splitlines()
    return [[line[4:] for line in lines if line.startswith(f"[{rank}] ")] for rank in range(4)]


@pytest.mark.parametrize(("options", "links"), [([], "plain"), (["--encryption"], "encrypted")])
def test_the_same_bytes(options, links, monkeypatch):
    if options:
        monkeypatch.setenv("SPARKRING_SHARED_MEMORY", "0")  # so that all goes through links
    first, *others = launch(HERE / "ring.R", HERE / "ring.py", *options)
    assert others == [first] * 3
    digests = {tuple(line.split()[:-1]): line.split()[-1] for line in first[:-2]}
    assert len(digests) == len(first) - 2 == 26 + 6 * (4 + 1)
    inputs = [(np.arange(30) * 7 + rank * 3) % 5 - 2 for rank in range(4)]
    assert digests["int32", "sum"] == digest(sum(inputs).astype("int32"))
    assert digests["uint8", "max"] == digest(np.max(np.abs(inputs), axis=0).astype("uint8"))
    assert digests["logical", "land"] == digest(np.min(inputs, axis=0).clip(0, 1).astype("int32"))
    assert digests["float64", "broadcast", "2"] == digest(inputs[2] / 3)
    assert digests["float64", "allgather"] == digest(np.stack(inputs) / 3)
    assert first[-2:] == ["hosts" + " 127.0.0.1" * 4, links]


def expected_parts(rank, to_type):
    """Work out the lines that a rank of four must print for one type."""
    ranks, even = range(4), [to_type(parts.rows(other, 8)) for other in range(4)]
    uneven = np.concatenate([to_type(parts.rows(other, other)) for other in ranks])
    largest = np.max(even, axis=0)

    def sent(other):
        counts = [(other + to) % 3 for to in ranks]
        return np.split(to_type(parts.rows(other, sum(counts))), np.cumsum(counts)[:-1])[rank]

    def rooted(root):
        mine = rank == root
        yield "reduce", root, largest if mine else None
        yield "gather", root, np.stack(even) if mine else None
        yield "scatter", root, np.split(even[root], 4)[rank]
        yield "gatherv", root, uneven if mine else None
        yield "scatterv", root, np.split(to_type(parts.rows(root, 6)), [0, 1, 3])[rank]

    yield "reduce_scatter", np.split(largest, 4)[rank]
    yield "alltoall", np.concatenate([np.split(x, 4)[rank] for x in even])
    yield "allgatherv", uneven
    yield "alltoallv", np.concatenate([sent(other) for other in ranks])
    for root in ranks:
        yield from rooted(root)
    yield "recv", even[(rank - 1) % 4]
    yield "message", even[(rank - 1) % 4]


def test_the_same_parts():
    for rank, lines in enumerate(launch(HERE / "parts.R", HERE / "parts.py")):
        expected = [
            " ".join(map(str, (name, *call, parts.digest(x))))
            for name, to_type in parts.TYPES.items()
            for *call, x in expected_parts(rank, to_type)
        ]
        assert lines == expected
        assert len(lines) == 4 * (4 + 5 * 4 + 2)


START_R = """
library(sparkring)
comm <- ring_init(timeout = 60, call_timeout = 60)
"""
START_PYTHON = """
import sparkring
comm = sparkring.init(timeout=60, call_timeout=60)
"""


def start(folder, r, python):
    """Run these lines, with a communicator in `comm`, on the ranks of each language."""
    (folder / "lines.R").write_text(START_R + r)
    (folder / "lines.py").write_text(START_PYTHON + python)
    return launch(folder / "lines.R", folder / "lines.py")


# Whoever aborts or disagrees does so after a barrier, when all others are out of init: an error
# that reaches a rank in init is raised there.
CATCH_R = """
lines <- tryCatch(
  repeat ring_barrier(comm),
  ring_error = function(error) c(class(error)[[1]], error$rank, conditionMessage(error))
)
cat(lines, sep = "\\n")
"""
CATCH_PYTHON = """
try:
    while True:
        comm.barrier()
except sparkring.RingError as error:
    print("ring_error_" + error.status.lower(), error.rank, error, sep="\\n")
"""


def test_python_aborts(tmp_path):
    python = 'if comm.rank == 1:\n comm.barrier()\n comm.abort("a reason")\nelse:'
    python += CATCH_PYTHON.replace("\n", "\n ")
    first, aborted, *others = start(tmp_path, CATCH_R, python)
    text = "rank 1 (127.0.0.1) aborted the communicator: a reason"
    assert first == ["ring_error_aborted", "1", text]
    assert aborted == []
    assert others == [first, first]


def test_r_aborts(tmp_path):
    abort = 'if (ring_rank(comm) == 2) { ring_barrier(comm); ring_abort(comm, "a reason") } else {'
    first, second, aborted, last = start(tmp_path, abort + CATCH_R + "}", CATCH_PYTHON)
    text = "rank 2 (127.0.0.1) aborted the communicator: a reason"
    assert first == ["ring_error_aborted", "2", text]
    assert aborted == []
    assert second == last == first


def test_mismatch(tmp_path):
    r = CATCH_R.replace(
        "repeat ring_barrier(comm)", "{ ring_barrier(comm); ring_allreduce(comm, 1:3) }"
    )
    python = CATCH_PYTHON.replace("comm.barrier()", "comm.barrier(); comm.allreduce(b'123')")
    for lines in start(tmp_path, r, python):
        assert lines[0] == "ring_error_mismatch"


SUMS_R = """
rank <- ring_rank(comm)
warning <- tryCatch(ring_allreduce(comm, c(2147483647L, 1L)), warning = conditionMessage)
cat(warning, ring_allreduce(comm, c(rank, -1L)), ring_allreduce(comm, TRUE), sep = "\\n")
wide <- matrix(1:6 + 0, 2)
cat(ring_allreduce(comm, wide)[1, 3], ring_allreduce_group(comm, list(wide))[[1]][1, 3],
    ring_allreduce_group(comm, list(1, wide, array(0, c(2, 3, 4)), wide))[[4]][1, 3], "\\n")
ring_close(comm)
"""
SUMS_PYTHON = """
import numpy
print(comm.allreduce(numpy.array([2147483647, 1]))[0])
print(*comm.allreduce(numpy.array([comm.rank, -1])), comm.allreduce(1), sep="\\n")
tall = numpy.arange(1.0, 7.0).reshape(3, 2)
group = [1.0, tall, numpy.zeros((4, 3, 2)), tall]
print(*(int(x[2, 0]) for x in (comm.allreduce(tall), comm.allreduce_group([tall])[0],
                               comm.allreduce_group(group)[3])))
comm.close()
"""


def test_sums_of_integers_are_int64(tmp_path):
    overflow = "NAs produced by integer overflow: call as.double() on the vectors, on every rank"
    for rank, lines in enumerate(start(tmp_path, SUMS_R, SUMS_PYTHON)):
        first = overflow if rank % 2 == 0 else str(4 * 2147483647)
        assert [line.strip() for line in lines] == [first, "6", "-4", "4", "20 20 20"]


ARRAYS_R = CATCH_R.replace(
    "repeat ring_barrier(comm)",
    "{ ring_barrier(comm); ring_allreduce(comm, c(a = 1, b = 2)); ring_barrier(comm) }",
)
ARRAYS_PYTHON = CATCH_PYTHON.replace(
    "comm.barrier()", "comm.barrier(); comm.allreduce(memoryview(b'12345678' * 2).cast('d'))"
)


def test_names_of_r_are_no_arrays_of_python(tmp_path):
    for lines in start(tmp_path, ARRAYS_R, ARRAYS_PYTHON):
        assert lines[0] == "ring_error_mismatch"
        assert 'of names c("a", "b")' in lines[2]


OBJECTS_R = """
rank <- ring_rank(comm)
show <- function(call) {
  lines <- tryCatch(
    {
      call
      "none"
    },
    ring_error = function(error) c(class(error)[[1]], error$rank, conditionMessage(error))
  )
  cat(paste(lines, collapse = " "), "\\n", sep = "")
}
show(ring_allgather_object(comm, rank))
show(ring_alltoall_object(comm, as.list(0:3)))
for (root in 0:1) {
  show(ring_broadcast_object(comm, rank, root))
  show(ring_scatter_object(comm, as.list(0:3), root))
  show(ring_gather_object(comm, rank, root))
}
if (rank == 0) show(ring_send_object(comm, rank, 1))
if (rank == 0) show(ring_recv_object(comm, 1))
cat(ring_allreduce(comm, rank), "\\n", sep = "")
ring_close(comm)
"""
OBJECTS_PYTHON = """
def show(method, *arguments):
    try:
        method(*arguments)
        print("none")
    except sparkring.RingError as error:
        print("ring_error_" + error.status.lower(), error.rank, error)

show(comm.allgather_object, comm.rank)
show(comm.alltoall_object, range(4))
for root in range(2):
    show(comm.broadcast_object, comm.rank, root)
    show(comm.scatter_object, range(4), root)
    show(comm.gather_object, comm.rank, root)
if comm.rank == 1:
    show(comm.recv_object, 0)
    show(comm.send_object, comm.rank, 0)
print(comm.allreduce(comm.rank))
comm.close()
"""


def test_objects_stay_in_their_language(tmp_path):
    from_r = "ring_error_invalid 0 the object of rank 0 comes from R, and Python cannot read it: "
    from_r += "send arrays instead, which both can"
    from_python = "ring_error_invalid 1 the object of rank 1 comes from Python, and R cannot read "
    from_python += "it: send arrays instead, which both can"
    for rank, lines in enumerate(start(tmp_path, OBJECTS_R, OBJECTS_PYTHON)):
        other = from_python if rank % 2 == 0 else from_r
        expected = [other, other]
        for root in range(2):
            same = root % 2 == rank % 2
            expected += ["none" if same else other] * 2 + [other if rank == root else "none"]
        expected += {0: ["none", other], 1: [other, "none"]}.get(rank, [])
        assert lines == [*expected, "6"]  # the communicator goes on


CONFIGURE_R = """
Sys.setenv(CUDA_VISIBLE_DEVICES = "4,5,6,7")
text <- function(code) tryCatch(code, ring_error = conditionMessage)
config <- ring_ray_config(comm)
cat(ring_gpus(comm, 1), ring_torch_env(comm)$MASTER_PORT, config$address,
    Sys.getenv("RAY_AUTH_TOKEN"), unlist(ring_tf_config(comm)$cluster), sep = "\\n")
cat(text(ring_tf_config(comm, if (ring_rank(comm) == 0) "boss" else "worker")),
    text(ring_gpus(comm, 2)), text(ring_nccl_id(comm, "/no/such/library")), sep = "\\n")
ring_close(comm)
"""
CONFIGURE_PYTHON = """
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "4,5,6,7"
def text(function, *arguments):
    try:
        function(*arguments)
    except sparkring.RingError as error:
        return error
config = comm.ray_config()
print(*comm.gpus(1), comm.torch_env()["MASTER_PORT"], config["address"],
      os.environ["RAY_AUTH_TOKEN"], *comm.tf_config()["cluster"]["worker"], sep="\\n")
print(text(comm.tf_config, "worker"), text(comm.gpus, 2), text(comm.nccl_id, "/no/such/library"),
      sep="\\n")
comm.close()
"""


def test_frameworks_get_the_same(tmp_path):
    outputs = start(tmp_path, CONFIGURE_R, CONFIGURE_PYTHON)
    assert [lines[0] for lines in outputs] == ["4", "5", "6", "7"]
    values = [lines[1:8] for lines in outputs]
    assert values == [values[0]] * 4
    assert len(values[0][2]) == 64
    wrong, many, none = zip(*(lines[8:] for lines in outputs))
    assert wrong[0].startswith('`role` must be one of chief, worker, ps, evaluator, not "boss"')
    assert wrong[1:] == (f"rank 0 (127.0.0.1) failed: {wrong[0]}",) * 3
    assert (
        many
        == (
            "on 127.0.0.1 ranks ask for 8 GPUs, but see 4 (4,5,6,7): start fewer ranks"
            " there, or ask for fewer GPUs",
        )
        * 4
    )
    assert none == (none[0],) * 4
    assert none[0].startswith("rank 0 (127.0.0.1) has no unique id of NCCL: /no/such/library")
