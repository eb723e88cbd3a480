# SPDX-License-Identifier: Apache-2.0
"""``sparkring-run -n 4 python train.py``: start the ranks of a job on this machine.

Two processes take care of a job. The launcher proper waits, passes signals on and returns the exit
code. Its child, the supervisor, starts the ranks and prints what they say. The supervisor is in a
session of its own, and each rank in a process group there, so that a signal from the terminal
reaches them once. Not in sessions of their own: between these Linux shares the processors out
(autogroups), and ranks that share one hand it to each other.

No process survives a job. On Linux both adopt their orphaned descendants (PR_SET_CHILD_SUBREAPER),
so whatever the ranks have started ends up as a child of the supervisor, which kills it at the end.
Should one of the two die first, the other cleans up: the kernel tells the supervisor when the
launcher dies (PR_SET_PDEATHSIG), and the launcher adopts what a dead supervisor leaves.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import os
import secrets
import select
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from types import FrameType

    Handler = Callable[[int, "FrameType | None"], None]

GRACE = 10.0  # seconds between asking the ranks to end and killing them
LINGER = 1.0  # seconds for what the ranks leave behind, and for who no longer reads their output

ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
PASSED_ON = ENDING | {signal.SIGUSR1, signal.SIGUSR2}

LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : list of str, optional
        By default those of the process.

    Returns
    -------
    int
        The exit code.
    """
    open_standard_files()
    options = parse(arguments)
    control(PR_SET_CHILD_SUBREAPER, 1)
    launcher = os.getpid()
    others = set(children())  # of whoever became this process with exec; not ours to end
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON | {signal.SIGALRM})
    supervisor = os.fork()
    if supervisor == 0:
        run_supervisor(options, launcher, mask)
    handle_passed_on(lambda number, _: send(supervisor, number))
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _, status = os.waitpid(supervisor, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    kill_descendants(others)
    return exit_code(status)


def open_standard_files() -> None:
    """Open what is closed of 0 to 2 on /dev/null: else a file of ours would take its place."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
            os.set_inheritable(number, True)


# ---- The command line ----------------------------------------------------------------------------


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="sparkring-run",
        description="Start the ranks of a sparkring job on this machine.",
        usage="sparkring-run -n SIZE [--timeout SECONDS] [--ports FIRST-LAST] [--encryption] [--]"
        " command ...",
        epilog="Each line of output begins with the rank, as in '[2] epoch 1'. When a rank fails,"
        " the others are ended, and its exit code (128 + number for a signal) is returned. Rank 0"
        " has the standard input. Signals are passed on to all ranks.",
    )
    parser.add_argument("-n", "--size", type=positive, required=True, help="number of ranks")
    parser.add_argument("--timeout", metavar="SECONDS", help="time for all ranks to meet")
    parser.add_argument("--ports", metavar="FIRST-LAST", help="ports to listen on")
    parser.add_argument(
        "--encryption", action="store_true", help="encrypt what the ranks send through sockets"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what every rank runs")
    options = parser.parse_args(arguments)
    if options.command[:1] == ["--"]:
        del options.command[0]
    if not options.command:
        parser.error("the command is missing, as in: sparkring-run -n 4 python train.py")
    return options


def positive(text: str) -> int:
    """Read a number of ranks."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not 1 or more")
    return int(text)


def environments(options: argparse.Namespace, token_file: str) -> Iterator[dict[str, str]]:
    """Make the environment of each rank."""
    shared = dict(os.environ)
    shared.pop("SPARKRING_ROOT_ADDRESS", None)
    shared.pop("SPARKRING_TOKEN", None)
    shared.setdefault("PYTHONUNBUFFERED", "1")  # lines come when they are printed
    shared["SPARKRING_SIZE"] = str(options.size)
    shared["SPARKRING_ADDRESSES"] = ",".join(["127.0.0.1"] * options.size)
    shared["SPARKRING_TOKEN_FILE"] = token_file
    if options.timeout:
        shared["SPARKRING_TIMEOUT"] = options.timeout
    if options.ports:
        shared["SPARKRING_PORTS"] = options.ports
    if options.encryption:
        shared["SPARKRING_ENCRYPTION"] = "1"
    for rank in range(options.size):
        yield {**shared, "SPARKRING_RANK": str(rank)}


