# SPDX-License-Identifier: Apache-2.0
"""The network of the 2020 talk, trained from R through reticulate by three workers (talk.R)."""

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


def start(rank, framework, token, folder):
    """Start a worker; it gets the barrier as sparklyr hands it to a closure."""
    addresses = ", ".join(['"127.0.0.1:4040"'] * WORKERS)
    told = folder / f"{rank}.R"
    told.write_text(
        f"list(barrier = list(address = list({addresses}), partition = {rank}L), "
        f'token = "{token}", folder = "{HERE}", framework = "{framework}")\n'
    )
    with open(told) as stdin:
        return subprocess.Popen(
            ["Rscript", "--vanilla", str(HERE / "talk.R")],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "RETICULATE_PYTHON": sys.executable},
            text=True,
        )


@pytest.mark.parametrize("framework", ["tensorflow", "torch"])
def test_the_talks_network(framework, tmp_path):
    token = secrets.token_hex(32)
    workers = [start(rank, framework, token, tmp_path) for rank in range(WORKERS)]
    try:
        said = [worker.communicate(timeout=ranks.DEADLINE) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert [worker.returncode for worker in workers] == [0] * WORKERS, said
    seen = [json.loads(output.splitlines()[-1]) for output, _ in said]
    assert [one["replicas"] for one in seen] == [WORKERS] * WORKERS
    assert seen[0]["accuracy"] >= digits.ACCURACY
    assert seen[1:] == seen[:1] * (WORKERS - 1)
