# SPDX-License-Identifier: Apache-2.0
"""``python -m sparkring``: what is installed, and a test of two ranks."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata

import numpy
import pytest
import sparkring
from sparkring import _installation as installation


def fail(comm):
    raise ArithmeticError("out of paper")


def test_what_is_installed():
    job = subprocess.run(
        [sys.executable, "-m", "sparkring"], capture_output=True, text=True, check=False
    )
    assert job.returncode == 0, job.stdout + job.stderr
    lines = dict(line.split(None, 1) for line in job.stdout.splitlines())
    assert lines["sparkring"].startswith(f"{sparkring.__version__}, ")
    assert platform.machine() in lines["sparkring"]
    assert lines["Python"].startswith(platform.python_version())
    assert lines["Spark"].startswith(f"pyspark {metadata.version('pyspark')}")
    assert f"numpy {numpy.__version__}" in lines["packages"]
    assert lines["OpenSSL"].startswith("OpenSSL ")
    assert {"Java", "frameworks"} <= set(lines)
    assert lines["self-test"].startswith("two ranks agree, over ")


def test_ranks_that_fail(monkeypatch, capsys):
    monkeypatch.setattr(installation, "work", fail)
    assert installation.main([]) == 1
    shown = capsys.readouterr().out
    assert "self-test    FAILED: ArithmeticError: out of paper\nrank " in shown


@pytest.mark.parametrize("module", ["sparkring", "sparkring._launch.launcher"])
def test_version(module):
    command = [sys.executable, "-m", module, "--version"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown == f"sparkring {sparkring.__version__}\n"
