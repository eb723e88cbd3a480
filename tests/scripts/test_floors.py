# SPDX-License-Identifier: Apache-2.0
"""scripts/floors finds arrows that point up, and circles; this tree has neither."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEFINES = "ring_status ring_{0}(int rank) {{\n  return RING_OK;\n}}\n"


def check(*arguments: "str | Path") -> "tuple[int, str]":
    """Run the check of a language in a folder, or all checks of this tree."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "floors", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
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
    assert check("core", core) == (0, "floors of core: 3 units, 2 arrows, all point down\n")


def test_an_include_that_points_up_fails(core):
    append(core / "base/error.h", '#include "peers/peers.h"\n')
    status, text = check("core", core)
    assert status == 1
    assert "base/error uses peers/peers, which stands on a higher floor" in text


def test_a_call_that_points_up_fails_without_an_include(core):
    append(core / "base/error.c", "static int up(int rank) {\n  return ring_peers(rank);\n}\n")
    assert "base/error uses peers/peers" in check("core", core)[1]


def test_a_circle_in_a_folder_fails(core):
    append(core / "base/error.c", "static int round(int rank) {\n  return ring_wait(rank);\n}\n")
    assert check("core", core) == (1, "a circle: base/error, base/wait\n")


def test_this_tree_has_floors():
    status, text = check()
    assert status == 0, text


# ---- Faults planted in a copy of the packages


@pytest.fixture
def python(tmp_path):
    found = tmp_path / "sparkring"
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "python-package" / "sparkring", found, ignore=ignored)
    return found


@pytest.mark.parametrize(
    ("module", "text", "fault"),
    [
        (
            "_agree",
            "from sparkring.spark import run",
            "_agree uses spark, which stands on a higher",
        ),
        ("_agree", "import sparkring.models._glm", "_agree uses models._glm, which stands on a"),
        (
            "_agree",
            "def f():\n    from sparkring import data",
            "_agree uses data, which stands on a",
        ),
        (
            "data/_store",
            "import sparkring._installation",
            "_installation, which stands on the same",
        ),
        (
            "data/_store",
            "if True:\n    from sparkring import models",
            "data._store uses models, which",
        ),
        (
            "models/_checks",
            "from sparkring.models import _glm",
            "a circle: models._checks, models._glm",
        ),
    ],
)
def test_an_import_that_points_up_fails(python, module, text, fault):
    append(python / f"{module}.py", text + "\n")
    status, found = check("python", python)
    assert status == 1
    assert fault in found


@pytest.mark.parametrize(
    "text",
    [
        "if TYPE_CHECKING:\n    from sparkring.spark import run",
        "from sparkring import _core",
        "text = 'import sparkring.spark'  # import sparkring.spark",
    ],
)
def test_types_texts_and_lower_floors_pass(python, text):
    append(python / "_agree.py", text + "\n")
    assert check("python", python)[0] == 0


@pytest.fixture
def r(tmp_path):
    shutil.copytree(ROOT / "r-package" / "R", tmp_path / "R")
    return tmp_path / "R"


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("base-check", "f <- function(x) ring_glm(x)", "base-check uses glm, which stands on a"),
        ("base-check", "f <- function(x) lapply(x, ring_allreduce)", "base-check uses collective"),
        ("spark-sync", "f <- function() glm_session ()", "spark-sync uses glm-tests, which"),
        ("reducer", "f <- function(x) codec_pack(x)", "reducer uses object-codec, which stands on"),
    ],
)
def test_a_call_of_r_that_points_up_fails(r, file, text, fault):
    append(r / f"{file}.R", text + "\n")
    status, found = check("r", r)
    assert status == 1
    assert fault in found


@pytest.mark.parametrize(
    "text", ["# ring_glm(x)", "f <- 'ring_glm(x)'", "f <- c(ring_glm = 1)", "f <- x$ring_glm(1)"]
)
def test_comments_texts_and_names_of_r_pass(r, text):
    append(r / "base-check.R", text + "\n")
    assert check("r", r)[0] == 0


@pytest.mark.parametrize(("language", "name"), [("python", "new.py"), ("r", "new.R")])
def test_a_file_without_a_floor_fails(language, name, python, r):
    folder = {"python": python, "r": r}[language]
    (folder / name).write_text("")
    assert check(language, folder) == (1, "new stands on no floor\n")


def test_a_name_of_r_that_two_files_define_fails(r):
    append(r / "base-check.R", "ring_glm <- function(x) x\n")
    assert check("r", r)[0] == 1
