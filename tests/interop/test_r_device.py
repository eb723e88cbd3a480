# SPDX-License-Identifier: Apache-2.0
"""Arrays on GPUs from R, by reticulate, over the stubs of CUDA and NCCL (gpu_stub.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from test_interop import DEADLINE, HERE, r_is_ready

PYTHON_TESTS = Path(__file__).parents[1] / "python"

pytestmark = pytest.mark.skipif(not r_is_ready(), reason="R or its package sparkring is missing")


@pytest.fixture(scope="session")
def stubs(tmp_path_factory):
    sys.path.insert(0, str(PYTHON_TESTS))
    import gpu_stub

    return gpu_stub.build(tmp_path_factory.mktemp("gpu"))


@pytest.mark.parametrize("path", ["nccl", "host"])
def test_collectives_from_r(path, stubs, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(stubs))
    monkeypatch.setenv("CUDA_STUB_GPUS", "2")
    monkeypatch.setenv("RETICULATE_PYTHON", sys.executable)
    launcher = [sys.executable, "-m", "sparkring._launch.launcher", "-n", "2"]
    job = subprocess.run(
        [*launcher, "Rscript", HERE / "device.R", PYTHON_TESTS, path],
        timeout=DEADLINE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert job.returncode == 0, job.stdout + job.stderr
    lines = job.stdout.splitlines()
    for rank in range(2):
        assert [line[4:].strip() for line in lines if line.startswith(f"[{rank}] ")] == [
            "refused TRUE",
            f"path {path} gpu {rank}",
            "class sparkring._device.array.DeviceArray",
            "sum 3 6 9 12 15 18",
            "shape 2 2 3",
            "again TRUE",
            "of R 2",
        ]
