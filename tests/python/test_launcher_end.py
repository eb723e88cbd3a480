# SPDX-License-Identifier: Apache-2.0
"""How jobs of sparkring-run end: exit codes, signals, and that nothing survives it."""

from __future__ import annotations

import array
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from launcher_jobs import ON_LINUX, WAIT, Job, lines, patched, python, read_to_the_end
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


def test_a_rank_that_will_not_end(tmp_path):
    code = """
import os, signal, sys
if os.environ["SPARKRING_RANK"] == "1":
    open(sys.argv[1]).close()  # opens when rank 0 does
    sys.exit(3)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").close()
while True:
    signal.pause()
"""
    impatient = """
import sys
from sparkring._launch import launcher
from sparkring._launch import supervisor
supervisor.GRACE = 0.1
sys.exit(launcher.main())"""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    job = subprocess.run(
        [sys.executable, "-c", impatient, "-n", "2", sys.executable, "-c", code, fifo],
        timeout=DEADLINE,
        capture_output=True,
        check=False,
    )
    assert job.returncode == 3
    assert b"rank 1 failed with exit code 3" in job.stderr


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


# So long as on a machine with very many processes; the supervisor's clock ticks meanwhile.
SLOW_TO_LIST = """
import sys, time
from sparkring._launch import launcher
from sparkring._launch import process_tree

list_children = process_tree.children

def children():
    time.sleep(0.6)
    return list_children()

process_tree.children = children
sys.exit(launcher.main())
"""


@ON_LINUX
def test_children_that_take_long_to_list(tmp_path):
    launcher = [sys.executable, "-c", SLOW_TO_LIST]
    job = Job(tmp_path, 2, FAMILY + "signal.pause()", launcher=launcher)
    job.wait_until_ready(6)
    job.process.kill()
    assert job.end() == -signal.SIGKILL


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


# A signal may come when Python has looked for one and is about to wait in the system call. So it
# does here each time: map calls the partials without a look in between.
JUST_BEFORE_THE_WAIT = """
import ctypes, functools
launcher, wait = os.getpid(), os.waitpid

def after_a_signal(*given):
    if os.getpid() != launcher:
        return wait(*given)
    os.waitpid = wait
    steps = [
        functools.partial(ctypes.CDLL(None).kill, launcher, signal.SIGTERM),
        functools.partial(wait, *given),
    ]
    return list(map(functools.partial.__call__, steps))[-1]

os.waitpid = after_a_signal"""


JUST_BEFORE_A_WRITE = """
import ctypes, functools, os, signal, sys
from sparkring._launch import launcher

libc, write = ctypes.CDLL(None), os.write
alarm = (ctypes.c_ulong * 16)(1 << signal.SIGALRM - 1)
others = (ctypes.c_ulong * 16)(~alarm[0])

def after_a_signal(target, text):
    os.write = write
    write(2, b"ready\\n")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    steps = [
        functools.partial(libc.sigsuspend, others),
        functools.partial(libc.pthread_sigmask, signal.SIG_UNBLOCK, alarm, None),
        functools.partial(write, target, text),
    ]
    return list(map(functools.partial.__call__, steps))[-1]

os.write = after_a_signal
sys.exit(launcher.main())
"""


def test_a_signal_just_before_the_launcher_waits():
    job = patched(JUST_BEFORE_THE_WAIT, sys.executable, "-c", WAIT)
    assert job.returncode == 128 + signal.SIGTERM


@ON_LINUX
def test_the_launcher_dies_just_before_a_write(tmp_path):
    code = "while True: print('x' * 100000)"
    job = Job(tmp_path, 1, code, launcher=[sys.executable, "-c", JUST_BEFORE_A_WRITE])
    assert job.process.stderr.readline() == b"ready\n"
    job.process.kill()
    assert job.end() == -signal.SIGKILL


FLOOD = """
import os, signal
signal.signal(signal.SIGTERM, lambda *_: os._exit(9))
print("ready")
while True:
    print("x" * 10000)
"""


def wait_until_stuck(job):
    """Wait until the pipe that nobody reads is full: it takes no more for a while."""
    held, before = 0, -1
    deadline = time.monotonic() + DEADLINE
    while (held < 1 << 15 or held != before) and time.monotonic() < deadline:
        time.sleep(0.2)
        before = held
        (held,) = array.array("i", fcntl.ioctl(job.process.stdout, termios.FIONREAD, bytes(4)))
    assert held == before


@ON_LINUX
def test_a_signal_while_nobody_reads(tmp_path):
    """The ranks end, and the job with them, with their exit code."""
    job = Job(tmp_path, 2, FLOOD)
    job.wait_until_ready(2)
    wait_until_stuck(job)
    job.process.terminate()
    assert job.process.wait(DEADLINE) == 9
    assert b"failed with exit code 9" in job.process.stderr.peek()
    job.end()


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
    wait_until_stuck(job)
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


def test_what_ends_by_itself_is_waited_for():
    patient = """
import sys
from sparkring._launch import launcher
from sparkring._launch import supervisor
supervisor.LINGER = 20
sys.exit(launcher.main())"""
    late = ["sh", "-c", "(read line <&3; echo late) 3<&0 & exec echo early"]
    job = subprocess.run(
        [sys.executable, "-c", patient, "-n", "1", *late],
        timeout=DEADLINE,
        input=b"go\n",
        capture_output=True,
        check=False,
    )
    assert job.returncode == 0
    assert lines(job.stdout) == ["[0] early", "[0] late"]