# ---- The token -----------------------------------------------------------------------------------


@contextlib.contextmanager
def token_file() -> Iterator[str]:
    """Draw the job's token; the value names a file with it, while the job runs.

    The variables of a process can be read in /proc and in core files, and all its children have
    them. On Linux the file has no name of its own: ranks open it through this process, which is
    possible for their user alone, as often as they need it, and whatever started them in between.
    """
    with nameless_file() if LINUX else tempfile.NamedTemporaryFile() as file:
        os.fchmod(file.fileno(), 0o400)
        file.write(secrets.token_hex(32).encode())
        file.flush()
        yield f"/proc/{os.getpid()}/fd/{file.fileno()}" if LINUX else file.name


def nameless_file() -> IO[bytes]:
    """Open a file in memory or, where that is forbidden, one without a name on disk."""
    try:
        return open(os.memfd_create("sparkring token"), "w+b")
    except OSError:
        return tempfile.TemporaryFile()


# ---- The supervisor ------------------------------------------------------------------------------


def run_supervisor(options: argparse.Namespace, launcher: int, mask: set[int]) -> NoReturn:
    """Be the supervisor: the child of the launcher, in a session of its own.

    Signals are blocked until all ranks have started; `mask` is what they were before.
    """
    code = 1
    try:
        os.setsid()
        control(PR_SET_CHILD_SUBREAPER, 1)
        code = Supervisor(launcher, mask).run(options)
    except OSError as error:
        complain(f"cannot run the job: {error}")
    except BaseException:
        complain(f"this is a defect of sparkring\n{traceback.format_exc().rstrip()}")
    finally:
        os._exit(code)


def complain(text: str) -> None:
    """Say why there is no job, to whoever can be told."""
    with contextlib.suppress(OSError):
        os.write(2, say_ours(text))


def say_ours(text: str) -> bytes:
    """Make a line of our own."""
    return f"sparkring-run: {text}\n".encode(errors="backslashreplace")


