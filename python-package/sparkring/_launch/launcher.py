# SPDX-License-Identifier: Apache-2.0
"""``sparkring-run -n 4 python train.py``: start the ranks of a job on this machine.

A job has two processes besides the ranks. The launcher waits, forwards signals and returns the exit
code. Its child, the supervisor, starts the ranks and prints their output. The supervisor has a
session of its own, and each rank has a process group in this session, so that a signal from the
terminal reaches a rank once. A rank has no session of its own: Linux shares the processors between
sessions (autogroups), and ranks that share one hand it to each other.

No process survives a job. On Linux launcher and supervisor adopt their orphaned descendants
(PR_SET_CHILD_SUBREAPER). So every process that the ranks have started becomes a child of the
supervisor, and the supervisor kills it at the end. If launcher or supervisor dies, its partner
cleans up. The kernel signals the supervisor when the launcher dies (PR_SET_PDEATHSIG; elsewhere the
supervisor polls). The launcher adopts the children of a dead supervisor.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
import sys
import tempfile
from typing import TYPE_CHECKING

from sparkring import _core
from sparkring._launch.nameless_file import nameless_file
from sparkring._launch.process_tree import (
    LINUX,
    PASSED_ON,
    PR_SET_CHILD_SUBREAPER,
    children,
    control,
    exit_code,
    kill_descendants,
    passed_on,
    send,
)
from sparkring._launch.supervisor import supervise

if TYPE_CHECKING:
    from collections.abc import Iterator


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : list of str, optional
        By default the arguments of the process.

    Returns
    -------
    int
        The exit code.
    """
    open_standard_files()
    options = parse(arguments)
    control(PR_SET_CHILD_SUBREAPER, 1)
    launcher = os.getpid()
    others = set(children())  # children from before exec: not to be killed
    signal.signal(signal.SIGCHLD, lambda *_: None)  # ignored, waitpid() would find no child
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON | {signal.SIGALRM, signal.SIGCHLD})
    supervisor = os.fork()
    if supervisor == 0:
        supervise(options.command, environments(options), launcher, mask)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask | PASSED_ON | {signal.SIGCHLD})
    status = wait_for(supervisor, passed_on() - mask)
    kill_descendants(others)
    return exit_code(status)


def wait_for(supervisor: int, signals: set[int]) -> int:
    """Wait until the supervisor ends, and forward the blocked signals; return the wait status.

    Not with handlers: Python runs no handler for a signal that arrives just before the wait.
    """
    while True:
        process, status = os.waitpid(supervisor, os.WNOHANG)
        if process == supervisor:
            return status
        number = signal.sigwait(signals | {signal.SIGCHLD})
        if number != signal.SIGCHLD:
            send(supervisor, number)


def open_standard_files() -> None:
    """Open closed descriptors of 0 to 2 on /dev/null, so that no file takes their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # uses the lowest free number
            os.set_inheritable(number, True)


# ---- The command line ----------------------------------------------------------------------------


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="sparkring-run",
        description="Start the ranks of a sparkring job on this machine.",
        usage="sparkring-run -n SIZE [--timeout SECONDS] [--ports FIRST-LAST] [--encryption]"
        " [--timeline DIR] [--] command ...\n       sparkring-run --version",
        epilog="Each line of output begins with the rank, as in '[2] epoch 1'. When a rank fails,"
        " the other ranks are ended, and the exit code is that of the failed rank (128 + number for"
        " a signal). Rank 0 has the standard input. Signals are passed on to all ranks.",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"sparkring {_core.version}",
        help="print the version of sparkring",
    )
    parser.add_argument("-n", "--size", type=positive, required=True, help="number of ranks")
    parser.add_argument(
        "--timeout", metavar="SECONDS", help="time limit of the rendezvous of all ranks"
    )
    parser.add_argument("--ports", metavar="FIRST-LAST", help="ports to listen on")
    parser.add_argument(
        "--encryption", action="store_true", help="encrypt what the ranks send through sockets"
    )
    parser.add_argument(
        "--timeline", metavar="DIR", help="directory for the timelines of the ranks"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command of every rank")
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


@contextlib.contextmanager
def environments(options: argparse.Namespace) -> Iterator[Iterator[dict[str, str]]]:
    """Yield the environment of each rank. The token's file exists during the ``with`` block."""
    shared = dict(os.environ)
    shared.pop("SPARKRING_ROOT_ADDRESS", None)
    shared.pop("SPARKRING_TOKEN", None)
    shared.setdefault("PYTHONUNBUFFERED", "1")  # lines are shown when they are printed
    shared["SPARKRING_LAUNCHER"] = "1"  # so that no rank tags its lines a second time
    shared["SPARKRING_SIZE"] = str(options.size)
    shared["SPARKRING_ADDRESSES"] = ",".join(["127.0.0.1"] * options.size)
    if options.timeout:
        shared["SPARKRING_TIMEOUT"] = options.timeout
    if options.ports:
        shared["SPARKRING_PORTS"] = options.ports
    if options.encryption:
        shared["SPARKRING_ENCRYPTION"] = "1"
    if options.timeline:
        shared["SPARKRING_TIMELINE"] = os.path.abspath(options.timeline)
    with token_file() as path:
        shared["SPARKRING_TOKEN_FILE"] = path
        yield ({**shared, "SPARKRING_RANK": str(rank)} for rank in range(options.size))


# ---- The token -----------------------------------------------------------------------------------


@contextlib.contextmanager
def token_file() -> Iterator[str]:
    """Draw the job's token; yield the path of a file with the token, while the job runs.

    A token in a variable would be readable in /proc and in core files, and all children would
    inherit it. On Linux the file has no name of its own: ranks open it through this process. Only
    their user may open it, any number of times, through any number of intermediate processes.
    """
    with nameless_file("sparkring token") if LINUX else tempfile.NamedTemporaryFile() as file:
        os.fchmod(file.fileno(), 0o400)
        file.write(secrets.token_hex(32).encode())
        file.flush()
        yield f"/proc/{os.getpid()}/fd/{file.fileno()}" if LINUX else file.name


if __name__ == "__main__":
    sys.exit(main())
