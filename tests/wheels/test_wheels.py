# SPDX-License-Identifier: Apache-2.0
"""The wheels in dist/, after scripts/wheels: what their tag promises, what they bring and need."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import sparkring

ROOT = Path(__file__).parents[2]
GLIBC = (2, 17)
SYSTEM = re.compile(r"(libc\.so\.6|libpthread\.so\.0|libdl\.so\.2|ld-linux-[a-z0-9-]+\.so\.[12])")

RING = """
import numpy as np, sparkring
print(sparkring.__file__)
with sparkring.init(encryption=True, shared_memory=False) as comm:
    assert comm.encrypted and comm.link(1 - comm.rank) == "tls"
    assert comm.allreduce(np.ones(1000)).sum() == 2000
"""

pytestmark = pytest.mark.timeout(120)


def shell(*command, **options):
    job = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert job.returncode == 0, job.stdout + job.stderr
    return job.stdout


@pytest.fixture(scope="module", params=["x86_64", "aarch64"])
def wheel(request):
    (path,) = (ROOT / "dist").glob(f"sparkring-*_{request.param}.whl")
    return path


@pytest.fixture(scope="module")
def library(wheel, tmp_path_factory):
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract("sparkring/_core.abi3.so", tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Install the wheel of this machine into a folder, and give the environment to use it in."""
    folder = tmp_path_factory.mktemp("installed")
    (path,) = (ROOT / "dist").glob(f"sparkring-*_{platform.machine()}.whl")
    shell(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, path)
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_tag(wheel):
    architecture = "aarch64" if "aarch64" in wheel.name else "x86_64"
    tag = f"cp311-abi3-manylinux2014_{architecture}.manylinux_2_17_{architecture}"
    assert wheel.name == f"sparkring-{sparkring.__version__}-{tag}.whl"


def test_licences(wheel):
    names = {name.rpartition("/")[2] for name in zipfile.ZipFile(wheel).namelist()}
    assert {"LICENSE", "LICENSE.OpenSSL"} <= names


def test_needs_the_c_library_alone(library):
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", shell("readelf", "--dynamic", "--wide", library))
    assert needed
    assert [name for name in needed if not SYSTEM.fullmatch(name)] == []


def test_needs_no_newer_c_library(library):
    versions = re.findall(
        r"GLIBC_(\d+)\.(\d+)", shell("readelf", "--version-info", "--wide", library)
    )
    assert versions
    assert max((int(major), int(minor)) for major, minor in versions) <= GLIBC


def test_exports_one_symbol(library):
    """No function of its OpenSSL is taken for that of another one in the process."""
    symbols = shell("readelf", "--dyn-syms", "--wide", library).splitlines()
    defined = [
        line.split()[-1] for line in symbols if re.search(r"(GLOBAL|WEAK) DEFAULT +\d", line)
    ]
    assert defined == ["PyInit__core"]


def test_is_stripped(library):
    sections = shell("readelf", "--sections", "--wide", library)
    assert ".dynsym" in sections
    assert ".symtab" not in sections
    assert ".debug_" not in sections
    assert library.stat().st_size < 4 << 20


def test_tells_nothing_of_where_it_was_made(library):
    assert str(ROOT).encode() not in library.read_bytes()


def test_works(installed):
    lines = dict(
        line.split(None, 1)
        for line in shell(sys.executable, "-m", "sparkring", env=installed).splitlines()
    )
    assert installed["PYTHONPATH"] in lines["sparkring"]
    assert re.match(r"OpenSSL 3\.\d", lines["OpenSSL"])
    assert lines["self-test"].startswith("two ranks agree, over ")


def test_encrypts(installed):
    """Its OpenSSL has what TLS takes."""
    launcher = (sys.executable, "-m", "sparkring._launch.launcher")
    shown = shell(*launcher, "-n", "2", sys.executable, "-c", RING, env=installed)
    assert shown.count(installed["PYTHONPATH"]) == 2
