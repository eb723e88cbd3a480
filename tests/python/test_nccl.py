# SPDX-License-Identifier: Apache-2.0
"""The unique id of NCCL, of a library that stands in for it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest
import sparkring
from ranks import open_comm, run

STUB = Path(__file__).parents[1] / "core" / "libraries" / "nccl.c"


@pytest.fixture
def library(tmp_path):
    path = tmp_path / "libnccl.so.2"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    subprocess.run([*compiler, "-shared", "-fPIC", "-o", path, STUB], check=True)
    return path


def ask(library):
    with open_comm() as comm:
        ids = [comm.nccl_id(library), comm.nccl_id(os.fspath(library))]
        comm.barrier()
    return ids, ctypes.CDLL(library).stub_calls()


def test_all_get_what_rank_0_has_asked_for(library):
    ids = [bytes((i * 7 + call) % 256 for i in range(128)) for call in (1, 2)]
    assert run(3, ask, library) == [(ids, 2), (ids, 0), (ids, 0)]


def fail(library):
    with open_comm() as comm:
        with pytest.raises(sparkring.UnsupportedError) as caught:
            comm.nccl_id(library)
        comm.barrier()
        with pytest.raises((TypeError, sparkring.InvalidError), match=r"3|int"):
            comm.nccl_id(3 if comm.rank == 1 else library)
        comm.barrier()
    return str(caught.value), caught.value.rank


def test_why_there_is_none(tmp_path):
    results = run(2, fail, tmp_path / "none.so")
    assert results[0] == results[1]
    assert results[0][1] == 0
    assert results[0][0].startswith("rank 0 (127.0.0.1) has no unique id of NCCL: ")
    assert str(tmp_path / "none.so") in results[0][0]


def find(folder):
    """Find it as the wheel installs it: in a namespace package on the path."""
    import sys

    sys.path.insert(0, str(folder))
    with open_comm() as comm:
        return comm.nccl_id()


def test_the_wheel_is_looked_at_first(library):
    folder = library.parent / "nvidia" / "nccl" / "lib"
    folder.mkdir(parents=True)
    library.rename(folder / library.name)
    assert run(2, find, library.parent) == [bytes((i * 7 + 1) % 256 for i in range(128))] * 2
