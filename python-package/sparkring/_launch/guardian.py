# SPDX-License-Identifier: Apache-2.0
"""The guardian: a process between a rank and the program that the rank has started.

The guardian adopts the orphans of the program. So it can end all descendants of the program: when
the program ends, and when the rank says so or dies, which closes the connection to the guardian.
A thread of the rank could do neither.

It runs this file alone, without site-packages and without `sparkring`, to start fast. The last
message on the connection is ``started``, an error number, or the wait status of the program.
"""

from __future__ import annotations

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

FAILED, ENDED = b"F", b"E"  # before the errno; before the wait status


def start(command: list[str], pmi: int) -> subprocess.Popen[bytes]:
    """Start the program, in a process group of its own. It dies with the guardian."""
    guardian = os.getpid()

    def prepare() -> None:
        os.setpgid(0, 0)
        process_tree.control(process_tree.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guardian:
            os._exit(1)

    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(pmi,), preexec_fn=prepare)


def wait(process: int, control: socket.socket, wakeup: int) -> int | None:
    """Wait for the program's end, and return its wait status. None: the rank ends the program."""
    while True:
        ready, _, _ = select.select([control, wakeup], [], [])
        if control in ready:
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


def guard(command: list[str], pmi: int, control: socket.socket) -> None:
    """Start the program, wait for its end, and end its descendants."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    process_tree.control(process_tree.PR_SET_CHILD_SUBREAPER, 1)
    try:
        program = start(command, pmi)
    except OSError as error:
        control.send(FAILED + b"%d" % (error.errno or 0))
        return
    program.returncode = 0  # only wait() waits
    os.close(pmi)
    status = wait(program.pid, control, reader)
    process_tree.kill_group(program.pid, signal.SIGKILL)
    process_tree.kill_descendants()
    if status is not None:
        control.send(ENDED + b"%d" % status)


def main() -> None:
    """Run: ``guardian.py CONTROL PMI COMMAND...``; the numbers are descriptors."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the rank decides
    guard(sys.argv[3:], int(sys.argv[2]), control)


if __name__ == "__main__":
    main()
