# SPDX-License-Identifier: Apache-2.0
"""The extension modules: `_core` and `_numerics`.

`_core` is the binding in src/ and the core as the one file core/core.c. `_numerics` is the binding
in src/numerics/ and the numerics as the one file numerics/numerics.c.

The modules use the limited API (src/python_api.h), so one wheel (cp39-abi3) serves CPython 3.9 and
all later versions. Free-threaded builds get a wheel of their own.

OpenSSL is linked as the shared library of the system. SPARKRING_OPENSSL=static links its archives
into the module instead, and OPENSSL_LIBS="-L/opt/ssl/lib -lssl -lcrypto" names other libraries. The
wheel's SBOM (PEP 770) names the OpenSSL that it was built with, and what the toolchain adds to the
module, as SPARKRING_TOOLCHAIN="glibc@2.17:LGPL-2.1-or-later" lists it.

The package has the executable sparkring-launch, which sparkring-run becomes and mpi_run starts.
Where pkg-config finds PMIx, it also has the executable sparkring-pmix, which the core starts to
serve programs of Open MPI. SPARKRING_PMIX=0 leaves it out.
"""

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from glob import glob
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

if sys.platform != "linux":
    system = {"darwin": "macOS", "win32": "Windows"}.get(sys.platform, sys.platform)
    sys.exit(
        f"sparkring runs on Linux only, and this is {system}: install it"
        " on the machines of the Spark cluster, or here in a Linux container or WSL 2."
    )

LIMITED_API = platform.python_implementation() == "CPython" and not sysconfig.get_config_var(
    "Py_GIL_DISABLED"
)
LIMITED = [("Py_LIMITED_API", "0x03090000")] if LIMITED_API else []


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


STATIC = os.environ.get("SPARKRING_OPENSSL") == "static"


def crypto_libraries() -> "list[str]":
    """Return the options that link OpenSSL."""
    if "OPENSSL_LIBS" in os.environ:
        return os.environ["OPENSSL_LIBS"].split()
    libraries = crypto("--libs", ["-lssl", "-lcrypto"])
    if not STATIC:
        return libraries
    return ["-Wl,--exclude-libs,ALL", "-Wl,-Bstatic", *libraries, "-Wl,-Bdynamic", "-ldl"]


OPENSSL_PROBE = """
#include <openssl/opensslv.h>
#include <openssl/ssl.h>
#if OPENSSL_VERSION_NUMBER < 0x10101000L
#error "OpenSSL is older than 1.1.1"
#endif
SSL_CTX *probe(void);
SSL_CTX *probe(void) { return SSL_CTX_new(TLS_method()); }
"""
OPENSSL_NEEDED = (
    "sparkring needs the development files of OpenSSL, 1.1.1 or later: install libssl-dev (Debian,"
    " Ubuntu) or openssl-devel (Fedora, RHEL), or say where they are: CFLAGS=-I/opt/ssl/include"
    ' OPENSSL_LIBS="-L/opt/ssl/lib -lssl -lcrypto".'
)
PROBES = [  # how to compile what, and the error if that fails
    (
        "-c",
        "int probe;",
        "sparkring needs a C compiler that works: install gcc, or set CC to another compiler.",
    ),
    (
        "-c",
        "#include <Python.h>",
        f"sparkring needs the headers of Python {platform.python_version()}: install python3-dev"
        " (Debian, Ubuntu) or python3-devel (Fedora, RHEL) of this version.",
    ),
    (
        "-shared",
        OPENSSL_PROBE,
        "SPARKRING_OPENSSL=static needs libssl.a and libcrypto.a, which the linker does not find."
        if STATIC
        else OPENSSL_NEEDED,
    ),
]


LAUNCH = "sparkring.sparkring-launch"
PMIX = "sparkring.sparkring-pmix"
EXECUTABLES = (LAUNCH, PMIX)  # which are no Python modules


def launch() -> Extension:
    """Return the executable that starts ranks and programs."""
    return Extension(
        LAUNCH,
        sources=["core/launch.c", "core/launch/main.c"],
        depends=["core/sparkring.h", *glob("core/launch/*.[ch]")],
        include_dirs=["core"],
        define_macros=[("_GNU_SOURCE", None), ("RING_API", "")],
        extra_compile_args=["-std=c11"],
    )


