# SPDX-License-Identifier: Apache-2.0
"""The extension module: the binding in src/ and the core as the one file core/core.c.

From CPython 3.11 on the limited API has the buffer protocol, so one wheel (cp311-abi3) serves all
later versions; 3.9, 3.10 and free-threaded builds get a wheel of their own.
"""

import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from glob import glob
from pathlib import Path

from setuptools import Extension, setup

LIMITED_API = (
    sys.version_info >= (3, 11)
    and platform.python_implementation() == "CPython"
    and not sysconfig.get_config_var("Py_GIL_DISABLED")
)


def version() -> str:
    """Read the version of the core, which is that of the package."""
    header = Path("core/sparkring.h").read_text(encoding="utf-8")
    return re.search(r'#define RING_VERSION "(.+)"', header).group(1)


def crypto(what: str, default: "list[str]") -> "list[str]":
    """Ask pkg-config, where there is one, how to build with OpenSSL's libraries."""
    if shutil.which("pkg-config") is None:
        return default
    asked = subprocess.run(
        ["pkg-config", what, "libssl", "libcrypto"], capture_output=True, text=True, check=False
    )
    return asked.stdout.split() if asked.returncode == 0 else default


setup(
    version=version(),
    ext_modules=[
        Extension(
            "sparkring._core",
            sources=[*sorted(glob("src/*.c")), "core/core.c"],
            depends=glob("src/*.h") + glob("core/**/*.[ch]", recursive=True),
            include_dirs=["core"],
            define_macros=[
                ("RING_API", ""),
                ("_GNU_SOURCE", None),
                *([("Py_LIMITED_API", "0x030B0000")] if LIMITED_API else []),
            ],
            extra_compile_args=[
                "-std=c11",
                "-fvisibility=hidden",
                "-pthread",
                *crypto("--cflags", []),
            ],
            extra_link_args=["-pthread", *crypto("--libs", ["-lssl", "-lcrypto"])],
            py_limited_api=LIMITED_API,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED_API else {},
)
