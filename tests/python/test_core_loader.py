# SPDX-License-Identifier: Apache-2.0
"""A library of the process has functions with the names of OpenSSL's, as TensorFlow does."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Each function of OpenSSL that the module calls first, but one that fails.
OTHER = """
const char *OpenSSL_version(int type) { return type ? "" : "BoringSSL"; }
void *TLS_method(void) { return 0; }
"""
RING = """
import ctypes, sys
ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
import sparkring
with sparkring.init() as comm:
    print(comm.allreduce(1))
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    folder = tmp_path_factory.mktemp("other")
    (folder / "other.c").write_text(OTHER)
    command = ["cc", "-shared", "-fPIC", "-o", folder / "libother.so", folder / "other.c"]
    subprocess.run(command, check=True)
    return str(folder / "libother.so")


def run(other, preload):
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    if preload:
        environment["LD_PRELOAD"] = preload
    command = [sys.executable, "-c", RING, other]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_finds_openssl_past_another_library(other):
    job = run(other, None)
    assert (job.stdout, job.stderr) == ("1\n", "")


def test_reports_a_preloaded_library_that_comes_first(other):
    job = run(other, other)
    assert job.returncode == 1
    assert "the functions of BoringSSL in the place of OpenSSL's" in job.stderr
