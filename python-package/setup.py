# SPDX-License-Identifier: Apache-2.0
"""The extension module: the binding in src/ and the core as the one file core/core.c.

From CPython 3.11 on the limited API has the buffer protocol, so one wheel (cp311-abi3) serves all
later versions; 3.9, 3.10 and free-threaded builds get a wheel of their own.

OpenSSL is linked as an archive where it is installed as one. TensorFlow exports the functions of
BoringSSL. They have the names of OpenSSL's, and took the place of those of a shared library that
was loaded later. OPENSSL_LIBS="-lssl -lcrypto" links the shared library.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from glob import glob
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import LinkError

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


def crypto_libraries() -> "list[list[str]]":
    """Return the ways to link OpenSSL, the best one first."""
    if "OPENSSL_LIBS" in os.environ:
        return [os.environ["OPENSSL_LIBS"].split()]
    shared = crypto("--libs", ["-lssl", "-lcrypto"])
    archives = ["-Wl,--exclude-libs,ALL", "-Wl,-Bstatic", *shared, "-Wl,-Bdynamic", "-ldl"]
    return [archives, shared]


class BuildExt(build_ext):
    """Links OpenSSL in the first way that works."""

    def build_extension(self, ext: Extension) -> None:
        """Build the module."""
        *better, last = crypto_libraries()
        common = ext.extra_link_args
        for libraries in better:
            ext.extra_link_args = [*common, *libraries]
            try:
                return super().build_extension(ext)
            except LinkError:
                print("OpenSSL is not installed as an archive: linking the shared library")
        ext.extra_link_args = [*common, *last]
        return super().build_extension(ext)


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
            extra_link_args=["-pthread"],
            py_limited_api=LIMITED_API,
        )
    ],
    cmdclass={"build_ext": BuildExt},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED_API else {},
)
