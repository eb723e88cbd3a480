# SPDX-License-Identifier: Apache-2.0
"""R and Python ranks in one ring: the same bytes on both sides, and the same errors."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
DEADLINE = 120


def digest(x):
    return hashlib.md5(x.tobytes()).hexdigest()


def r_is_ready():
    if shutil.which("Rscript") is None:
        return False
    probe = ["Rscript", "-e", "library(sparkring)"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not r_is_ready(), reason="R or its package sparkring is missing")


def launch(r, python):
    """Run four ranks: R on the even ones, Python on the odd ones. Return the lines of each."""
    choose = 'if [ $((SPARKRING_RANK % 2)) = 0 ]; then exec Rscript "$1"; else exec "$0" "$2"; fi'
    launcher = [sys.executable, "-m", "sparkring.launcher", "-n", "4"]
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


def test_the_same_bytes():
    first, *others = launch(HERE / "ring.R", HERE / "ring.py")
    assert others == [first] * 3
    said = {tuple(line.split()[:-1]): line.split()[-1] for line in first[:-1]}
    assert len(said) == len(first) - 1 == 26 + 6 * (4 + 1)
    inputs = [(np.arange(30) * 7 + rank * 3) % 5 - 2 for rank in range(4)]
    assert said["int32", "sum"] == digest(sum(inputs).astype("int32"))
    assert said["uint8", "max"] == digest(np.max(np.abs(inputs), axis=0).astype("uint8"))
    assert said["logical", "land"] == digest(np.min(inputs, axis=0).clip(0, 1).astype("int32"))
    assert said["float64", "broadcast", "2"] == digest(inputs[2] / 3)
    assert said["float64", "allgather"] == digest(np.stack(inputs) / 3)
    assert first[-1] == "hosts" + " 127.0.0.1" * 4


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
said <- tryCatch(
  repeat ring_barrier(comm),
  ring_error = function(error) c(class(error)[[1]], error$rank, conditionMessage(error))
)
cat(said, sep = "\\n")
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
    for said in start(tmp_path, r, python):
        assert said[0] == "ring_error_mismatch"
