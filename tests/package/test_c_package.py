# SPDX-License-Identifier: Apache-2.0
"""What cmake --install installs: programs find it and run on it, wherever it stands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build/gcc"  # scripts/sections/core has built it
HEADERS = {path.name for path in (ROOT / "core").glob("*.h")}
SUM = "[0] the sum of 2 ranks is 3\n"


def shell(*command, **variables):
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    job = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert job.returncode == 0, job.stdout + job.stderr
    return job.stdout


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def run_sum(program, **variables):
    return shell("sparkring-run", "-n", "2", program, **variables)


def sum_by_pkg_config(prefix, folder):
    """Compile the example with the flags of pkg-config, and run it on two ranks."""
    flags = shell(
        "pkg-config", "--cflags", "--libs", "sparkring", PKG_CONFIG_PATH=prefix / "lib/pkgconfig"
    )
    program = folder / "sum"
    shell("gcc", ROOT / "examples/c/sum.c", "-o", program, *flags.split())
    return run_sum(program, LD_LIBRARY_PATH=prefix / "lib")


def sum_by_find_package(prefix, folder):
    """Build the example with its CMakeLists.txt, and run it on two ranks."""
    source = ROOT / "examples/c"
    shell("cmake", "-S", source, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}")
    shell("cmake", "--build", folder)
    return run_sum(folder / "sum")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Install the shared library below DESTDIR, as packagers do, and move it."""
    folder = tmp_path_factory.mktemp("shared")
    shell("cmake", "--install", BUILD, DESTDIR=folder / "staged")
    (folder / "staged/usr/local").rename(folder / "moved")
    return folder / "moved"


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Install two archives, from sources without tests that lie in two folders."""
    prefixes = []
    for name in ("one", "another one"):
        folder = tmp_path_factory.mktemp("archive") / name
        for part in ("core", "cmake"):
            shutil.copytree(ROOT / part, folder / part)
        for part in ("CMakeLists.txt", "LICENSE"):
            shutil.copy(ROOT / part, folder / part)
        options = ("-DBUILD_SHARED_LIBS=OFF", "-DSPARKRING_PMIX=OFF", "-DCMAKE_BUILD_TYPE=Debug")
        shell("cmake", "-S", folder, "-B", folder / f"build {name}", *options)
        shell("cmake", "--build", folder / f"build {name}")
        prefixes.append(folder / "installed")
        shell("cmake", "--install", folder / f"build {name}", "--prefix", prefixes[-1])
    return prefixes


def test_headers_library_license_and_configuration_are_installed(shared):
    found = files(shared)
    assert {f"include/{name}" for name in HEADERS} <= set(found)
    assert "bin/sparkring-pmix" in found
    assert "share/doc/sparkring/LICENSE" in found
    assert "lib/pkgconfig/sparkring.pc" in found
    assert "lib/cmake/sparkring/sparkringConfigVersion.cmake" in found
    assert not [name for name in found if "test" in name]


def test_the_shared_library_names_its_interface(shared):
    library = shared / "lib/libsparkring.so"
    version = re.search(
        r'RING_VERSION "((\d+\.\d+).*)"', (shared / "include/sparkring.h").read_text()
    )
    assert os.readlink(library) == f"libsparkring.so.{version[2]}"
    assert library.resolve().name == f"libsparkring.so.{version[1]}"
    assert f"soname: [libsparkring.so.{version[2]}]" in shell("readelf", "-dW", library)
    exported = [
        line.split()[-1] for line in shell("nm", "-D", "--defined-only", library).splitlines()
    ]
    node = f"SPARKRING_{version[2]}"
    functions = [name for name in exported if name != node]
    assert "ring_allreduce@@" + node in functions
    assert [name for name in functions if not re.fullmatch(f"ring_[a-z_]+@@{node}", name)] == []


def test_no_installed_file_names_the_folders_it_comes_from(shared, archives):
    for path in [path for prefix in (shared, *archives) for path in prefix.rglob("*")]:
        if path.is_file():
            content = path.read_bytes()
            assert os.fsencode(ROOT) not in content, path
            assert os.fsencode(archives[0].parents[1].parent) not in content, path


def test_the_guide_shows_the_example():
    program = (ROOT / "examples/c/sum.c").read_text().split("*/\n", 1)[1]
    assert program in (ROOT / "docs/guides/c.md").read_text()


def test_two_builds_have_the_same_bytes(archives):
    one, other = archives
    assert "lib/libsparkring.a" in files(one)
    assert files(one) == files(other)
    for name in files(one):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def test_a_program_runs_on_the_shared_library(shared, tmp_path):
    assert sum_by_pkg_config(shared, tmp_path) == SUM
    assert sum_by_find_package(shared, tmp_path / "cmake") == SUM


def test_a_program_runs_on_the_archive(archives, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(archives[0], moved)
    assert sum_by_pkg_config(moved, tmp_path) == SUM
    assert sum_by_find_package(moved, tmp_path / "cmake") == SUM


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("-DCMAKE_SYSTEM_NAME=Darwin", "sparkring runs on Linux only, and this is Darwin: "),
        ("-DCMAKE_SYSTEM_NAME=Windows", "sparkring runs on Linux only, and this is Windows: "),
        ("-DCMAKE_DISABLE_FIND_PACKAGE_OpenSSL=ON", "sparkring needs OpenSSL 1.1.1 or later "),
    ],
)
def test_one_sentence_names_what_is_missing(option, sentence, tmp_path):
    command = ["cmake", "-S", ROOT, "-B", tmp_path, option]
    job = subprocess.run(command, capture_output=True, text=True, check=False)
    assert job.returncode == 1
    assert job.stderr.count("CMake Error") == 1
    assert sentence in " ".join(job.stderr.split())
