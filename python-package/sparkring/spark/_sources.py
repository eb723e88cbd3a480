# SPDX-License-Identifier: Apache-2.0
"""Code that only the driver has, for the ranks: modules that are not installed, and notebook cells.

cloudpickle sends the definitions of `__main__`, but only the names of modules. Modules beside the
script, in a notebook's directory or on a path of the user are sent as files. On a rank the modules
lie in a directory in front of ``sys.path``. So classes keep their names in both directions, imports
inside functions work, and processes that a rank starts find the modules, too. Installed packages
are never sent.

Tracebacks show lines of code from files. A cell of a notebook is in no file: its lines are sent.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import functools
import importlib
import importlib.util
import io
import linecache
import os
import shutil
import sys
import sysconfig
import tempfile
import types
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from sparkring._run_state import spark_local_directory

_directory: Path | None = None  # of the modules, in a rank and in its parent

LARGEST = 8 << 20  # bytes of all modules together
COMPILED = (".so", ".pyd")
NEVER = {"__main__", "sparkring", "pyspark", "py4j", "cloudpickle"}


@dataclass
class Notes:
    """The modules and the code that a pickle names."""

    modules: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)  # of code that the pickle holds

    def take(self, value: Any) -> None:
        """Note a value that is being pickled."""
        if isinstance(value, types.CodeType):
            self.files.add(value.co_filename)
            self.modules.update(
                step.argval for step in dis.get_instructions(value) if step.opname == "IMPORT_NAME"
            )
        elif isinstance(value, types.ModuleType):
            self.modules.add(value.__name__)
        elif isinstance(value, (type, types.FunctionType)):
            self.modules.add(str(value.__module__))


@dataclass(frozen=True)
class Sources:
    """The sources that are sent beside a pickle.

    Attributes
    ----------
    archive : bytes or None
        A zip file of modules; None for a process of this machine, which has the modules.
    left_out : dict
        Modules that are neither installed nor sent, with the reason.
    lines : dict
        Source text by the file name in the code.
    """

    archive: bytes | None = field(default=b"", repr=False)
    left_out: dict[str, str] = field(default_factory=dict, repr=False)
    lines: dict[str, str] = field(default_factory=dict, repr=False)

    @contextlib.contextmanager
    def directory(self) -> Iterator[None]:
        """Make a directory for the modules of a rank, which is a child of this process.

        The rank does not remove the directory, because the rank may be killed. Where this process
        is killed, too, Spark removes the directory with the directories of the application.
        """
        global _directory
        if not self.archive:
            yield
            return
        directory = Path(tempfile.mkdtemp(prefix="sparkring-", dir=spark_local_directory()))
        _directory = directory
        try:
            yield
        finally:
            shutil.rmtree(directory, ignore_errors=True)
            _directory = None

    def install(self) -> None:
        """Install modules and lines in this process, a rank."""
        for name, text in self.lines.items():
            if not os.path.exists(name):
                rows = text.splitlines(keepends=True)
                linecache.cache[name] = (len(text), None, rows, name)
        if self.archive and _directory is not None:
            with zipfile.ZipFile(io.BytesIO(self.archive)) as archive:
                archive.extractall(_directory)
            sys.path.insert(0, str(_directory))
            importlib.invalidate_caches()

    def advise(self, error: BaseException) -> None:
        """Add to the error of a missing module how the module gets to the executors."""
        if self.archive is None or not isinstance(error, ModuleNotFoundError) or not error.name:
            return
        name = error.name.partition(".")[0]
        why = self.left_out.get(name, "")
        why = why and f" (it is not sent: {why})"
        error.msg = (
            f"{error.msg}: the Python of the executors has no {error.name}{why}. Install it there,"
            f' or send it first with spark.sparkContext.addPyFile("{name}.py"), or .zip for a'
            " package (in Spark Connect spark.addArtifacts(..., pyfile=True))"
        )
        error.args = (error.msg,)


def sent(name: str) -> Path | None:
    """Find a received file of this rank, at the top of the archive."""
    path = None if _directory is None else _directory / name
    return path if path and path.is_file() else None


# ---- On the driver -------------------------------------------------------------------------------


def collect(notes: Notes, script: Path | None = None) -> Sources:
    """Collect the sources that the ranks need beside a pickle, or to run a script.

    Parameters
    ----------
    notes : Notes
        The modules and the code that the pickle names.
    script : pathlib.Path, optional
        A script; modules are looked for in its directory first.
    """
    packing = _Packing(script)
    packing.add(notes.modules)
    texts = {name: text for name in notes.files if (text := _text(name))}
    return Sources(packing.finish(), packing.left_out, texts)


def _text(name: str) -> str:
    """Find the source of code by its file name, which may name no file."""
    lines = linecache.getlines(name)
    if not lines:  # Python 3.13 files input at its prompt under the code
        entries = [
            *linecache.cache.values(),
            *getattr(linecache, "_interactive_cache", {}).values(),
        ]
        lines = next((e[2] for e in entries if len(e) == 4 and e[3] == name), [])
    return "".join(lines)


class _Packing:
    """Packs modules that are not installed, and their imports, into an archive."""

    def __init__(self, script: Path | None) -> None:
        self.first = [] if script is None else [str(script.parent)]
        self.left_out: dict[str, str] = {}
        self.files: dict[str, Path] = {}
        self.size = 0
        self.seen = set(NEVER) | set(getattr(sys, "stdlib_module_names", ()))
        if script is not None:
            self.pack(script.stem, {script.name: script})

    def add(self, modules: Iterable[str]) -> None:
        """Add modules by name, where they are not installed."""
        for name in {module.partition(".")[0] for module in modules} - self.seen:
            self.seen.add(name)
            spec = _spec(name, self.first)
            files = {} if spec is None else _files(name, spec)
            if any(inside.endswith(COMPILED) for inside in files):
                self.left_out[name] = "it has compiled modules"
            else:
                self.pack(name, files)

    def pack(self, name: str, files: dict[str, Path]) -> None:
        """Add the files of a module, and of its imports, to the archive."""
        self.size += (size := sum(path.stat().st_size for path in files.values()))
        if self.size > LARGEST:
            self.size -= size
            self.left_out[name] = f"modules take more than {LARGEST >> 20} MiB"
            return
        self.files.update(files)
        for path in files.values():
            if path.suffix == ".py":
                self.add(_imports(path, path.stat().st_mtime_ns))

    def finish(self) -> bytes:
        """Make the archive."""
        if not self.files:
            return b""
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
            for inside, path in sorted(self.files.items()):
                archive.writestr(inside, path.read_bytes())
        return data.getvalue()


def _spec(name: str, first: list[str]) -> ModuleSpec | None:
    """Find a module without importing it."""
    with contextlib.suppress(ImportError, ValueError, AttributeError):
        found = PathFinder.find_spec(name, first) if first else None
        return found or importlib.util.find_spec(name)
    return None


def _files(name: str, spec: ModuleSpec) -> dict[str, Path]:
    """List the files of a module that is not installed, by their names in the archive."""
    if spec.submodule_search_locations is None:
        path = Path(spec.origin) if spec.has_location and spec.origin else None
        if path is None or path.suffix != ".py" or _is_installed(path) or not path.is_file():
            return {}
        return {f"{name}.py": path}
    files = {}
    for place in map(Path, spec.submodule_search_locations):
        if _is_installed(place) or not place.is_dir():
            continue
        for path in _walk(place):
            if spec.origin or path.suffix == ".py":  # a directory that is no package may have data
                files[f"{name}/{path.relative_to(place).as_posix()}"] = path
    return files


def _walk(directory: Path) -> Iterator[Path]:
    """List files, except hidden and compiled files; stop at too many bytes."""
    size = 0
    for place, inner, names in os.walk(directory):
        inner[:] = [name for name in inner if name != "__pycache__" and name[0] != "."]
        for path in (Path(place, name) for name in names if name[0] != "."):
            if path.suffix == ".pyc" or not path.is_file():
                continue
            size += path.stat().st_size + 512
            yield path
            if size > LARGEST * 2:
                return


@functools.lru_cache(maxsize=4096)
def _imports(path: Path, _changed: int) -> frozenset[str]:
    """List the imports of a file."""
    names: set[str] = set()
    with contextlib.suppress(SyntaxError, ValueError, OSError):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
    return frozenset(name.partition(".")[0] for name in names)


@functools.lru_cache(maxsize=1)
def _installations() -> tuple[str, ...]:
    """List the directories of installed packages: Python's own, and Spark's."""
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    paths.append(os.environ.get("SPARK_HOME", ""))
    return tuple(os.path.realpath(path) + os.sep for path in paths if path)


def _is_installed(path: Path) -> bool:
    """Return whether a file or directory belongs to an installed package."""
    real = Path(os.path.realpath(path))
    if {"site-packages", "dist-packages"} & {*path.parts, *real.parts}:
        return True
    return f"{real}{os.sep}".startswith(_installations())
