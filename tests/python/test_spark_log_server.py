# SPDX-License-Identifier: Apache-2.0
"""The driver shows what ranks print, whatever outsiders and forged payloads do."""

from __future__ import annotations

import contextlib
import math
import socket
import subprocess
import sys
import threading
import time

import pytest
from log_ranks import DEADLINE, run_rank
from mutations import mutations
from sparkring.spark import _driver_link as driver_link
from sparkring.spark._driver_link import DriverLink
from sparkring.spark._log_server import check_report


def listeners():
    """The ports of this host on which somebody listens, in the range of the driver's."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        entries = [line.split() for line in table][1:]
    ports = [
        int(local.rpartition(":")[2], 16) for _, local, _, state, *_ in entries if state == "0A"
    ]
    return [port for port in ports if 21000 <= port <= 31999]


@pytest.mark.parametrize(
    "wrong",
    [
        *([1, 2], [None, 3, {}], ["1", 3, {}], [1, 2, 3], {}),
        *([10**400, 3, {}], [1, 10**400, {}], [float("nan"), 3, {}], [1, float("inf"), {}]),
        *([1, 2, {"loss": None}], [1, 2, {"loss": "low"}], [1, 2, {"loss": 10**400}]),
    ],
)
def test_what_is_no_report(wrong):
    with pytest.raises(ValueError, match="no report"):
        check_report(wrong)


@pytest.mark.parametrize("wrong", [b'[1, 2, {"loss": null}]', b"[" * 30000, b"[1, 2, {}]"])
def test_a_task_that_makes_us_fail(log_server, wrong):
    """Lines of other tasks are shown as before."""

    def fail(*given):
        raise TypeError(given)

    log_server.progress = fail
    link = DriverLink(log_server.address, 0, driver_link.TASK, DEADLINE)
    link.send(driver_link.PROGRESS, wrong)
    run_rank("print('one')", log_server.address, 1)
    link.ring.abort("the test has ended")
    log_server.close()
    assert log_server.shown_lines == [(1, "one"), (1, "last words of 1")]


GARBAGE = [b"", b"GET / HTTP/1.1\r\n\r\n" * 20, b"x" * 100_000]


@pytest.mark.parametrize("sent", GARBAGE, ids=["silence", "a request", "much"])
def test_outsiders(log_server, sent):
    """They come first and again, to each port, and the lines of the rank are shown."""
    over = threading.Event()
    full = threading.Event()

    def crowd():
        with contextlib.ExitStack() as outsiders:
            while not over.wait(0.02):
                for port in listeners() * 5:
                    outsider = outsiders.enter_context(socket.socket())
                    outsider.setblocking(False)
                    with contextlib.suppress(OSError):
                        outsider.connect_ex(("127.0.0.1", port))
                        outsider.send(sent)
                full.set()

    thread = threading.Thread(target=crowd)
    thread.start()
    assert full.wait(DEADLINE)
    try:
        run_rank("print('one'); import time; time.sleep(1)", log_server.address, echo=False)
    finally:
        over.set()
        thread.join(DEADLINE)
    log_server.close()
    assert log_server.shown_lines == [(0, "one"), (0, "last words of 0")]


def test_the_last_rank_ends_the_server_at_once(log_server):
    """Tasks that never come delay its end by no more than a moment."""
    run_rank("print('one')", log_server.address)
    begin = time.monotonic()
    log_server.close()
    assert time.monotonic() - begin < DEADLINE / 60
    assert log_server.shown_lines == [(0, "one"), (0, "last words of 0")]


WORDS = [b"NaN", b"-Infinity", b"1e999", b"null", b"true", b'"', b"[", b"{}", b",", b"\n"]
PAYLOADS = [
    (driver_link.LINES, b"one\ntwo\xff"),
    (driver_link.PROGRESS, b'[3, 10.5, {"loss": 0.25, "\\u00e9": NaN, "more": -1e300}]'),
    (driver_link.DROPPED, b"123"),
    (driver_link.GONE, b"the last\nlines"),
]


@pytest.mark.parametrize(("kind", "sent"), PAYLOADS, ids=["lines", "report", "dropped", "gone"])
def test_payloads_that_make_no_sense(log_server, kind, sent):
    """Of a task that has proved itself: shown as text, or the one refusal."""
    taken = []
    log_server.progress = lambda *given: taken.append(given)
    for pieces in mutations(sent, 3000, WORDS):
        with contextlib.suppress(ValueError):
            log_server.take(1, kind, b"".join(pieces))
        if log_server.shown.qsize() > 100:
            time.sleep(0.01)
    log_server.close()
    for rank, line in log_server.shown_lines:
        assert rank == 1
        assert "\n" not in line
    for rank, step, total, metrics in taken:
        assert rank == 1
        assert all(math.isfinite(bound) for bound in (step, total) if bound is not None)
        assert all(isinstance(value, (int, float)) for value in metrics.values())
    assert (kind == driver_link.PROGRESS) == bool(taken)


@pytest.mark.parametrize(
    ("ranks", "hard", "printed"),
    [
        (4, 600, "550"),
        (300, 1200, "1112"),
        (
            300,
            1000,
            "live output is off: the ranks need 1112 open files on the driver, whose hard limit is"
            " 1000: raise it with ulimit -Hn; see the executor logs",
        ),
    ],
)
def test_open_files(ranks, hard, printed):
    """The soft limit rises when the links of all ranks need it; the hard limit ends live output."""
    script = f"""
import resource
from types import SimpleNamespace
from sparkring.spark._attempts import listening
resource.setrlimit(resource.RLIMIT_NOFILE, (550, {hard}))
spark = SimpleNamespace(reach=lambda: "127.0.0.1")
display = SimpleNamespace(line=print, progress=print, notify=print)
with listening(spark, {ranks}, display) as server:
    if server is not None:
        print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == printed
