# SPDX-License-Identifier: Apache-2.0
"""sparkring-run: what ranks print and are given, and the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from launcher_jobs import ON_LINUX, lines, python
from ranks import DEADLINE, LAUNCHER, launch

pytestmark = pytest.mark.quick

# ---- Output


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


def limited(limit, size, *command):
    """Run a job under a limit of the shell."""
    return subprocess.run(
        ["sh", "-c", f'ulimit {limit}; exec "$@"', "sh", *LAUNCHER, "-n", str(size), *command],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # those files may not grow, either
        timeout=DEADLINE,
        capture_output=True,
        check=False,
    )


def test_no_place_for_the_token():
    job = limited("-f 0", 2, "true")
    assert job.returncode == 1
    assert job.stderr == b"sparkring-run: cannot run the job: File too large\n"


def test_too_few_descriptors():
    """The ranks that have started end."""
    job = limited("-n 30", 40, "sleep", "60")
    assert job.returncode == 126
    assert job.stderr == b"sparkring-run: cannot run 'sleep': Too many open files\n"