def pmix() -> "list[Extension]":
    """Return the executable that serves PMIx; none without PMIx."""
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
    """Says what is missing before it builds, and links executables as such."""

    openssl = ""  # version, once it is known

    def build_extensions(self) -> None:
        """Build all, if the compiler accepts the probes."""
        for how, source, error in PROBES:
            if self.compiled(how, source) is None:
                raise CompileError(error)
        text = self.compiled("-E", "#include <openssl/opensslv.h>\nOPENSSL_VERSION_TEXT")
        self.openssl = re.search(rb'"\w+ ([\w.-]+)[^"]*"\s*$', text).group(1).decode()
        super().build_extensions()

    def compiled(self, how: str, source: str) -> "bytes | None":
        """Return what the compiler makes of a source; None if it fails."""
        command = [*self.compiler.compiler_so, how, *(f"-I{path}" for path in self.include_dirs)]
        libraries = []
        if how == "-shared":
            libraries = [*shlex.split(os.environ.get("LDFLAGS", "")), *crypto_libraries()]
        with tempfile.TemporaryDirectory() as folder:
            file, output = Path(folder, "probe.c"), Path(folder, "probe.out")
            file.write_text(source, encoding="utf-8")
            command += [*crypto("--cflags", []), str(file), "-o", str(output), *libraries]
            try:
                subprocess.run(command, capture_output=True, check=True)
            except (OSError, subprocess.CalledProcessError):
                return None
            return output.read_bytes()

    def get_ext_filename(self, fullname: str) -> str:
        """Return the path of what is built."""
        if any(name in (fullname, f"sparkring.{fullname}") for name in EXECUTABLES):
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
        if ext.name in EXECUTABLES:
            return self.build_executable(ext)
        return super().build_extension(ext)


SHARED = "A shared library of the system, not contained in this wheel"
CONTAINED = "Contained in sparkring._core"


def component(name: str, version: str, how: str, license_id: str) -> "dict[str, object]":
    """Describe a library for an SBOM."""
    return {
        "type": "library",
        "bom-ref": name,
        "name": name,
        "version": version,
        "description": how,
        "licenses": [{"license": {"id": license_id}}],
        "purl": f"pkg:generic/{name}@{version}",
    }


def linked(openssl: str) -> "list[dict[str, object]]":
    """Describe the libraries that the wheel links."""
    terms = "OpenSSL" if openssl.startswith("1.") else "Apache-2.0"
    parts = [component("openssl", openssl, CONTAINED if STATIC else SHARED, terms)]
    parts[0]["cpe"] = f"cpe:2.3:a:openssl:openssl:{openssl}:*:*:*:*:*:*:*"
    for part in os.environ.get("SPARKRING_TOOLCHAIN", "").split():
        name, release, terms = re.split("[@:]", part)
        parts.append(component(name, release, CONTAINED, terms))
    if pmix():
        found = ask_pkg_config("--modversion", "pmix")[0]
        parts.append(component("pmix", found, SHARED, "BSD-3-Clause"))
    return parts


def sbom(openssl: str) -> "dict[str, object]":
    """Return what the wheel links, in the format CycloneDX."""
    parts = linked(openssl)
    about = "The wheel that contains this file"
    package = {
        **component("sparkring", version(), about, "Apache-2.0"),
        "purl": f"pkg:pypi/sparkring@{version()}",
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": package},
        "components": parts,
        "dependencies": [{"ref": "sparkring", "dependsOn": [part["bom-ref"] for part in parts]}],
    }


class BdistWheel(bdist_wheel):
    """Puts an SBOM into the wheel."""

    def write_wheelfile(self, wheelfile_base: str, *arguments: str) -> None:
        """Write the SBOM beside the file WHEEL."""
        super().write_wheelfile(wheelfile_base, *arguments)
        folder = Path(wheelfile_base, "sboms")
        folder.mkdir(exist_ok=True)
        text = json.dumps(sbom(self.get_finalized_command("build_ext").openssl), indent=2)
        (folder / "sparkring.cdx.json").write_text(text + "\n", encoding="utf-8")


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
                *LIMITED,
            ],
            extra_compile_args=[
                "-std=c11",
                "-fvisibility=hidden",
                "-pthread",
                *crypto("--cflags", []),
            ],
            extra_link_args=["-pthread", *crypto_libraries()],
            py_limited_api=LIMITED_API,
        ),
        Extension(
            "sparkring._numerics",
            sources=[*sorted(glob("src/numerics/*.c")), "numerics/numerics.c"],
            depends=glob("src/numerics/*.h") + glob("numerics/*.[ch]"),
            include_dirs=["numerics"],
            define_macros=LIMITED,
            extra_compile_args=[
                "-std=c11",
                "-fvisibility=hidden",
                "-ffp-contract=off",  # the same bits on processors that could fuse operations
            ],
            py_limited_api=LIMITED_API,
        ),
        launch(),
        *pmix(),
    ],
    cmdclass={"build_ext": BuildExt, "bdist_wheel": BdistWheel},
    options={"bdist_wheel": {"py_limited_api": "cp39"}} if LIMITED_API else {},
)
