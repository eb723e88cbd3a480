# SPDX-License-Identifier: Apache-2.0
"""The sdist and the wheel, built in isolation from the checkout and used in a clean environment."""

from __future__ import annotations

import json
import os
import re
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
LIMITED_API = not sysconfig.get_config_var("Py_GIL_DISABLED")

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
    for name in ("core", "numerics", "python-package"):
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
        "numerics/*.[ch]",
        "python-package/src/**/*.[ch]",
        "python-package/sparkring/**/*.py*",
    ):
        for path in ROOT.glob(pattern):
            assert str(path.relative_to(ROOT)).replace("python-package/", "") in names
    assert {"LICENSE", "README.md", "setup.py", "pyproject.toml", "sparkring/py.typed"} <= names


def test_wheel(wheel):
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tag = "cp39-abi3" if LIMITED_API else f"{version}-{version}"
    assert wheel.name.startswith(f"sparkring-{sparkring.__version__}-{tag}-")
    names = zipfile.ZipFile(wheel).namelist()
    assert "sparkring/py.typed" in names
    sources = (ROOT / "python-package").glob("sparkring/**/*.py*")
    wanted = {str(path.relative_to(ROOT / "python-package")) for path in sources}
    assert {name for name in wanted if not name.endswith(".pyc")} <= set(names)
    assert sum(name.endswith(".so") for name in names) == 2
    assert not [name for name in names if name.endswith((".c", ".h"))]
    assert "sparkring/sparkring-launch" in names
    pmix = shutil.which("pkg-config") and not subprocess.call(["pkg-config", "pmix >= 4"])
    assert ("sparkring/sparkring-pmix" in names) == bool(pmix)


def test_sbom(wheel):
    """It names the OpenSSL of this system, which the wheel links as a shared library."""
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if ".dist-info/sboms/" in name]
    bom = json.loads(archive.read(name))
    assert (bom["bomFormat"], bom["metadata"]["component"]["version"]) == (
        "CycloneDX",
        sparkring.__version__,
    )
    parts = {part["name"]: part for part in bom["components"]}
    linked = shell(sys.executable, "-m", "sparkring")
    assert f"OpenSSL {parts['openssl']['version']} " in linked
    assert parts["openssl"]["description"].startswith("A shared library of the system")


def test_links_the_shared_openssl(wheel, tmp_path):
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if re.search(r"/_core\..*so$", name)]
    assert "libcrypto.so" in shell("ldd", archive.extract(name, tmp_path))


NO_HEADER = """#!/bin/sh
for file; do
  case $file in *.c) if grep -q "#include <$WITHOUT" "$file"; then exit 1; fi ;; esac
done
exec cc "$@"
"""


@pytest.mark.parametrize(
    ("without", "error"),
    [
        ("Python.h", "error: sparkring needs the headers of Python 3."),
        ("openssl", "error: sparkring needs the development files of OpenSSL, 1.1.1 or later: "),
        (None, "error: sparkring needs a C compiler that works: install gcc, or "),
    ],
)
def test_one_sentence_names_what_is_missing(dist, tmp_path, without, error):
    compiler = tmp_path / "compiler"
    if without is not None:
        compiler.write_text(NO_HEADER)
        compiler.chmod(0o755)
    job = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", tmp_path],
        cwd=dist.parent / "python-package",
        env={**os.environ, "CC": str(compiler), "WITHOUT": str(without)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert job.returncode != 0
    assert [line[: len(error)] for line in (job.stdout + job.stderr).splitlines()] == [error]


@pytest.mark.parametrize(("platform", "name"), [("darwin", "macOS"), ("win32", "Windows")])
def test_one_sentence_refuses_another_system(dist, platform, name):
    lie = (
        "import platform, runpy, sys; sys.argv = ['setup.py', 'build_ext'];"
        "import setuptools.command.bdist_wheel, setuptools.command.build_ext;"
        f"sys.platform = '{platform}'; runpy.run_path('setup.py', run_name='__main__')"
    )
    job = subprocess.run(
        [sys.executable, "-c", lie],
        cwd=dist.parent / "python-package",
        capture_output=True,
        text=True,
        check=False,
    )
    assert job.returncode == 1
    (line,) = job.stderr.splitlines()
    assert line.startswith(f"sparkring runs on Linux only, and this is {name}: ")


def test_exported_symbols(wheel, tmp_path):
    if shutil.which("nm") is None:
        pytest.skip("nm (binutils) is missing")
    archive = zipfile.ZipFile(wheel)
    for name in archive.namelist():
        if name.endswith(".so"):
            library = archive.extract(name, tmp_path)
            exported = shell("nm", "-D", "--defined-only", library).split()
            assert exported[2::3] == [f"PyInit_{Path(name).name.partition('.')[0]}"]


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
    output = shell(*run, cwd=tmp_path)
    assert sorted(output.splitlines()) == [f"[{rank}] True [3.0, 3.0, 3.0] True" for rank in (0, 1)]
