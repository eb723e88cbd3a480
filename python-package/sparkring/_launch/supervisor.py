# SPDX-License-Identifier: Apache-2.0
"""The supervisor of ``sparkring-run``: starts the ranks of a job, and ends all their descendants.

`launcher` describes the two processes of a job. Ranks end by themselves, after the first that
fails, or after a signal; ranks that ignore the request are killed `GRACE` seconds later.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import selectors
import signal
import subprocess
import time
import traceback
from typing import TYPE_CHECKING, NoReturn

from sparkring._launch.line_output import LineOutput, Lines, handle_ready, own_line
from sparkring._launch.process_tree import (
    ENDING,
    LINUX,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    children,
    control,
    describe,
    exit_code,
    kill_descendants,
    kill_group,
    passed_on,
    prepare_child,
    send,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    # Of the ranks in rank order. The token's file exists inside the ``with`` block.
    Environments = AbstractContextManager[Iterable[dict[str, str]]]

GRACE = 10.0  # seconds between asking the ranks to end and killing them
LINGER = 1.0  # seconds for processes that ranks leave behind, and for a paused reader
OWN_SIGNALS = {
    signal.SIGALRM,
    signal.SIGCHLD,
}  # unblocked here, even if the parent has blocked them
TICK = 0.25  # seconds until a signal is handled that arrived just before a wait


def supervise(
    command: list[str], environments: Environments, launcher: int, mask: set[int]
) -> NoReturn:
    """Run the supervisor: the child of the launcher, in a session of its own.

    Signals are blocked until all ranks have started; `mask` has the earlier signal mask.
    """
    code = 1
    try:
        os.setsid()
        control(PR_SET_CHILD_SUBREAPER, 1)
        code = Supervisor(launcher, mask).run(command, environments)
    except OSError as error:
        complain(f"cannot run the job: {error}")
    except BaseException:
        complain(f"this is a defect of sparkring\n{traceback.format_exc().rstrip()}")
    finally:
        os._exit(code)


def complain(text: str) -> None:
    """Print why there is no job, if any output is open."""
    with contextlib.suppress(OSError):
        os.write(2, own_line(text))


class Supervisor:
    """Starts the ranks, prints their output, and ends them.

    The handlers of signals do the work themselves, so that a paused reader of the output cannot
    delay the end of the ranks. After a signal to end the job, a paused reader cannot delay the job
    either: the handler of SIGALRM raises out of the blocked write. A clock sends SIGALRM
    periodically, because Python may miss a signal that arrives just before a system call blocks.
    """

    def __init__(self, launcher: int, mask: set[int]) -> None:
        self.launcher = launcher
        self.mask = mask
        self.ranks: dict[int, int] = {}  # rank by process, until it is reaped
        self.lines: list[Lines] = []
        self.selector = selectors.DefaultSelector()  # data: a callable; false at the end
        self.failure = 0  # the exit code of the first rank that failed
        self.ending = False
        self.deadline = math.inf  # of the ranks while they end; without ranks, of the reader
        self.end_requested = False  # a signal from outside has asked to end
        self.reaping = False  # in a signal handler, which must not raise
        # From the start of a write on, the handler of SIGCHLD reaps.
        self.output = LineOutput(self.reap, self.fail_output)

    def run(self, command: list[str], environments: Environments) -> int:
        """Run the job to its end; the return value is the exit code."""
        try:
            return self.work(command, environments)
        except BaseException:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # its handler may have failed
            self.kill()
            raise

    def work(self, command: list[str], environments: Environments) -> int:
        """Run the job; errors of the supervisor itself are raised."""
        self.watch_signals()
        with environments as each:
            self.start_all(command, each)
            signal.pthread_sigmask(signal.SIG_SETMASK, self.mask - OWN_SIGNALS)
            while self.ranks:
                self.step(None)
            self.sweep()
        for lines in self.lines:
            lines.drain()
        return self.failure

    def start_all(self, command: list[str], environments: Iterable[dict[str, str]]) -> None:
        """Start the ranks. When the command cannot be run, none is left."""
        try:
            for rank, environment in enumerate(environments):
                self.start(rank, command, environment)
        except (OSError, subprocess.SubprocessError) as error:
            self.failure = 127 if isinstance(error, FileNotFoundError) else 126
            reason = error.strerror if isinstance(error, OSError) else error
            self.output.report(f"cannot run {command[0]!r}: {reason}")
            self.kill()

    def start(self, rank: int, command: list[str], environment: dict[str, str]) -> None:
        """Start one rank, in a process group of its own. The rank dies with the supervisor."""
        supervisor = os.getpid()
        process = subprocess.Popen(
            command,
            bufsize=0,
            env=environment,
            stdin=None if rank == 0 else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: prepare_child(supervisor, self.mask),
        )
        process.returncode = 0  # only reap() waits
        self.ranks[process.pid] = rank
        for target, stream in ((1, process.stdout), (2, process.stderr)):
            assert stream is not None
            lines = Lines(stream, b"[%d] " % rank, functools.partial(self.output.write, target))
            self.lines.append(lines)
            self.selector.register(stream, selectors.EVENT_READ, lines.pump)

    # ---- Signals

    def watch_signals(self) -> None:
        """Forward signals, wake up for ended children, and detect the launcher's death."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        self.selector.register(reader, selectors.EVENT_READ, lambda: os.read(reader, 4096))
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: self.reap_meanwhile())
        signal.signal(signal.SIGALRM, lambda *_: self.tick())
        signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
        for number in passed_on():
            signal.signal(number, lambda number, _: self.handle(number))
        control(PR_SET_PDEATHSIG, signal.SIGALRM)
        if os.getppid() != self.launcher:
            os._exit(1)

    def handle(self, number: int) -> None:
        """Handle a signal from outside."""
        self.end_requested = self.end_requested or number in ENDING
        self.pass_on(number)
        self.limit_reader()

    def pass_on(self, number: int) -> None:
        """Send a signal to the process groups of all ranks. A signal to end starts the deadline."""
        if number in ENDING and not self.ending:
            self.ending = True
            self.deadline = time.monotonic() + GRACE
        for process in list(self.ranks):
            kill_group(process, number)

    def limit_reader(self) -> None:
        """Start the deadline of the reader, if only the reader delays an ending job."""
        if self.end_requested and not self.ranks:
            self.deadline = time.monotonic() + LINGER

    def tick(self) -> None:
        """Check whether the launcher has died, or the deadline is over."""
        over = time.monotonic() >= self.deadline
        if over:
            self.deadline = math.inf
        if over or os.getppid() != self.launcher:
            self.end_now()

    def end_now(self) -> None:
        """Kill the ranks. Without ranks, treat a paused reader as gone."""
        self.kill()
        if self.end_requested and self.output.writing and not self.reaping and not self.ranks:
            raise BrokenPipeError

    def reap_meanwhile(self) -> None:
        """Reap, if a paused reader would delay reaping."""
        if self.output.writing:
            outer, self.reaping = self.reaping, True
            self.reap()
            self.reaping = outer

    def kill(self) -> None:
        """Kill the ranks: the deadline is over, or the launcher is dead."""
        self.ending = True
        for process in list(self.ranks):
            kill_group(process, signal.SIGKILL)
        if os.getppid() != self.launcher:
            kill_descendants()
            os._exit(1)

    # ---- Waiting

    def step(self, seconds: float | None) -> bool:
        """Wait for output or a signal, and handle it; false when no child is left."""
        handle_ready(self.selector, seconds)
        return self.reap()

    def reap(self) -> bool:
        """Reap the children that have ended; false when none is left."""
        with contextlib.suppress(ChildProcessError):
            while True:
                process, status = os.waitpid(-1, os.WNOHANG)
                if process == 0:
                    self.limit_reader()
                    return True
                if process in self.ranks:
                    self.record_end(self.ranks.pop(process), status)
                    if not LINUX:
                        kill_group(process, signal.SIGKILL)  # no process adopts its orphans
        self.limit_reader()
        return False

    def record_end(self, rank: int, status: int) -> None:
        """End the job when this is the first rank that failed."""
        if self.failure or status == 0:
            return
        self.failure = exit_code(status)
        others = "; ending the others" if self.ranks and not self.ending else ""
        if not self.ending:
            self.pass_on(signal.SIGTERM)
        self.output.report(f"rank {rank} {describe(status)}{others}")

    def sweep(self) -> None:
        """End the processes that the ranks have left behind."""
        deadline = time.monotonic() + (0 if self.ending else LINGER)
        while self.step(0.02):
            if time.monotonic() >= deadline:
                for process in children():
                    send(process, signal.SIGKILL)

    def fail_output(self, error: OSError) -> None:
        """End the job when its output cannot be written: a closed pipe, or a full disk."""
        gone = isinstance(error, BrokenPipeError)
        self.failure = self.failure or (128 + signal.SIGPIPE if gone else 1)
        if not self.ending:
            self.pass_on(signal.SIGTERM)
        if not gone:
            why = error.strerror
            self.output.report(f"cannot write the output of the ranks: {why}; ending the ranks")
