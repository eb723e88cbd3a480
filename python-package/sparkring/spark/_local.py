# SPDX-License-Identifier: Apache-2.0
"""An attempt as processes of this machine, without Spark, under ``sparkring-run``.

The launcher draws the token, prints the output of the ranks, ends all ranks when one fails, and
leaves no process behind. Function and results go through a directory that only this user can read,
and that no end of the driver leaves behind.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sparkring._core import blame_weight
from sparkring._launch.child_process import end_with_parent
from sparkring._launch.executable import EXECUTABLE
from sparkring._launch.temporary_folder import temporary_folder
from sparkring.spark import _exit_barrier as exit_barrier
from sparkring.spark import _task_main as task_main
from sparkring.spark._log_forwarder import KEPT
from sparkring.spark._log_server import check_report
from sparkring.spark._rank_result import RankResult, advise, rank_error
from sparkring.spark._replacement import Replacement

if TYPE_CHECKING:
    from sparkring import Communicator
    from sparkring.spark._rank_result import RankError
    from sparkring.spark._task_main import Attempt

GRACE, LINGER = 10.0, 1.0  # seconds of the launcher, as in core/launch/supervisor.h
POLL = 0.005  # seconds between two checks for a file
LOST = blame_weight(["PEER_LOST"])
RANK = "import sys; from sparkring.spark import _local; sys.exit(_local.main(sys.argv[1]))"
REPORT = "\x1esparkring "  # prefix of a report of progress in the output


class LocalJob:
    """Runs each attempt as processes of this machine.

    Parameters
    ----------
    num_proc : int
        The number of ranks.
    show : callable
        Called with a rank and a line of its output.
    progress : callable
        Called with a rank, a step, the number of steps or None, and a dictionary of numbers.
    """

    def __init__(
        self,
        num_proc: int,
        show: Callable[[int, str], None],
        progress: Callable[[int, float, float | None, dict[str, float]], None],
    ) -> None:
        self.num_proc, self.show, self.progress = num_proc, show, progress
        self.last: dict[int, deque[str]] = {}
        self.launcher_line: re.Match[str] | None = (
            None  # the launcher's line about the first failed rank
        )

    def run(self, attempt: Attempt) -> list[RankResult] | RankError:
        """Run all ranks once. Return an error when a rank ended without a result."""
        self.last = {number: deque(maxlen=KEPT) for number in range(self.num_proc)}
        self.launcher_line = None
        with temporary_folder() as directory:
            (directory / "attempt").write_bytes(pickle.dumps(attempt))
            self.launch(directory)
            rank_results = [self.read(path) for path in sorted(directory.glob("result-*"))]
        failures = [
            rank_result.failure for rank_result in rank_results if rank_result.failure is not None
        ]
        missing = set(range(self.num_proc)) - {rank_result.rank for rank_result in rank_results}
        killed = self.launcher_line and int(self.launcher_line[1]) in missing
        if any(failure.weight < LOST for failure in failures) or not missing:
            return rank_results
        if self.launcher_line and killed:
            return self.lost(int(self.launcher_line[1]), self.launcher_line[2], attempt)
        if failures and len(missing) > 1:
            return rank_results
        return self.lost(min(missing), "ended without a result, with exit code 0", attempt)

    def read(self, path: Path) -> RankResult:
        """Read the result of a rank, and add the last lines of its output."""
        rank_result: RankResult = pickle.loads(path.read_bytes())
        return replace(rank_result, log=tuple(self.last[rank_result.rank]))

    def lost(self, number: int, what: str, attempt: Attempt) -> RankError:
        """Make the error of a rank that ended without a result."""
        return rank_error(
            advise(what, here=True),
            rank=number,
            host=socket.gethostname(),
            attempt=attempt.number,
            log=self.last[number],
        )

    def launch(self, directory: Path) -> None:
        """Start the launcher, and wait until it ends."""
        this = [sys.executable, "-c", RANK, str(directory)]
        process = subprocess.Popen(
            [EXECUTABLE, "run", "-n", str(self.num_proc), "--", *this],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=functools.partial(end_with_parent, signal.SIGTERM),
        )
        try:
            assert process.stdout is not None
            with process.stdout as lines:
                for line in lines:
                    self.take(line.decode(errors="replace").rstrip("\n"))
        finally:
            end(process)

    def take(self, line: str) -> None:
        """Handle a line of the launcher, or of a rank."""
        match = re.match(r"\[(\d+)\] (.*)", line)
        if match is None:
            self.launcher_line = self.launcher_line or re.match(
                r"sparkring-run: rank (\d+) (.*?)(; ending the others)?$", line
            )
            return
        number, (text, mark, report) = int(match[1]), match[2].partition(REPORT)
        if mark:
            with contextlib.suppress(ValueError):
                self.progress(number, *check_report(json.loads(report)))
        if text or not mark:
            self.last[number].append(text)
            self.show(number, text)


def end(process: subprocess.Popen[bytes]) -> None:
    """End the launcher, which ends the ranks."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        if process.poll() is None:
            process.wait(LINGER)
    if process.poll() is None:
        process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE + LINGER)
    process.kill()
    process.wait()


