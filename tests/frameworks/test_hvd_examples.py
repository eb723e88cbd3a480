# SPDX-License-Identifier: Apache-2.0
"""The example for Horovod's users, through the launcher, as they run it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import ranks

SCRIPT = Path(__file__).parents[2] / "examples" / "hvd_digits.py"


def test_digits():
    job = ranks.launch(2, sys.executable, str(SCRIPT))
    said = (job.stdout + job.stderr).decode()
    assert job.returncode == 0, said
    accuracies = [float(each) for each in re.findall(r"accuracy ([0-9.]+)%", said)]
    assert len(accuracies) == 10, said
    assert accuracies[-1] > 90, said
