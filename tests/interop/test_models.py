# SPDX-License-Identifier: Apache-2.0
"""R ranks and Python ranks give the same models of the same rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sparkring import models
from test_interop import DEADLINE, pytestmark  # noqa: F401

LAUNCHER = [sys.executable, "-m", "sparkring._launch.launcher", "-n", "2"]
HERE = Path(__file__).parent
NAMES = ["a", "b", "count", "weight", "offset"]


def python_rank(comm, rows):
    """Fit on a rank, to other rows than the R rank of this number."""
    part = rows[comm.rank * 100 : comm.rank * 100 + 100]
    x, count, weight, offset = part[:, :2], part[:, 2], part[:, 3], part[:, 4]
    fit = models.GeneralizedLinearModel(comm=comm, family="poisson")
    fit.fit(x, count, weight, offset=offset)
    return {
        "coefficients": [fit.intercept_, *fit.coef_],
        "errors": fit.standard_errors_,
        "numbers": [fit.deviance_, fit.null_deviance_, fit.aic_],
        "quantiles": models.quantile(x[:, 0], [0, 0.25, 0.5, 0.75, 1], comm=comm),
    }


def test_models_are_the_same(tmp_path):
    from sparkring.spark import run

    random = np.random.default_rng(5)
    x = random.normal(size=(200, 2))
    offset = random.uniform(size=200)
    count = random.poisson(np.exp(x @ [0.3, -0.2] + offset))
    rows = np.column_stack([x, count, random.integers(1, 4, 200), offset])
    np.savetxt(
        tmp_path / "rows.csv", rows, "%.17g", delimiter=",", header=",".join(NAMES), comments=""
    )
    job = subprocess.run(
        [*LAUNCHER, "Rscript", HERE / "models.R", tmp_path / "rows.csv"],
        timeout=DEADLINE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert job.returncode == 0, job.stdout + job.stderr
    lines = [line.split() for line in job.stdout.splitlines() if line.startswith("[0] ")]
    in_r = {name: [float(number) for number in numbers] for _, name, *numbers in lines}
    for found in run(python_rank, args=(rows,), num_proc=-2, verbose=0):
        assert found.keys() == in_r.keys()
        for name, numbers in found.items():
            assert numbers == pytest.approx(in_r[name], rel=1e-10), name
