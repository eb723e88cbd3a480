# SPDX-License-Identifier: Apache-2.0
"""What ranks print goes to their logs and the driver, whatever the driver does."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time

import pytest
from log_ranks import DEADLINE, reports, run_rank
from sparkring.spark import _log_forwarder as log_forwarder
from sparkring.spark._log_server import check_report
from sparkring.spark._stdio_redirect import StdioRedirect


def test_lines_go_to_the_driver_and_the_log(log_server):
    log = run_rank(
        "print('one'); os.system('echo two'); os.write(2, b'three')", log_server.address, 2
    )
    log_server.close()
    lines = ["one", "two", "threelast words of 2"]
    assert log_server.shown_lines == [(2, line) for line in lines]
    assert log.startswith("\n".join(lines) + "\n")
    assert log.endswith(f"after: {json.dumps(lines)}\n")


def test_without_a_log(log_server):
    log = run_rank("print('one')", log_server.address, 1, echo=False)
    log_server.close()
    assert log_server.shown_lines == [(1, "one"), (1, "last words of 1")]
    assert log == 'after: ["one", "last words of 1"]\n'


KEY = "00" * 32


@pytest.mark.parametrize("echo", [True, False])
def test_a_driver_that_cannot_be_reached(echo):
    """The output arrives in the log, as with a firewall between."""
    assert "one\nlast words of 0\n" in run_rank("print('one')", ("127.0.0.1", KEY), echo=echo)
    assert "one\nlast words of 0\n" in run_rank("print('one')", None)


def test_a_rank_that_prints_after_the_connection_has_failed():
    """Nothing was queued then, and the lines are in the log."""
    work = "import time; time.sleep(12); print('late')"
    assert "late\nlast words of 0\n" in run_rank(work, ("127.0.0.1", KEY), echo=False)


def test_a_driver_that_does_not_answer():
    """The rank prints far more than fits in between, and waits for nothing."""
    log = run_rank("for i in range(200000): print('line', i)", ("127.0.0.1", KEY))
    assert "line 199999\nlast words of 0\n" in log
    assert log.count("\n") == 200002


def test_a_driver_without_the_key(log_server):
    """It gets to see nothing, and shows nothing."""
    assert "one\nlast words of 0\n" in run_rank("print('one')", ("127.0.0.1", KEY))
    log_server.close()
    assert log_server.shown_lines == []


def test_bytes_that_are_no_text(log_server):
    """Each line stays a line; a long one may come in pieces."""
    run_rank(r"os.write(1, b'a\xff\xc3\nb\0c\r\n\n' + b'x' * 9000 + b'\n')", log_server.address)
    log_server.close()
    lines = [line for _, line in log_server.shown_lines]
    assert lines[:3] == ["a\ufffd\ufffd", "b\0c\r", ""]
    assert "".join(lines[3:-1]) == "x" * 9000


def test_lines_of_a_process_that_is_left_behind(log_server):
    """It prints when the rank has ended, into the log."""
    work = "if os.fork() == 0: import time; time.sleep(1); print('late', flush=True); os._exit(0)"
    log = run_rank(work, log_server.address, echo=False)
    log_server.close()
    assert log_server.shown_lines == [(0, "last words of 0")]
    assert log.endswith("late\n")


def test_a_driver_that_ends(log_server):
    """The lines that it has not received are in the log."""
    log_server.take = lambda *given: False  # closes the link at the first line
    work = "import time\nfor line in 'abcde': print(line); time.sleep(1)"
    log = run_rank(work, log_server.address, echo=False)
    assert "d\ne\nlast words of 0\n" in log


def test_50000_lines_a_second_without_loss(log_server):
    work = """
import time
begin = time.monotonic()
for i in range(100_000):
    print("line", i)
    if i % 500 == 0:
        time.sleep(max(0, begin + i / 50_000 - time.monotonic()))
"""
    run_rank(work, log_server.address, 1, echo=False)
    log_server.close()
    expected = [*(f"line {i}" for i in range(100_000)), "last words of 1"]
    assert [line for _, line in log_server.shown_lines] == expected


def test_lines_that_come_too_fast_are_counted(log_server, tmp_path):
    """The screen is busy until all has been printed, and there is no room for that."""
    done = tmp_path / "done"

    def show(rank, line):
        log_server.shown_lines.append(line)
        deadline = time.monotonic() + DEADLINE
        while not done.exists() and time.monotonic() < deadline:
            time.sleep(0.01)

    log_server.show = show
    work = "os.write(1, b''.join(b'%09d%0990d\\n' % (i, 0) for i in range(100000)))"
    run_rank(f"{work}; open({str(done)!r}, 'w').close()", log_server.address, echo=False)
    log_server.close(DEADLINE)
    count = dropped = 0
    for line in log_server.shown_lines:
        if line.startswith("..."):
            dropped += int(line.split()[1])
        elif line[:9].isdecimal():
            assert int(line[:9]) == count + dropped
            count += 1
    assert count > 1000
    assert dropped > 1000


def test_reports(log_server):
    reports.clear()
    run_rank("redirect.report(3, 10, {'loss': 0.5})", log_server.address, 3)
    log_server.close()
    assert reports == [(3, 3, 10, {"loss": 0.5})]
    assert check_report([1, None, {"loss": float("inf")}]) == (1, None, {"loss": float("inf")})


def test_a_report_that_is_too_long(log_server):
    reports.clear()
    long = "{f'metric {i}': 1.0 for i in range(5000)}"
    work = (
        f"try: redirect.report(1, 2, {long})\nexcept Exception as error: print(error)\n"
        "redirect.report(2, 2, {})"
    )
    run_rank(work, log_server.address)
    log_server.close()
    (_, line), last = log_server.shown_lines
    assert line.startswith("this report of 5000 metrics takes ")
    assert last == (0, "last words of 0")
    assert reports == [(0, 2, 2, {})]


def test_a_report_while_the_capture_ends():
    """Another thread ends it as soon as it has been looked at."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    values = [ours]

    class Ending(StdioRedirect):
        control = property(lambda self: values.pop() if values else None, lambda self, value: None)

    with ours, theirs:
        theirs.settimeout(DEADLINE)
        Ending(0, None, True).report(1, 2, {})
        assert theirs.recv(100) == log_forwarder.PROGRESS + b"[1, 2, {}]"


def test_a_rank_that_is_killed(log_server):
    run_rank("print('here'); os.kill(os.getpid(), 9)", log_server.address, 1)
    deadline = time.monotonic() + DEADLINE
    while 1 not in log_server.hosts and time.monotonic() < deadline:
        time.sleep(0.01)
    assert log_server.last_lines(1) == ["here"]
    assert log_server.hosts == {1: "127.0.0.1"}


def test_ended_log_forwarders_are_reaped():
    """A worker of Spark lives on after its ranks, and must not keep zombies."""
    code = (
        "import os\n"
        "from sparkring.spark import _stdio_redirect as redirect\n"
        "for rank in range(3):\n"
        "    with redirect.StdioRedirect(rank, None, None): pass\n"
        "while redirect.running: redirect.reap(10)\n"
        "try: print(os.waitpid(-1, os.WNOHANG))\n"
        "except ChildProcessError: print('none is left')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    assert done.stdout == b"none is left\n"
