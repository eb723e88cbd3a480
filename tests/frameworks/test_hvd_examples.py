# SPDX-License-Identifier: Apache-2.0
"""The examples for Horovod's users, through the launcher, as they run them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import ranks

EXAMPLES = Path(__file__).parents[2] / "examples"


def accuracies(name, *arguments):
    """Run an example on two ranks, and return the accuracies that it prints."""
    job = ranks.launch(2, sys.executable, str(EXAMPLES / name), *arguments)
    output = (job.stdout + job.stderr).decode()
    assert job.returncode == 0, output
    return [float(each) for each in re.findall(r"accuracy ([0-9.]+)%", output)]


def test_digits():
    found = accuracies("hvd_digits.py")
    assert len(found) == 10
    assert found[-1] > 90


def test_keras_digits(monkeypatch):
    """TensorFlow, which has functions with the names of OpenSSL's, is loaded before sparkring."""
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    (found,) = accuracies("hvd_keras_digits.py")
    assert found > 90
