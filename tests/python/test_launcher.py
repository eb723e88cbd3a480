# SPDX-License-Identifier: Apache-2.0
"""sparkring-run: output, exit codes, signals, and that nothing survives it.

Whether a process is gone is seen by a fifo that it holds open: reading that ends when the last of
them has died, so nothing here has to poll or to guess how long it takes.
"""

from __future__ import annotations

import array
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import termios
import threading
import time
from pathlib import Path

import pytest
from ranks import DEADLINE, LAUNCHER, launch

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs prctl, which Linux has")


def python(size, code, **options):
    return launch(size, sys.executable, "-c", code, **options)


def lines(output):
    return sorted(output.decode().splitlines())


# ---- LineOutput


def test_prefix():
    job = python(3, "import os, sys; print('out'); print('err', file=sys.stderr)")
    assert job.returncode == 0
    assert lines(job.stdout) == ["[0] out", "[1] out", "[2] out"]
    assert lines(job.stderr) == ["[0] err", "[1] err", "[2] err"]


def test_a_last_line_without_end():
    job = python(2, "import sys; sys.stdout.write('first\\nlast')")
    assert lines(job.stdout) == ["[0] first", "[0] last", "[1] first", "[1] last"]


def test_pieces_of_lines_do_not_mix():
    code = """
import os
for _ in range(50):
    for _ in range(20):
        os.write(1, os.environ["SPARKRING_RANK"].encode() * 50)
    os.write(1, b"\\n")
"""
    job = python(4, code)
    expected = [f"[{rank}] {str(rank) * 1000}" for rank in range(4) for _ in range(50)]
    assert lines(job.stdout) == expected


def test_bytes_pass_unchanged():
    job = python(1, "import os; os.write(1, bytes(range(256)) + b'\\r\\n\\n')")
    assert job.stdout == b"[0] " + bytes(range(10)) + b"\n[0] " + bytes(range(11, 256)) + (
        b"\r\n[0] \n"
    )


def test_much_output():
    job = python(2, "print('x' * 3_000_000); print('y' * 10)")
    assert lines(job.stdout) == [
        f"[{rank}] {c}" for rank in "01" for c in ("x" * 3_000_000, "y" * 10)
    ]


def test_the_reader_goes_away():
    code = "while True: print('x' * 1000)"
    job = subprocess.Popen(
        [*LAUNCHER, "-n", "2", sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    job.stdout.readline()
    job.stdout.close()
    assert job.wait(DEADLINE) == 128 + signal.SIGPIPE


@ON_LINUX
def test_the_disk_is_full():
    code = "import signal; print('x'); signal.pause()"
    with open("/dev/full", "wb") as full:
        job = python(2, code, capture_output=False, stdout=full, stderr=subprocess.PIPE)
        assert python(1, code, capture_output=False, stdout=full, stderr=full).returncode == 1
    assert job.returncode == 1
    assert job.stderr == (
        b"sparkring-run: cannot write the output of the ranks: No space left on device;"
        b" ending the ranks\n"
    )


def test_a_file_may_not_grow(tmp_path):
    limited = 'ulimit -f 1; "$@" >"$0"'
    code = "import signal; print('x' * 5000); signal.pause()"
    command = [*LAUNCHER, "-n", "1", sys.executable, "-c", code]
    job = subprocess.run(
        ["sh", "-c", limited, tmp_path / "out", *command],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # those files may not grow, either
        timeout=DEADLINE,
        capture_output=True,
        check=False,
    )
    assert job.returncode == 1
    assert b"cannot write the output of the ranks: File too large" in job.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors(closed):
    """They are open on nothing, for us and for the ranks, who can use all three."""
    code = "import os, sys; sys.exit(len([os.fstat(n) for n in range(3)]) + len(os.read(0, 9)))"
    command = [*LAUNCHER, "-n", "1", sys.executable, "-c", "print('x');" + code]
    job = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *command],
        timeout=DEADLINE,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert job.returncode == 3, job.stderr
    assert job.stdout == (b"" if ">&- " in closed or closed == ">&-" else b"[0] x\n")


def test_standard_input():
    job = python(2, "import sys; print(repr(sys.stdin.read()))", input=b"given")
    assert lines(job.stdout) == ["[0] 'given'", "[1] ''"]


def test_environment(monkeypatch):
    monkeypatch.setenv("SPARKRING_ROOT_ADDRESS", "elsewhere")
    monkeypatch.setenv("SPARKRING_JOB", "mine")
    code = """
import os
print(*(os.environ.get("SPARKRING_" + name) for name in
    "RANK SIZE ADDRESSES ROOT_ADDRESS JOB PORTS TIMEOUT ENCRYPTION".split()))
print(len(bytes.fromhex(open(os.environ["SPARKRING_TOKEN_FILE"]).read())), "bytes")
"""
    options = ["--timeout", "9", "--ports", "5000-5009", "--encryption"]
    job = launch(2, *options, "--", sys.executable, "-c", code)
    shared = "2 127.0.0.1,127.0.0.1 None mine 5000-5009 9 1"
    assert lines(job.stdout) == [
        f"[0] 0 {shared}",
        "[0] 32 bytes",
        f"[1] 1 {shared}",
        "[1] 32 bytes",
    ]


def test_tokens_are_fresh():
    code = "import os; print(open(os.environ['SPARKRING_TOKEN_FILE']).read())"
    tokens = [line[4:] for _ in range(2) for line in lines(python(2, code).stdout)]
    assert tokens[0] == tokens[1] != tokens[2] == tokens[3]


def test_the_token_is_in_no_environment(monkeypatch):
    """Not in that of a rank nor of the launcher; and what the file held goes with the job."""
    monkeypatch.setenv("SPARKRING_TOKEN", "that of another job")
    code = """
import os, pathlib
path = os.environ["SPARKRING_TOKEN_FILE"]
token, mode = open(path, "rb").read(), os.stat(path).st_mode & 0o777
for process in ("self", os.getppid()):
    everything = pathlib.Path(f"/proc/{process}/environ").read_bytes()
    assert token not in everything, process
print(path, oct(mode), "SPARKRING_TOKEN" in os.environ)
"""
    path, *rest = lines(python(1, code).stdout)[0].split()[1:]
    assert rest == ["0o400", "False"]
    assert not Path(path).exists()


def test_what_stands_between_may_close_descriptors():
    """As Python's subprocess does; and a program may form a ring again."""
    inner = (
        "import sparkring\nfor _ in range(2):\n  with sparkring.init() as c: print(c.authenticated)"
    )
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}], check=True)"
    assert sorted(lines(python(2, code).stdout)) == ["[0] True"] * 2 + ["[1] True"] * 2


