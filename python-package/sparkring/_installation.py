# SPDX-License-Identifier: Apache-2.0
"""Report the installation and test it; for ``python -m sparkring``."""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from typing import TYPE_CHECKING

import numpy as np

from sparkring import _core

if TYPE_CHECKING:
    from sparkring import Communicator

FRAMEWORKS = ("torch", "tensorflow", "keras", "jax", "xgboost", "lightgbm", "ray", "pandas")
HELPERS = ("numpy", "pyarrow", "cloudpickle", "fsspec", "tqdm")


def main(arguments: list[str] | None = None) -> int:
    """Print what is installed, run two ranks, and return the exit code: 1 if they fail."""
    parser = argparse.ArgumentParser(
        prog="python -m sparkring",
        description="Print what is installed here, and run two ranks as a test. The exit code is 1"
        " when the test fails.",
        epilog="python -m sparkring timeline makes one trace, or a picture, of the timelines that"
        " ranks have recorded: see python -m sparkring timeline --help.",
    )
    parser.add_argument("--version", action="version", version=f"sparkring {_core.version}")
    parser.parse_args(arguments)
    for name, text in describe():
        print(f"{name:<12} {text}", flush=True)
    text, code = check()
    print(f"{'self-test':<12} {text}")
    return code


def describe() -> Iterator[tuple[str, str]]:
    """Describe the installation, line by line."""
    yield "sparkring", f"{_core.version}, {build()}, in {os.path.dirname(_core.__file__)}"
    yield "Python", f"{platform.python_version()}, {sys.executable}"
    yield "OpenSSL", _core.openssl
    yield "Spark", spark()
    yield "Java", java()
    yield "packages", versions(HELPERS)
    yield "frameworks", versions(FRAMEWORKS)


def build() -> str:
    """Name the wheel's tag."""
    try:
        text = metadata.distribution("sparkring").read_text("WHEEL") or ""
    except metadata.PackageNotFoundError:
        text = ""
    found = re.search(r"^Tag: (.+)$", text, re.MULTILINE)
    return found[1] if found else f"not installed as a package, {platform.machine()}"


def spark() -> str:
    """Return the version of PySpark or of its client, and of a Spark beside it."""
    client = versions(("pyspark-client",))  # a package of its own from Spark 4 on
    version = client if client.startswith("pyspark") else versions(("pyspark",))
    home = os.environ.get("SPARK_HOME")
    return version + (f"; SPARK_HOME is {home}" if home else "")


def java() -> str:
    """Ask the Java that Spark would start for its version."""
    home = os.environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if program is None:
        return "none: no JAVA_HOME, and no java on the path"
    try:
        asked = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program}: {error}"
    found = re.search(r'version "(.+?)"', asked.stderr)
    return f"{found[1] if found else 'of unknown version'}, {program}"


def versions(names: tuple[str, ...]) -> str:
    """List the versions of packages, and the packages that are not installed."""
    found, missing = [], []
    for name in names:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    parts = [", ".join(found), f"not installed: {', '.join(missing)}" if missing else ""]
    return "; ".join(part for part in parts if part)


# ---- The test ------------------------------------------------------------------------------------


def check() -> tuple[str, int]:
    """Run two ranks; return the report and the exit code."""
    from sparkring.spark import run

    begin = time.monotonic()
    try:
        links = run(work, num_proc=-2, verbose=0, timeout=60)
    except Exception as error:
        return f"FAILED: {type(error).__name__}: {error}\n{error.__cause__ or ''}".rstrip(), 1
    took = time.monotonic() - begin
    return f"two ranks agree, over {links[0]}, after {took:.1f} s", 0


def work(comm: Communicator) -> str:
    """Run a rank of the test: send numbers and objects in a ring of two; return the link."""
    total = comm.allreduce(np.arange(100_000.0) + comm.rank)
    if not np.array_equal(total, 2 * np.arange(100_000.0) + 1):
        raise ArithmeticError("allreduce of two ranks gives a wrong sum")
    ranks = comm.allgather_object({"rank": comm.rank})
    if ranks != [{"rank": 0}, {"rank": 1}]:
        raise ArithmeticError(f"allgather_object of two ranks gives {ranks}")
    return str(comm.link(1 - comm.rank))