class Supervisor:
    """Starts the ranks, prints what they say, and ends them.

    Signals do their work in their handlers, so that a reader of the output who has stopped reading
    cannot keep the ranks from being ended. Nor can he keep the job, once a signal has ended it: the
    handler of SIGALRM then raises out of the write that waits for him.
    """

    def __init__(self, launcher: int, mask: set[int]) -> None:
        self.launcher = launcher
        self.mask = mask
        self.ranks: dict[int, int] = {}  # by process, until they are reaped
        self.lines: list[Lines] = []
        self.selector = selectors.DefaultSelector()  # the data of a key is called; false: the end
        self.failure = 0  # the exit code of the first rank that failed
        self.ending = False
        self.asked = False  # to end, by a signal from outside
        self.writing = False  # and maybe waiting for a reader
        self.reaping = False  # in the handler of a signal, where nothing may be raised
        self.unsaid: list[tuple[int, bytes]] = []  # what handlers had to say meanwhile
        self.lost: set[int] = set()  # descriptors that take no output any more

    def run(self, options: argparse.Namespace) -> int:
        """Run the job to its end; the return value is the exit code."""
        try:
            return self.work(options)
        except BaseException:
            self.kill()
            raise

    def work(self, options: argparse.Namespace) -> int:
        """Do what `run` does, as long as nothing goes wrong with ourselves."""
        self.watch_signals()
        with token_file() as path:
            self.start_all(options, path)
            signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)
            while self.ranks:
                self.step(None)
            self.sweep()
        for lines in self.lines:
            lines.drain()
        return self.failure

    def start_all(self, options: argparse.Namespace, token_file: str) -> None:
        """Start the ranks; when the command cannot be run, none stays."""
        try:
            for rank, environment in enumerate(environments(options, token_file)):
                self.start(rank, options.command, environment)
        except (OSError, subprocess.SubprocessError) as error:
            self.failure = 127 if isinstance(error, FileNotFoundError) else 126
            reason = error.strerror if isinstance(error, OSError) else error
            self.say(f"cannot run {options.command[0]!r}: {reason}")
            self.kill()

    def start(self, rank: int, command: list[str], environment: dict[str, str]) -> None:
        """Start one rank, in a process group of its own. It dies with the supervisor."""
        supervisor = os.getpid()

        def prepare() -> None:
            os.setpgid(0, 0)
            control(PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)
            if os.getppid() != supervisor:
                os._exit(1)

        process = subprocess.Popen(
            command,
            bufsize=0,
            env=environment,
            stdin=None if rank == 0 else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=prepare,
        )
        process.returncode = 0  # waiting is the business of reap()
        self.ranks[process.pid] = rank
        for target, stream in ((1, process.stdout), (2, process.stderr)):
            assert stream is not None
            lines = Lines(stream, b"[%d] " % rank, functools.partial(self.write, target))
            self.lines.append(lines)
            self.selector.register(stream, selectors.EVENT_READ, lines.pump)

    # ---- Signals

    def watch_signals(self) -> None:
        """Pass signals on, wake up for children that end, and notice the launcher's death."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        self.selector.register(reader, selectors.EVENT_READ, lambda: os.read(reader, 4096))
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: self.reap_meanwhile())
        signal.signal(signal.SIGALRM, lambda *_: self.give_up())
        handle_passed_on(lambda number, _: self.obey(number))
        control(PR_SET_PDEATHSIG, signal.SIGALRM)
        if os.getppid() != self.launcher:
            os._exit(1)

    def obey(self, number: int) -> None:
        """Do what a signal from outside asks for."""
        self.asked = self.asked or number in ENDING
        self.pass_on(number)
        self.hurry()

    def pass_on(self, number: int) -> None:
        """Send a signal to the process groups of all ranks; after one to end, time runs."""
        if number in ENDING and not self.ending:
            self.ending = True
            signal.setitimer(signal.ITIMER_REAL, GRACE)
        for process in list(self.ranks):
            kill_group(process, number)

    def hurry(self) -> None:
        """Let time run for the reader, if only he keeps a job that was asked to end."""
        if self.asked and not self.ranks:
            signal.setitimer(signal.ITIMER_REAL, LINGER, LINGER)

    def give_up(self) -> None:
        """Kill the ranks; without any, take a reader that we wait for as gone."""
        self.kill()
        if self.asked and self.writing and not self.reaping and not self.ranks:
            raise BrokenPipeError

    def reap_meanwhile(self) -> None:
        """Reap, if else that were not done before a reader goes on reading."""
        if self.writing:
            outer, self.reaping = self.reaping, True
            self.reap()
            self.reaping = outer

    def kill(self) -> None:
        """Kill the ranks: their time is over, or the launcher is dead and nobody is waiting."""
        self.ending = True
        for process in list(self.ranks):
            kill_group(process, signal.SIGKILL)
        if os.getppid() != self.launcher:
            kill_descendants()
            os._exit(1)

    # ---- Waiting

    def step(self, seconds: float | None) -> bool:
        """Wait for output or a signal, and handle it; false when no child is left."""
        for key, _ in self.selector.select(seconds):
            if not key.data():
                self.selector.unregister(key.fileobj)
        return self.reap()

    def reap(self) -> bool:
        """Take note of the children that have ended; false when none is left."""
        with contextlib.suppress(ChildProcessError):
            while True:
                process, status = os.waitpid(-1, os.WNOHANG)
                if process == 0:
                    self.hurry()
                    return True
                if process in self.ranks:
                    self.note_end(self.ranks.pop(process), status)
                    if not LINUX:
                        kill_group(process, signal.SIGKILL)  # nobody adopts its orphans
        self.hurry()
        return False

    def note_end(self, rank: int, status: int) -> None:
        """End the job when this is the first rank that failed."""
        if self.failure or status == 0:
            return
        self.failure = exit_code(status)
        others = "; ending the others" if self.ranks and not self.ending else ""
        if not self.ending:
            self.pass_on(signal.SIGTERM)
        self.say(f"rank {rank} {describe(status)}{others}")

    def sweep(self) -> None:
        """End the processes that the ranks have left behind."""
        deadline = time.monotonic() + (0 if self.ending else LINGER)
        while self.step(0.02):
            if time.monotonic() >= deadline:
                for process in children():
                    send(process, signal.SIGKILL)

    # ---- Printing

    def say(self, text: str) -> None:
        """Print a line of our own."""
        self.write(2, say_ours(text))

    def write(self, target: int, text: bytes) -> None:
        """Write all of it, unless that has failed before; for a handler, after what is begun."""
        if self.writing:
            self.unsaid.append((target, text))
            return
        try:
            self.writing = True
            self.reap()  # from here on SIGCHLD's handler does that
            while text and target not in self.lost:
                text = text[push(target, text) :]
            self.writing = False
        except OSError as error:
            self.writing = False
            self.lose(target, error)
        while self.unsaid:
            self.write(*self.unsaid.pop(0))

    def lose(self, target: int, error: OSError) -> None:
        """End the job, as SIGPIPE ends a program: the reader has gone, or the disk is full."""
        self.lost.add(target)
        gone = isinstance(error, BrokenPipeError)
        self.failure = self.failure or (128 + signal.SIGPIPE if gone else 1)
        if not self.ending:
            self.pass_on(signal.SIGTERM)
        if not gone:
            self.say(f"cannot write what the ranks print: {error.strerror}; ending them")


def push(target: int, text: bytes) -> int:
    """Write some of it, and wait for that; gives how much."""
    try:
        return os.write(target, text)
    except BlockingIOError:  # whoever shares our output has made it so
        select.select([], [target], [])
        return 0


class Lines:
    """Copies the output of a rank line by line, each with the rank before it."""

    def __init__(self, stream: IO[bytes], prefix: bytes, write: Callable[[bytes], None]) -> None:
        self.stream = stream
        self.prefix = prefix
        self.write = write
        self.begun: list[bytes] = []  # the pieces of a line that has not ended

    def pump(self) -> bool:
        """Read once and print the lines that are whole; false at the end."""
        piece = self.stream.read(1 << 16)
        if not piece:  # b"" at the end, None when there is nothing more to drain
            self.finish()
            return False
        *lines, rest = piece.split(b"\n")
        if lines:
            lines[0] = b"".join([*self.begun, lines[0]])
            self.begun = []
            self.write(b"".join(self.prefix + line + b"\n" for line in lines))
        if rest:
            self.begun.append(rest)
        return True

    def finish(self) -> None:
        """Print a last line that does not end."""
        if self.begun:
            self.write(b"".join([self.prefix, *self.begun, b"\n"]))
            self.begun = []

    def drain(self) -> None:
        """Print what is left, without waiting: all who could say more are dead."""
        os.set_blocking(self.stream.fileno(), False)
        while self.pump():
            pass


# ---- Processes -----------------------------------------------------------------------------------


def control(option: int, argument: int) -> None:
    """Call prctl, where there is one."""
    if LINUX:
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(argument), *[ctypes.c_ulong(0)] * 3)


def handle_passed_on(handler: Handler) -> None:
    """Install a handler for the signals to pass on, but those that nohup and shells ignore."""
    for number in PASSED_ON:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def exit_code(status: int) -> int:
    """Turn a wait status into an exit code, as shells do: 128 + number for a signal."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def describe(status: int) -> str:
    """Say how a process has failed."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"failed with exit code {code}"
    with contextlib.suppress(ValueError):  # real-time signals have no names
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"


def send(process: int, number: int) -> None:
    """Send a signal to a process; one that has gone, as its parent may know, is no error."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def kill_group(process: int, number: int) -> None:
    """Send a signal to a process group; one that has gone, or is not ours, is no error."""
    with contextlib.suppress(OSError):
        os.killpg(process, number)


def children() -> Iterator[int]:
    """List the children of this process, the adopted ones too. Nothing where there is no /proc."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            _, _, after_name = entry.read_bytes().rpartition(b")")
            if int(after_name.split()[1]) == os.getpid():
                yield int(entry.parent.name)


def kill_descendants(spared: Collection[int] = ()) -> None:
    """Kill every child, and the orphans that become our children by that, until none is left."""
    while mine := [process for process in children() if process not in spared]:
        for process in mine:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        for process in mine:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, 0)


if __name__ == "__main__":
    sys.exit(main())
