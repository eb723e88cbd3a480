# SPDX-License-Identifier: Apache-2.0
"""How jobs of sparkring-run end: exit codes, signals, and that nothing survives it."""

from __future__ import annotations

import array
import fcntl
import os
import shutil
import signal
import termios
import time
from pathlib import Path

import pytest
from launcher_jobs import ON_LINUX, WAIT, Job, python, read_to_the_end
from ranks import DEADLINE


def test_a_rank_fails():
    code = """
import os, signal, sys
if os.environ["SPARKRING_RANK"] == "1":
    sys.exit(7)
signal.pause()
"""
    job = python(3, code)
    assert job.returncode == 7
    assert job.stderr == b"sparkring-run: rank 1 failed with exit code 7; ending the others\n"


def test_a_rank_is_killed():
    code = """
import os, signal
if os.environ["SPARKRING_RANK"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
signal.pause()
"""
    job = python(2, code)
    assert job.returncode == 128 + signal.SIGKILL
    assert job.stderr == b"sparkring-run: rank 1 was killed by SIGKILL; ending the others\n"


# A child, its child, and one that has left the process group and the session, as daemons do.
# They share an output, so each line is one write.
FAMILY = """
import signal, sys
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        if os.fork() > 0:
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, b"ready\\n")
    while True:
        signal.pause()
os.write(1, b"ready\\n")
"""


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1]
)
def test_signals_are_passed_on(number, tmp_path):
    code = f"""
import signal, sys, time
signal.signal({int(number)}, lambda number, frame: sys.exit(40 + number))
print("ready")
while True:
    time.sleep(0.05)
"""
    job = Job(tmp_path, 2, code)
    job.wait_until_ready(2)
    job.process.send_signal(number)
    assert job.end() == 40 + number


def test_a_signal_that_ends_the_ranks(tmp_path):
    job = Job(tmp_path, 2, WAIT)
    job.wait_until_ready(2)
    job.process.terminate()
    assert job.end() == 128 + signal.SIGTERM


def test_ranks_that_handle_the_signal_well(tmp_path):
    code = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("ready")
while True:
    time.sleep(0.05)
"""
    job = Job(tmp_path, 2, code)
    job.wait_until_ready(2)
    job.process.terminate()
    assert job.end() == 0


@ON_LINUX
@pytest.mark.parametrize(("last", "code"), [("", 0), ("sys.exit(5)", 5)])
def test_descendants_do_not_survive_the_ranks(last, code, tmp_path):
    job = Job(tmp_path, 2, FAMILY + last)
    assert job.end() == code


@ON_LINUX
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGALRM, signal.SIGKILL])
def test_descendants_do_not_survive_the_launcher(number, tmp_path):
    job = Job(tmp_path, 2, FAMILY + "signal.pause()")
    job.wait_until_ready(6)
    job.process.send_signal(number)
    assert job.end() == (128 + number if number == signal.SIGTERM else -number)


@ON_LINUX
def test_descendants_do_not_survive_the_supervisor(tmp_path):
    job = Job(tmp_path, 2, FAMILY + "signal.pause()")
    job.wait_until_ready(6)
    children = Path(f"/proc/{job.process.pid}/task/{job.process.pid}/children")
    (supervisor,) = map(int, children.read_text().split())
    os.kill(supervisor, signal.SIGKILL)
    assert job.end() == 128 + signal.SIGKILL


@ON_LINUX
def test_the_launcher_dies_while_nobody_reads(tmp_path):
    job = Job(tmp_path, 2, FAMILY + "while True: print('x' * 10000)")
    job.wait_until_ready(2)
    job.process.kill()
    assert job.end() == -signal.SIGKILL


FLOOD = """
import os, signal
signal.signal(signal.SIGTERM, lambda *_: os._exit(9))
print("ready")
while True:
    print("x" * 10000)
"""


def wait_until_stuck(output, least=1 << 15):
    """Wait until an output that nobody reads is full: it takes no more for a while."""
    held, before = 0, -1
    deadline = time.monotonic() + DEADLINE
    while (held < least or held != before) and time.monotonic() < deadline:
        time.sleep(0.2)
        before = held
        (held,) = array.array("i", fcntl.ioctl(output, termios.FIONREAD, bytes(4)))
    assert held == before


@ON_LINUX
def test_a_signal_while_nobody_reads(tmp_path):
    """The ranks end, and the job with them, with their exit code."""
    job = Job(tmp_path, 2, FLOOD)
    job.wait_until_ready(2)
    wait_until_stuck(job.process.stdout)
    job.process.terminate()
    assert job.process.wait(DEADLINE) == 9
    assert b"failed with exit code 9" in job.process.stderr.peek()
    job.end()


@ON_LINUX
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_while_a_terminal_is_full(number, tmp_path):
    """The ranks end, and the job with them, although the output takes nothing."""
    terminal, other = os.openpty()
    job = Job(tmp_path, 2, FLOOD, stdout=other)
    os.close(other)
    wait_until_stuck(terminal, least=1 << 11)
    job.process.send_signal(number)
    assert job.process.wait(DEADLINE) == (9 if number == signal.SIGTERM else -number)
    read_to_the_end(job.fifo)
    read_to_the_end(job.process.stderr)
    os.close(terminal)


@ON_LINUX
def test_a_rank_fails_while_nobody_reads(tmp_path):
    """The other ranks are ended; their output waits for a reader who goes on."""
    go = tmp_path / "go"
    code = f"""
import os, time
if os.environ["SPARKRING_RANK"] == "1":
    while not os.path.exists({str(go)!r}):
        time.sleep(0.01)
    os._exit(7)
"""
    job = Job(tmp_path, 2, code + FLOOD)
    wait_until_stuck(job.process.stdout)
    go.touch()
    read_to_the_end(job.fifo)
    assert job.process.poll() is None
    output = job.process.stdout.read()
    assert output.startswith(b"[0] ready\n[0] xxx")
    assert job.process.wait(DEADLINE) == 7
    assert job.process.stderr.read() == (
        b"sparkring-run: rank 1 failed with exit code 7; ending the others\n"
    )
    job.process.stdout.close()
    job.process.stderr.close()


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_ranks_behind_a_shell(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    job = Job(tmp_path, 2, WAIT, shell, "-c", '"$@"; exit $?', shell)
    job.wait_until_ready(2)
    job.process.kill()
    assert job.end() == -signal.SIGKILL
