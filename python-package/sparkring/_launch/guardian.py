# SPDX-License-Identifier: Apache-2.0
"""The guardian: a process between a rank and the program that the rank has started.

The guardian adopts the orphans of the program. So it can end all descendants of the program: when
the program ends, when the rank closes the connection to the guardian, and when the rank dies. A
thread of the rank could do none of the three.

The guardian runs this file alone, without site-packages and without `sparkring`, to start fast. It
runs in the environment of the rank. The rank sends one message with two descriptors: the program's
connection to its PMI server, and a file with the program's environment. The guardian sends STARTED
before the program runs, and ENDED when it ends, or FAILED. It exits when no descendant is left, so
then nothing writes to the program's output any more.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from sparkring._launch import process_tree
else:  # this file alone
    import process_tree

STARTED, ENDED, FAILED = b"S", b"E", b"F"  # before the pid; the wait status; the reason
REASON_BYTES = 1000


def encode_environment(variables: dict[str, str]) -> bytes:
    """Encode the program's environment, which the rank sends."""
    return b"\0".join(os.fsencode(f"{name}={value}") for name, value in variables.items())


def read_environment(descriptor: int) -> dict[bytes, bytes]:
    """Read what `encode_environment` has encoded."""
    with open(descriptor, "rb") as file:
        pairs = (entry.partition(b"=") for entry in file.read().split(b"\0") if entry)
        return {name: value for name, _, value in pairs}


def start(
    command: list[str],
    directory: str | None,
    environment: dict[bytes, bytes],
    pmi: int,
    mask: set[int],
    control: socket.socket,
) -> subprocess.Popen[bytes]:
    """Start the program, in a process group of its own. It dies with the guardian.

    The rank learns the pid before the program runs: if the guardian is killed, the rank ends the
    group.
    """
    guardian = os.getpid()

    def prepare() -> None:
        process_tree.prepare_child(guardian, mask)
        with contextlib.suppress(OSError):  # the rank has closed the connection, or has died
            control.send(STARTED + b"%d" % os.getpid())

    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        cwd=directory,
        env={**environment, b"PMI_FD": b"%d" % pmi},
        pass_fds=(pmi,),
        preexec_fn=prepare,
    )


def wait(process: int, rank: int, control: socket.socket, wakeup: int) -> int | None:
    """Wait for the program's end, and return its wait status. None: the rank ends the program."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(wakeup, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in poll.poll()]
        if control.fileno() in ready or os.getppid() != rank:
            return None
        os.read(wakeup, 4096)
        while True:  # the program, and orphans of its descendants
            try:
                ended, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                ended = 0
            if ended == process:
                return status
            if ended == 0:
                break


def watch_signals() -> tuple[int, set[int]]:
    """Return a descriptor that each signal makes readable, and the earlier signal mask.

    Signals to end the program are for the rank to decide. The handlers end with exec, so the
    program starts with the signal dispositions of the rank. The kernel sends SIGCHLD for an ended
    child and, here, for the death of the rank: a forked child of the rank may keep the connection
    open.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    process_tree.control(process_tree.PR_SET_PDEATHSIG, signal.SIGCHLD)
    return reader, signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def guard(command: list[str], directory: str | None, rank: int, control: socket.socket) -> None:
    """Start the program, wait for its end, and end its descendants."""
    wakeup, mask = watch_signals()
    process_tree.control(process_tree.PR_SET_CHILD_SUBREAPER, 1)
    message, descriptors, _, _ = socket.recv_fds(control, 1, 2)
    if not message or os.getppid() != rank:
        return
    pmi, environment = descriptors
    try:
        program = start(command, directory, read_environment(environment), pmi, mask, control)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        reason = str(error)
        if isinstance(error, OSError) and error.strerror:
            reason = f"{error.strerror}: {error.filename!r}"
        with contextlib.suppress(OSError):
            control.send(FAILED + reason.encode(errors="backslashreplace")[:REASON_BYTES])
        return
    program.returncode = 0  # only wait() waits
    os.close(pmi)
    status = wait(program.pid, rank, control, wakeup)
    if status is not None:
        with contextlib.suppress(OSError):
            control.send(ENDED + b"%d" % status)
    process_tree.kill_group(program.pid, signal.SIGKILL)
    process_tree.kill_descendants()


def main() -> None:
    """Run: ``guardian.py CONTROL RANK DIRECTORY COMMAND...``.

    CONTROL is a descriptor, RANK the pid of the rank. An empty DIRECTORY is that of the rank.
    """
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    guard(sys.argv[4:], sys.argv[3] or None, int(sys.argv[2]), control)


if __name__ == "__main__":
    main()
