# SPDX-License-Identifier: Apache-2.0
"""scripts/floors finds an arrow that points up, and a circle; the core has neither."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEFINES = "ring_status ring_{0}(int rank) {{\n  return RING_OK;\n}}\n"


def check(core: Path) -> "tuple[int, str]":
    """Run the check of a folder."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "floors", core],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.fixture
def core(tmp_path):
    """Return a core of three units on two floors, all arrows of which point down."""
    files = {
        "base/error.c": '#include "base/error.h"\n' + DEFINES.format("error"),
        "base/error.h": "ring_status ring_error(int rank);\n",
        "base/wait.c": '#include "base/error.h"\n/* see peers/peers.h and ring_peers() */\n'
        + DEFINES.format("wait"),
        "base/wait.h": "ring_status ring_wait(int rank);\n",
        "peers/peers.c": '#include "base/wait.h"\n' + DEFINES.format("peers"),
        "peers/peers.h": "ring_status ring_peers(int rank);\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def test_arrows_that_point_down_pass(core):
    assert check(core) == (0, "floors: 3 units, 2 arrows, all point down\n")


def test_an_include_that_points_up_fails(core):
    append(core / "base/error.h", '#include "peers/peers.h"\n')
    status, text = check(core)
    assert status == 1
    assert "base/error uses peers/peers, which stands on a higher floor" in text


def test_a_call_that_points_up_fails_without_an_include(core):
    append(core / "base/error.c", "static int up(int rank) {\n  return ring_peers(rank);\n}\n")
    assert "base/error uses peers/peers" in check(core)[1]


def test_a_circle_in_a_folder_fails(core):
    append(core / "base/error.c", "static int round(int rank) {\n  return ring_wait(rank);\n}\n")
    assert check(core) == (1, "a circle: base/error, base/wait\n")


def test_the_core_has_floors():
    status, text = check(ROOT / "core")
    assert status == 0, text
