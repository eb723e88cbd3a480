# SPDX-License-Identifier: Apache-2.0
"""What ranks print goes to their logs and the driver, whatever the driver does."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest
from log_ranks import DEADLINE, reports, run_rank
from sparkring.spark import _log_forwarder as log_forwarder
from sparkring.spark._log_server import check_report
from sparkring.spark._stdio_redirect import StdioRedirect


@pytest.mark.parametrize("log_server", [False, True], indirect=True)
def test_lines_go_to_the_driver_and_the_log(log_server):
    log = run_rank(
        "print('one'); os.system('echo two'); os.write(2, b'three')", log_server.address, 2
    )
    log_server.close()
    lines = ["one", "two", "threelast words of 2"]
    assert log_server.shown == [(2, line) for line in lines]
    assert log.startswith("\n".join(lines) + "\n")
    assert log.endswith(f"after: {json.dumps(lines)}\n")


def test_without_a_log(log_server):
    log = run_rank("print('one')", log_server.address, 1, echo=False)
    log_server.close()
    assert log_server.shown == [(1, "one"), (1, "last words of 1")]
    assert log == 'after: ["one", "last words of 1"]\n'


@pytest.mark.parametrize("echo", [True, False])
def test_a_driver_that_cannot_be_reached(echo):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nowhere = ("127.0.0.1", taken.getsockname()[1], "00" * 32)
    assert "one\nlast words of 0\n" in run_rank("print('one')", nowhere, echo=echo)
    assert "one\nlast words of 0\n" in run_rank("print('one')", None)


def test_a_driver_that_does_not_answer():
    """The rank prints far more than fits in between, and waits for nothing."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = ("127.0.0.1", mute.getsockname()[1], "00" * 32)
        log = run_rank("for i in range(200000): print('line', i)", address)
    assert "line 199999\nlast words of 0\n" in log
    assert log.count("\n") == 200002


def test_a_driver_without_the_key(log_server):
    """It gets to see nothing, and shows nothing."""
    host, port, *_ = log_server.address
    assert "one\nlast words of 0\n" in run_rank("print('one')", (host, port, "00" * 32))
    log_server.close()
    assert log_server.shown == []


class SlowDriver(log_forwarder.Driver):
    """What its thread has made is some time in sight before the thread says so."""

    def connect(self, address, ready):
        kept = os.dup(ready)
        super().connect(address, ready)
        time.sleep(2)
        os.close(kept)


def test_a_connection_that_is_seen_before_it_is_reported(log_server, monkeypatch, tmp_path):
    monkeypatch.setattr(log_forwarder, "Driver", SlowDriver)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reader, writer = os.pipe()
    ours.send(
        json.dumps({"rank": 3, "attempt": 0, "echo": True, **log_server.address._asdict()}).encode()
    )
    with open(tmp_path / "log", "wb") as log, ours:
        thread = threading.Thread(
            target=log_forwarder.LogForwarder(reader, theirs, log.fileno()).run
        )
        thread.start()
        os.write(writer, b"one\n")
        time.sleep(1)
        os.write(writer, b"two\n")
        os.close(writer)
        ours.send(log_forwarder.END)
        thread.join(DEADLINE)
    os.close(reader)
    log_server.close()
    assert not thread.is_alive()
    assert log_server.shown == [(3, "one"), (3, "two")]


def test_lines_that_come_too_fast_are_counted(log_server, tmp_path):
    """The driver is busy until all has been printed, and there is no room for that."""
    done = tmp_path / "done"

    def show(rank, line):
        log_server.shown.append(line)
        deadline = time.monotonic() + DEADLINE
        while not done.exists() and time.monotonic() < deadline:
            time.sleep(0.01)

    log_server.show = show
    log_server.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    work = "os.write(1, b''.join(b'%09d%090d\\n' % (i, 0) for i in range(50000)))"
    run_rank(f"{work}; open({str(done)!r}, 'w').close()", log_server.address)
    log_server.close(DEADLINE)
    count = dropped = 0
    for line in log_server.shown:
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
    (_, line), last = log_server.shown
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
        Ending(0, 0, None, True).report(1, 2, {})
        assert theirs.recv(100) == log_forwarder.PROGRESS + b"[1, 2, {}]"


@pytest.mark.parametrize("log_server", [False, True], indirect=True)
def test_a_rank_that_is_killed(log_server):
    run_rank("print('here'); os.kill(os.getpid(), 9)", log_server.address, 1)
    deadline = time.monotonic() + DEADLINE
    while 1 not in log_server.hosts and time.monotonic() < deadline:
        time.sleep(0.01)
    assert log_server.last_lines(1) == ["here"]
    assert log_server.hosts == {1: "127.0.0.1"}


def test_a_driver_that_hangs_up_at_first(log_server):
    """As on one of too many; the log forwarder connects again, with its queue."""
    turned_away = []

    def accept():
        log_server.accept = accept_all
        connection, _ = log_server.listener.accept()
        connection.close()
        turned_away.append(1)

    accept_all, log_server.accept = log_server.accept, accept
    run_rank("print('one'); import time; time.sleep(1)", log_server.address, echo=False)
    log_server.close()
    assert turned_away
    assert log_server.shown == [(0, "one"), (0, "last words of 0")]


def test_ended_log_forwarders_are_reaped():
    """A worker of Spark lives on after its ranks, and must not keep zombies."""
    code = (
        "import os\n"
        "from sparkring.spark import _stdio_redirect as redirect\n"
        "for rank in range(3):\n"
        "    with redirect.StdioRedirect(rank, 0, None, None): pass\n"
        "while redirect.running: redirect.reap(10)\n"
        "try: print(os.waitpid(-1, os.WNOHANG))\n"
        "except ChildProcessError: print('none is left')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    assert done.stdout == b"none is left\n"
