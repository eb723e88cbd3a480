# SPDX-License-Identifier: Apache-2.0
"""Runs a function of a test module on every rank of a job, each in a process of its own.

The ranks are started by sparkring-run, forked from a zygote with what they import (zygote.py). What
the function returns or raises comes back as a pickle; a rank that dies without one fails the test
with everything that the job has printed.
"""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import sparkring
import standin
import zygote

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

HERE = Path(__file__).parent
DEADLINE = 180  # seconds for a job
STRETCH = 1 + int(os.getloadavg()[0] / os.cpu_count() / 2)  # for a machine that is busy
LIMIT = 3 * STRETCH  # seconds until a failure is known everywhere: one, and what sanitizers need
IMPORTED = ("numpy", "sparkring")  # by the zygote, where a test file has no IMPORTED of its own
LAUNCHER = [sys.executable, "-m", "sparkring._launch.launcher"]


class Outcome(NamedTuple):
    value: Any
    error: BaseException | None


def open_comm(**options: Any) -> sparkring.Communicator:
    """Open the communicator of a rank, with deadlines that suit a test."""
    return sparkring.init(**{"timeout": 30, "call_timeout": 20, **options})


def wait_for(path: Path) -> None:
    """Wait until another process has made this file."""
    while not path.exists():
        time.sleep(0.001)


def launch(size: int, *command: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a command with sparkring-run."""
    options = {"timeout": DEADLINE, "capture_output": True, "check": False, **options}
    return subprocess.run([*LAUNCHER, "-n", str(size), *command], **options)


def outcomes(size: int, function: Callable[..., Any], *arguments: Any) -> list[Outcome]:
    """Run function(*arguments) on every rank, and return what each has returned or raised."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        work = (function.__module__, function.__name__, arguments)
        (folder / "work").write_bytes(pickle.dumps(work))
        code, output = run_ranks(size, folder, sys.modules[function.__module__])
        assert code == 0, output
        print(output)  # pytest shows it when the test fails
        return [read_outcome(folder / str(rank)) for rank in range(size)]


def run_ranks(size: int, folder: Path, test: ModuleType) -> tuple[int, str]:
    """Run main(folder) on every rank; return the exit code of the job and its output."""
    if "LD_PRELOAD" not in os.environ:
        modules = getattr(test, "IMPORTED", IMPORTED)
        return zygote.zygote_of(modules).launch(size, folder, DEADLINE)
    # A sanitizer finds leaks in a process that was executed: a fork leaves locks of Python behind.
    job = launch(size, sys.executable, str(HERE / "ranks.py"), str(folder))
    return job.returncode, (job.stdout + job.stderr).decode(errors="replace")


def read_outcome(path: Path) -> Outcome:
    """Read what a rank has left; one may have ended with os._exit."""
    if path.exists():
        return pickle.loads(path.read_bytes())
    return Outcome(None, EOFError("the rank has left no outcome"))


def run(size: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Run function(*arguments) on every rank and return what each returns; none may raise."""
    ended = outcomes(size, function, *arguments)
    errors = [outcome.error for outcome in ended if outcome.error is not None]
    causes = [error for error in errors if not isinstance(error, sparkring.AbortedError)]
    for error in causes + errors:
        raise error
    return [outcome.value for outcome in ended]


def main(folder: Path) -> None:
    """Be a rank."""
    sys.modules["pytest"] = standin
    module, name, arguments = pickle.loads((folder / "work").read_bytes())
    function = getattr(importlib.import_module(module), name)
    del sys.modules["pytest"]  # what the function imports may ask for the real one
    try:
        outcome = Outcome(function(*arguments), None)
    except BaseException as error:
        traceback.print_exc()
        outcome = Outcome(None, error)
    (folder / os.environ["SPARKRING_RANK"]).write_bytes(pickle.dumps(outcome))


if __name__ == "__main__":
    import ranks  # so that the classes in the pickles are those of the module, not of __main__

    ranks.main(Path(sys.argv[1]))
