# SPDX-License-Identifier: Apache-2.0
"""The wheels in dist/, after scripts/wheels: what their tag promises, what they bring and need."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import zipfile
from pathlib import Path

import pytest
import sparkring

ROOT = Path(__file__).parents[2]
GLIBC = (2, 17)
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
SYSTEM = re.compile(r"(libc\.so\.6|libpthread\.so\.0|libdl\.so\.2|ld-linux-[a-z0-9-]+\.so\.[12])")

RING = """
import numpy as np, sparkring
print(sparkring.__file__)
with sparkring.init(encryption=True, shared_memory=False) as comm:
    assert comm.encrypted and comm.link(1 - comm.rank) == "tls"
    assert comm.allreduce(np.ones(1000)).sum() == 2000
"""

SCHEMA = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
sys.exit(JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read()))
"""

pytestmark = pytest.mark.timeout(300)


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


@pytest.fixture(scope="module", params=["_core.abi3.so", "sparkring-launch"])
def binary(request, wheel, tmp_path_factory):
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(f"sparkring/{request.param}", tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="module", params=PYTHONS)
def installed(request, tmp_path_factory):
    """Install the wheel of this machine, and what it asks for, with a Python; give its programs."""
    find = f'source "{ROOT}/scripts/pythons" && find_version {request.param}'
    found = subprocess.run(["bash", "-c", find], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        pytest.skip(f"Python {request.param} is not on this machine")
    folder = tmp_path_factory.mktemp("installed")
    shell(found.stdout.strip(), "-m", "venv", folder)
    (path,) = (ROOT / "dist").glob(f"sparkring-*_{platform.machine()}.whl")
    shell(folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", path)
    shell(folder / "bin/pip", "check", "--disable-pip-version-check")
    return folder / "bin"


def imports(library):
    """List the symbols that the library asks of others."""
    symbols = shell("readelf", "--dyn-syms", "--wide", library).splitlines()
    wanted = [line for line in symbols if " UND " in line and "@" in line]
    return {line.split()[7].partition("@")[0] for line in wanted}


def test_tag(wheel):
    architecture = "aarch64" if "aarch64" in wheel.name else "x86_64"
    tag = f"cp39-abi3-manylinux2014_{architecture}.manylinux_2_17_{architecture}"
    assert wheel.name == f"sparkring-{sparkring.__version__}-{tag}.whl"


def test_licences(wheel):
    names = {name.rpartition("/")[2] for name in zipfile.ZipFile(wheel).namelist()}
    assert {"LICENSE", "LICENSE.OpenSSL", "LICENSE.zig", "LICENSE.glibc"} <= names


def test_needs_the_c_library_alone(binary):
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", shell("readelf", "--dynamic", "--wide", binary))
    assert needed
    assert [name for name in needed if not SYSTEM.fullmatch(name)] == []


def test_needs_no_newer_c_library(binary):
    versions = re.findall(
        r"GLIBC_(\d+)\.(\d+)", shell("readelf", "--version-info", "--wide", binary)
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


def test_is_stripped(binary):
    sections = shell("readelf", "--sections", "--wide", binary)
    assert ".dynsym" in sections
    assert ".symtab" not in sections
    assert ".debug_" not in sections
    assert binary.stat().st_size < 4 << 20


def test_shows_nothing_of_where_it_was_made(binary):
    data = binary.read_bytes()
    for path in (str(ROOT), ".venv", "../../", "/openssl/ssl/"):
        assert path.encode() not in data


def test_sbom(wheel, library):
    """It has what is in the library, and the schema of CycloneDX accepts it."""
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith(".cdx.json")]
    text = archive.read(name).decode()
    shell(ROOT / ".venv/wheels/bin/python", "-c", SCHEMA, input=text)
    parts = {part["name"]: part["version"] for part in json.loads(text)["components"]}
    data, wanted = library.read_bytes(), imports(library)
    contained = {"openssl"} if f"OpenSSL {parts['openssl']} ".encode() in data else set()
    if "__cxa_atexit" in wanted and "atexit" not in wanted:  # then the library has atexit
        contained.add("zig-glibc")
    if "memcpy" not in wanted:
        contained.add("zig-compiler-rt")
    assert set(parts) == contained
    for other in (b" deflate 1.", b" inflate 1.", b"libunwind", b"_Unwind_"):
        assert other not in data


def test_works(installed):
    lines = dict(
        line.split(None, 1) for line in shell(installed / "python", "-m", "sparkring").splitlines()
    )
    assert str(installed.parent) in lines["sparkring"]
    assert re.match(r"OpenSSL 3\.\d", lines["OpenSSL"])
    assert lines["self-test"].startswith("two ranks agree, over ")


def test_encrypts(installed):
    """Its OpenSSL has what TLS takes."""
    shown = shell(
        installed / "sparkring-run", "-n", "2", installed / "python", "-c", RING, cwd=installed
    )
    assert shown.count(str(installed.parent)) == 2