# ---- The command line


def test_help():
    job = subprocess.run([*LAUNCHER, "--help"], capture_output=True, check=True)
    options = (b"--timeout", b"--ports", b"--encryption")
    for text in (b"sparkring-run -n SIZE", *options, b"128 + number"):
        assert text in job.stdout


def test_the_console_script():
    script = Path(sysconfig.get_path("scripts")) / "sparkring-run"
    job = subprocess.run([script, "-n", "1", "echo", "-n", "5"], capture_output=True, check=True)
    assert job.stdout == b"[0] 5\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], b"-n/--size"),
        (["-n", "0", "true"], b"'0' is not 1 or more"),
        (["-n", "two", "true"], b"'two' is not 1 or more"),
        (["-n", "2"], b"the command is missing, as in: sparkring-run -n 4 python train.py"),
    ],
)
def test_usage_errors(arguments, text):
    job = subprocess.run([*LAUNCHER, *arguments], capture_output=True, check=False)
    assert job.returncode == 2
    assert text in job.stderr


def test_command_not_found(tmp_path):
    job = launch(2, "no-such-command")
    assert job.returncode == 127
    assert job.stderr == (
        b"sparkring-run: cannot run 'no-such-command': No such file or directory\n"
    )
    job = launch(2, str(tmp_path))
    assert job.returncode == 126
    assert b"Permission denied" in job.stderr


def patched(patch, *command):
    """Run the launcher with its code changed before."""
    code = "import os, signal, subprocess, sys, sparkring._launch.launcher as l\n"
    code += f"{patch}\nsys.exit(l.main())"
    return subprocess.run(
        [sys.executable, "-c", code, "-n", "2", *command],
        timeout=DEADLINE,
        capture_output=True,
        check=False,
    )


def test_no_place_for_the_token():
    job = patched("def full(): raise OSError(28, 'No space')\nl.nameless_file = full", "true")
    assert job.returncode == 1
    assert job.stderr == b"sparkring-run: cannot run the job: [Errno 28] No space\n"


def test_a_defect_is_told_and_ends_the_ranks(tmp_path):
    patch = """
from sparkring._launch.supervisor import Supervisor
def reap(self): raise KeyError('lost')
Supervisor.reap = reap"""
    job = patched(patch, sys.executable, "-c", WAIT)
    assert job.returncode == 1
    for text in (b"this is a defect of sparkring", b"Traceback", b"KeyError: 'lost'"):
        assert text in job.stderr


def test_a_rank_that_cannot_be_prepared():
    patch = """
def setpgid(*_): raise PermissionError
os.setpgid = setpgid"""
    job = patched(patch, "true")
    assert job.returncode == 126
    assert job.stderr == b"sparkring-run: cannot run 'true': Exception occurred in preexec_fn.\n"


def test_a_signal_as_the_job_ends():
    """There is nobody to pass it on to, and the exit code is that of the job."""
    patch = """
launcher, wait = os.getpid(), os.waitpid
def waitpid(*given):
    result = wait(*given)
    if os.getpid() == launcher and result[0] > 0:
        os.kill(launcher, signal.SIGTERM)
    return result
os.waitpid = waitpid"""
    job = patched(patch, "sh", "-c", "exit 5")
    assert job.returncode == 5, job.stderr


# ---- Ends


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


# ---- Signals and survivors


class Job:
    """A job whose ranks, and what they start, hold a fifo open until they die."""

    def __init__(self, folder, size, code, *prefix, launcher=LAUNCHER):
        fifo = str(folder / "fifo")
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(reader, True)
        self.fifo = os.fdopen(reader, "rb")
        hold = f"import os; os.open({fifo!r}, os.O_WRONLY)\n"
        self.process = subprocess.Popen(
            [*launcher, "-n", str(size), *prefix, sys.executable, "-c", hold + code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def wait_until_ready(self, count):
        """Wait for as many lines that say "ready"."""
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
    """The others are ended; what they have said is there for who goes on reading."""
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
