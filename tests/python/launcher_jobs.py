# SPDX-License-Identifier: Apache-2.0
"""Jobs of sparkring-run, for its tests.

Whether a process is gone is seen by a fifo that it holds open: reading that ends when the last of
them has died, so nothing here has to poll or to guess how long it takes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from ranks import DEADLINE, LAUNCHER, launch

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs prctl, which Linux has")


def python(size, code, **options):
    return launch(size, sys.executable, "-c", code, **options)


def lines(output):
    return sorted(output.decode().splitlines())


class Job:
    """A job whose ranks, and what they start, hold a fifo open until they die."""

    def __init__(self, folder, size, code, *prefix, stdout=subprocess.PIPE):
        fifo = str(folder / "fifo")
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(reader, True)
        self.fifo = os.fdopen(reader, "rb")
        hold = f"import os; os.open({fifo!r}, os.O_WRONLY)\n"
        self.process = subprocess.Popen(
            [*LAUNCHER, "-n", str(size), *prefix, sys.executable, "-c", hold + code],
            stdout=stdout,
            stderr=subprocess.PIPE,
        )

    def wait_until_ready(self, count):
        """Wait for as many lines "ready"."""
        while count > 0:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            count -= b"ready" in line

    def end(self):
        """Return the exit code, once everything is gone: the supervisor holds our pipes."""
        code = self.process.wait(DEADLINE)
        for stream in (self.fifo, self.process.stderr, self.process.stdout):
            read_to_the_end(stream)
        return code


def read_to_the_end(stream):
    """Wait until nobody can write any more, and close it."""
    ended = threading.Event()

    def read():
        with stream:
            stream.read()
        ended.set()

    threading.Thread(target=read, daemon=True).start()
    assert ended.wait(DEADLINE), "processes have survived"


WAIT = "import signal\nprint('ready')\nsignal.pause()"
