# SPDX-License-Identifier: Apache-2.0
"""The extension module: the binding in src/ and the core as the one file core/core.c.

From CPython 3.11 on the limited API has the buffer protocol, so one wheel (cp311-abi3) serves all
later versions; 3.9, 3.10 and free-threaded builds get a wheel of their own.

OpenSSL is linked as an archive where it is installed as one. TensorFlow exports the functions of
BoringSSL. They have the names of OpenSSL's, and took the place of those of a shared library that
was loaded later. OPENSSL_LIBS="-lssl -lcrypto" links the shared library.

Where pkg-config finds PMIx, the package also has the executable sparkring-pmix, which the core
starts to serve programs of Open MPI. SPARKRING_PMIX=0 leaves it out.
"""

import os
import platform
import re
import shlex
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


def ask_pkg_config(*arguments: str) -> "list[str] | None":
    """Ask pkg-config, where there is one, how to build with libraries; None: it does not know."""
    if shutil.which("pkg-config") is None:
        return None
    asked = subprocess.run(["pkg-config", *arguments], capture_output=True, text=True, check=False)
    return asked.stdout.split() if asked.returncode == 0 else None


def crypto(what: str, default: "list[str]") -> "list[str]":
    """Find how to build with OpenSSL's libraries."""
    answer = ask_pkg_config(what, "libssl", "libcrypto")
    return default if answer is None else answer


def crypto_libraries() -> "list[list[str]]":
    """Return the ways to link OpenSSL, the best one first."""
    if "OPENSSL_LIBS" in os.environ:
        return [os.environ["OPENSSL_LIBS"].split()]
    shared = crypto("--libs", ["-lssl", "-lcrypto"])
    archives = ["-Wl,--exclude-libs,ALL", "-Wl,-Bstatic", *shared, "-Wl,-Bdynamic", "-ldl"]
    return [archives, shared]


PMIX = "sparkring.sparkring-pmix"


def pmix() -> "list[Extension]":
    """Return the executable that serves PMIx, which is no Python module; none without PMIx."""
    flags, libraries = (
        ask_pkg_config("--cflags", "pmix >= 4"),
        ask_pkg_config("--libs", "pmix >= 4"),
    )
    if flags is None or libraries is None or os.environ.get("SPARKRING_PMIX") == "0":
        return []
    return [
        Extension(
            PMIX,
            sources=["core/pmix.c"],
            depends=[*glob("core/pmix/*.[ch]"), *glob("core/pmi/pmix_*.[ch]")],
            include_dirs=["core"],
            define_macros=[("_GNU_SOURCE", None)],
            extra_compile_args=["-std=c11", "-pthread", *flags],
            extra_link_args=["-pthread", *libraries],
        )
    ]


class BuildExt(build_ext):
    """Links OpenSSL in the first way that works, and an executable as one."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return the path of what is built."""
        if fullname in (PMIX, PMIX.split(".")[-1]):
            return os.path.join(*fullname.split("."))
        return super().get_ext_filename(fullname)

    def build_executable(self, ext: Extension) -> None:
        """Compile and link an executable."""
        folder, name = os.path.split(self.get_ext_fullpath(ext.name))
        objects = self.compiler.compile(
            ext.sources,
            output_dir=self.build_temp,
            macros=ext.define_macros,
            include_dirs=ext.include_dirs,
            extra_postargs=ext.extra_compile_args,
            depends=ext.depends,
        )
        flags = shlex.split(os.environ.get("LDFLAGS", ""))  # setuptools gives them to modules only
        self.compiler.link_executable(
            objects, name, output_dir=folder, extra_postargs=[*flags, *ext.extra_link_args]
        )

    def build_extension(self, ext: Extension) -> None:
        """Build the module, or the executable."""
        if ext.name == PMIX:
            return self.build_executable(ext)
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
        ),
        *pmix(),
    ],
    cmdclass={"build_ext": BuildExt},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED_API else {},
)
