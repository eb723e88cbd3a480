# SPDX-License-Identifier: Apache-2.0
"""Shared fixtures, and sanitizers, whose reports name the test."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _name_reports(request, monkeypatch):
    """Put the sanitizer's reports on processes of this test into files with its name."""
    options = os.environ.get("ASAN_OPTIONS", "")
    path = re.search(r"log_path=([^:]*)", options)
    if path:
        name = re.sub(r"\W+", "_", request.node.name)[:80]
        monkeypatch.setenv("ASAN_OPTIONS", f"{options}:log_path={path[1]}.{name}")


@pytest.fixture(scope="session")
def gpu_stubs(tmp_path_factory):
    """Compile the stand-ins for CUDA and NCCL: a folder for LD_LIBRARY_PATH."""
    import gpu_stub

    return gpu_stub.build(tmp_path_factory.mktemp("gpu"))


@pytest.fixture
def comm():
    """Open a communicator of one rank."""
    import sparkring

    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        yield comm


@pytest.fixture
def table(tmp_path):
    """Write a table of Parquet files."""
    import parquet_files

    return parquet_files.write(tmp_path / "table", parquet_files.COUNTS)


@pytest.fixture
def log_server():
    """Listen for what ranks print."""
    import log_ranks
    from sparkring.spark._log_server import LogServer

    shown = []
    server = LogServer("127.0.0.1", 4, lambda *line: shown.append(line), log_ranks.report)
    server.shown_lines = shown
    yield server
    server.close()
    assert not any(thread.is_alive() for thread in server.threads.values())


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Compile the program with Debian's MPICH and Open MPI."""
    paths = {}
    for name in ("mpich", "openmpi"):
        paths[name] = str(tmp_path_factory.mktemp(name) / "mpi_program")
        subprocess.run(
            [f"mpicc.{name}", Path(__file__).with_name("mpi_program.c"), "-o", paths[name]],
            check=True,
        )
    return paths


@pytest.fixture(params=["mpich", "openmpi"])
def program(request, programs):
    return programs[request.param]