# ---- In a process of a rank ----------------------------------------------------------------------


class LauncherPrinter:
    """Prints lines and reports of progress to the launcher, which forwards them."""

    def report(self, step: float, total: float | None, metrics: dict[str, float]) -> None:
        """Print a report, in one piece."""
        sys.stdout.flush()
        os.write(1, f"{REPORT}{json.dumps([step, total, metrics])}\n".encode())

    def log(self, text: str) -> None:
        """Write nothing: the error of the rank has the text."""


class FileBarrier:
    """The exit barrier of the ranks of this machine: files in a directory."""

    def __init__(self, path: Path, rank: int, size: int) -> None:
        self.path, self.rank, self.size = path, rank, size
        self.write("process", str(os.getpid()).encode())

    def write(self, name: str, data: bytes) -> None:
        """Write a file of this rank atomically, for the other ranks."""
        path = self.path / f"{name}-{self.rank:06}"
        path.with_name(f"new-{path.name}").write_bytes(data)
        path.with_name(f"new-{path.name}").rename(path)

    def connect_all(self, _: Communicator) -> None:
        """Prepare nothing."""

    def wait_for_all(self, rank_result: RankResult) -> None:
        """Write the result of this rank, and wait for the results of the other ranks."""
        self.write("result", pickle.dumps(rank_result))
        deadline = time.monotonic() + exit_barrier.GRACE if rank_result.failure else math.inf
        while not all((self.path / f"result-{other:06}").exists() for other in range(self.size)):
            if time.monotonic() > deadline or self.gone():
                raise exit_barrier.RankFailed
            time.sleep(POLL)

    def gone(self) -> bool:
        """Return whether a rank has ended without a result."""
        for other in range(self.size):
            process = self.path / f"process-{other:06}"
            if process.exists() and not alive(int(process.read_text())):
                return not (self.path / f"result-{other:06}").exists()
        return False


def alive(process: int) -> bool:
    """Return whether a process of this user still runs."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def main(name: str) -> int:
    """Run a rank; the return value is the exit code."""
    directory = Path(name)
    number, size = int(os.environ["SPARKRING_RANK"]), int(os.environ["SPARKRING_SIZE"])
    attempt = pickle.loads((directory / "attempt").read_bytes())
    files = FileBarrier(directory, number, size)
    try:
        work = functools.partial(
            task_main.play, attempt, number, files, LauncherPrinter(), None, None
        )
        if attempt.replacements is None:
            rank_result = work()
        else:
            rank_result = task_main.run_rank(
                work, Replacement(), attempt.replacements, number, attempt
            )
        files.wait_for_all(rank_result)
    except exit_barrier.RankFailed:
        return 1
    return 1 if rank_result.failure else 0
