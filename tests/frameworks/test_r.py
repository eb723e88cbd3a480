# SPDX-License-Identifier: Apache-2.0
"""What R trains through reticulate: the network of the 2020 talk (talk.R), and trees (boost.R)."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys

import digits
import pytest
import ranks
from conftest import HERE

WORKERS = 3


def start(script, rank, workers, framework, token, folder):
    """Start a worker; it gets the barrier as sparklyr hands it to a closure."""
    addresses = ", ".join(['"127.0.0.1:4040"'] * workers)
    program = folder / f"{rank}.R"
    program.write_text(
        f"list(barrier = list(address = list({addresses}), partition = {rank}L), "
        f'token = "{token}", folder = "{HERE}", framework = "{framework}")\n'
    )
    with open(program) as stdin:
        return subprocess.Popen(
            ["Rscript", "--vanilla", str(HERE / script)],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "RETICULATE_PYTHON": sys.executable},
            text=True,
        )


def train(script, workers, framework, folder):
    """Train on all workers, which end with one model; return its accuracy."""
    token = secrets.token_hex(32)
    started = [start(script, rank, workers, framework, token, folder) for rank in range(workers)]
    try:
        outputs = [worker.communicate(timeout=ranks.DEADLINE) for worker in started]
    finally:
        for worker in started:
            worker.kill()
    codes = [worker.returncode for worker in started]
    assert codes == [0] * workers, "\n".join(error[-3000:] for _, error in outputs)
    seen = [json.loads(output.splitlines()[-1]) for output, _ in outputs]
    assert [one["replicas"] for one in seen] == [workers] * workers
    assert seen[1:] == seen[:1] * (workers - 1)
    return seen[0]["accuracy"]


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("framework", [pytest.param("tensorflow", marks=pytest.mark.long), "torch"])
def test_the_talks_network(framework, tmp_path):
    assert train("talk.R", WORKERS, framework, tmp_path) >= digits.ACCURACY


def test_xgboost(tmp_path):
    assert train("boost.R", 2, "xgboost", tmp_path) >= digits.ACCURACY
