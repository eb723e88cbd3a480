# SPDX-License-Identifier: Apache-2.0
"""The sdist and the wheel, built in isolation from the checkout and used in a clean environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
import sparkring

ROOT = Path(__file__).parents[2]
LIMITED_API = sys.version_info >= (3, 11) and not sysconfig.get_config_var("Py_GIL_DISABLED")

pytestmark = pytest.mark.timeout(300)


def shell(*command, **options):
    """Run a command that must succeed, and return what it prints."""
    job = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert job.returncode == 0, job.stdout + job.stderr
    return job.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """Build in a copy of the checkout, links and all, so that nothing is left in the tree."""
    folder = tmp_path_factory.mktemp("package")
    leftovers = shutil.ignore_patterns("build", "dist", "*.egg-info", "__pycache__", "*.so")
    for name in ("core", "python-package"):
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=leftovers)
    shutil.copy(ROOT / "LICENSE", folder)
    assert (folder / "python-package" / "core").is_symlink()
    quick = {**os.environ, "CFLAGS": "-O0"}  # half of this file's time is the compiler's
    command = [sys.executable, "-m", "build", "--outdir", folder / "dist"]
    shell(*command, folder / "python-package", env=quick)
    return folder / "dist"


@pytest.fixture(scope="module")
def sdist(dist):
    (path,) = dist.glob("*.tar.gz")
    return path


@pytest.fixture(scope="module")
def wheel(dist):
    (path,) = dist.glob("*.whl")
    return path


def test_sdist(sdist):
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    assert all(member.isfile() or member.isdir() for member in members)
    names = {member.name.partition("/")[2] for member in members}
    assert sdist.name == f"sparkring-{sparkring.__version__}.tar.gz"
    for pattern in (
        "core/*.[ch]",
        "python-package/src/*.[ch]",
        "python-package/sparkring/**/*.py*",
    ):
        for path in ROOT.glob(pattern):
            assert str(path.relative_to(ROOT)).replace("python-package/", "") in names
    assert {"LICENSE", "README.md", "setup.py", "pyproject.toml", "sparkring/py.typed"} <= names


def test_wheel(wheel):
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tag = "cp311-abi3" if LIMITED_API else f"{version}-{version}"
    assert wheel.name.startswith(f"sparkring-{sparkring.__version__}-{tag}-")
    names = zipfile.ZipFile(wheel).namelist()
    assert "sparkring/py.typed" in names
    sources = (ROOT / "python-package").glob("sparkring/**/*.py*")
    wanted = {str(path.relative_to(ROOT / "python-package")) for path in sources}
    assert {name for name in wanted if not name.endswith(".pyc")} <= set(names)
    assert sum(name.endswith(".so") for name in names) == 1
    assert not [name for name in names if name.endswith((".c", ".h"))]
    pmix = shutil.which("pkg-config") and not subprocess.call(["pkg-config", "pmix >= 4"])
    assert ("sparkring/sparkring-pmix" in names) == bool(pmix)


def test_exported_symbols(wheel, tmp_path):
    if shutil.which("nm") is None:
        pytest.skip("nm (binutils) is missing")
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith(".so")]
    library = archive.extract(name, tmp_path)
    exported = shell("nm", "-D", "--defined-only", library).split()
    assert exported[2::3] == ["PyInit__core"]


TRAIN = """
import numpy, sparkring, sys
with sparkring.init() as comm:
    total = comm.allreduce(numpy.full(3, comm.rank + 1.0))
    print(sparkring.__file__.startswith(sys.prefix), total.tolist(), comm.authenticated)
"""


def test_clean_environment(wheel, tmp_path):
    environment = tmp_path / "clean"
    shell(sys.executable, "-m", "venv", environment)
    programs = environment / "bin"
    shell(programs / "pip", "install", "--disable-pip-version-check", wheel)
    run = [programs / "sparkring-run", "-n", "2", programs / "python", "-I", "-c", TRAIN]
    said = shell(*run, cwd=tmp_path)
    assert sorted(said.splitlines()) == [f"[{rank}] True [3.0, 3.0, 3.0] True" for rank in (0, 1)]
