# SPDX-License-Identifier: Apache-2.0
"""What ranks print: to their logs and the driver, whatever the driver and strangers do."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest
from sparkring.spark import relay
from sparkring.spark.output import Output, check_report

DEADLINE = 60

RANK = """
import json, os, sys
from sparkring.spark.capture import Capture
from sparkring.spark.output import Address
settings = json.loads(sys.argv[1])
address = Address(*settings["address"]) if settings["address"] else None
with Capture(settings["rank"], 0, address, settings["echo"]) as capture:
    exec(settings["work"])
    print("last words of", settings["rank"])
    lines = capture.finish()
print("after:", json.dumps(lines))
"""


@pytest.fixture
def output():
    shown = []
    output = Output("127.0.0.1", "127.0.0.1", 4, lambda *line: shown.append(line), report)
    output.shown = shown
    yield output
    output.close()
    assert not output.thread.is_alive()


reports = []


def report(*given):
    reports.append(given)


def play(work, address, rank=0, echo=True):
    """Be a rank that prints in a process of its own; gives its log, and what Capture told."""
    settings = {"work": work, "address": address, "rank": rank, "echo": echo}
    command = [sys.executable, "-c", RANK, json.dumps(settings)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=DEADLINE, check=False
    )
    return done.stdout.decode()


def test_lines_go_to_the_driver_and_the_log(output):
    log = play("print('one'); os.system('echo two'); os.write(2, b'three')", output.address, 2)
    output.close()
    lines = ["one", "two", "threelast words of 2"]
    assert output.shown == [(2, line) for line in lines]
    assert log.startswith("\n".join(lines) + "\n")
    assert log.endswith(f"after: {json.dumps(lines)}\n")


def test_without_a_log(output):
    log = play("print('one')", output.address, 1, echo=False)
    output.close()
    assert output.shown == [(1, "one"), (1, "last words of 1")]
    assert log == 'after: ["one", "last words of 1"]\n'


@pytest.mark.parametrize("echo", [True, False])
def test_a_driver_that_cannot_be_reached(echo):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nowhere = ("127.0.0.1", taken.getsockname()[1], "00" * 32)
    assert "one\nlast words of 0\n" in play("print('one')", nowhere, echo=echo)
    assert "one\nlast words of 0\n" in play("print('one')", None)


def test_a_driver_that_does_not_answer():
    """The rank prints far more than fits in between, and waits for nothing."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = ("127.0.0.1", mute.getsockname()[1], "00" * 32)
        log = play("for i in range(200000): print('line', i)", address)
    assert "line 199999\nlast words of 0\n" in log
    assert log.count("\n") == 200002


def test_a_driver_without_the_key(output):
    """It gets to see nothing, and shows nothing."""
    host, port, _ = output.address
    assert "one\nlast words of 0\n" in play("print('one')", (host, port, "00" * 32))
    output.close()
    assert output.shown == []


class SlowDriver(relay.Driver):
    """What its thread has made is some time in sight before the thread says so."""

    def connect(self, address, ready):
        kept = os.dup(ready)
        super().connect(address, ready)
        time.sleep(2)
        os.close(kept)


def test_a_connection_that_is_seen_before_it_is_told_of(output, monkeypatch, tmp_path):
    monkeypatch.setattr(relay, "Driver", SlowDriver)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reader, writer = os.pipe()
    ours.send(
        json.dumps({"rank": 3, "attempt": 0, "echo": True, **output.address._asdict()}).encode()
    )
    with open(tmp_path / "log", "wb") as log, ours:
        thread = threading.Thread(target=relay.Relay(reader, theirs, log.fileno()).run)
        thread.start()
        os.write(writer, b"one\n")
        time.sleep(1)
        os.write(writer, b"two\n")
        os.close(writer)
        ours.send(relay.END)
        thread.join(DEADLINE)
    os.close(reader)
    output.close()
    assert not thread.is_alive()
    assert output.shown == [(3, "one"), (3, "two")]


def test_lines_that_come_too_fast_are_counted(output, tmp_path):
    """The driver is busy until all has been printed, and there is no room for that."""
    done = tmp_path / "done"

    def show(rank, line):
        output.shown.append(line)
        deadline = time.monotonic() + DEADLINE
        while not done.exists() and time.monotonic() < deadline:
            time.sleep(0.01)

    output.show = show
    output.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    work = "os.write(1, b''.join(b'%09d%090d\\n' % (i, 0) for i in range(50000)))"
    play(f"{work}; open({str(done)!r}, 'w').close()", output.address)
    output.close(DEADLINE)
    count = dropped = 0
    for line in output.shown:
        if line.startswith("..."):
            dropped += int(line.split()[1])
        elif line[:9].isdecimal():
            assert int(line[:9]) == count + dropped
            count += 1
    assert count > 1000
    assert dropped > 1000


def test_reports(output):
    reports.clear()
    play("capture.report(3, 10, {'loss': 0.5})", output.address, 3)
    output.close()
    assert reports == [(3, 3, 10, {"loss": 0.5})]
    for wrong in ([1, 2], [None, 3, {}], ["1", 3, {}], [1, 2, 3], {}):
        with pytest.raises(ValueError, match="no report"):
            check_report(wrong)


def test_a_rank_that_is_killed(output):
    play("print('here'); os.kill(os.getpid(), 9)", output.address, 1)
    deadline = time.monotonic() + DEADLINE
    while 1 not in output.gone and time.monotonic() < deadline:
        time.sleep(0.01)
    assert output.gone == {1: ["here"]}


def is_hung_up_on(peer, data):
    """Whether the driver ends the connection, which it may do before it has read all."""
    try:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        return peer.recv(1) == b""
    except OSError as error:
        return error.errno in (errno.ENOTCONN, errno.ECONNRESET, errno.EPIPE)


def test_strangers(output):
    sent = [b"", b"GET / HTTP/1.1\r\n\r\n" * 20, os.urandom(relay.HELLO.size), b"x" * 100000]
    for data in sent:
        with socket.create_connection(output.address[:2]) as stranger:
            stranger.settimeout(DEADLINE)
            assert len(stranger.recv(relay.NONCE)) == relay.NONCE
            assert is_hung_up_on(stranger, data)
    many = [socket.create_connection(output.address[:2]) for _ in range(200)]
    assert "one\n" in play("print('one')", output.address)
    for stranger in many:
        stranger.close()
    play("print('two')", output.address)
    output.close()
    assert (0, "two") in output.shown


def test_frames_that_were_changed(output):
    """A rank of the job, as far as it proves; its frames are not."""
    key = bytes.fromhex(output.address.key)
    names = b"\0" * 16
    nonce = os.urandom(relay.NONCE)
    for change in (0, 7, -1):
        with socket.create_connection(output.address[:2]) as peer:
            theirs = peer.recv(relay.NONCE)
            proof = relay.prove(key, b"rank", theirs, nonce, names)
            peer.sendall(relay.HELLO.pack(relay.MAGIC, 0, 0, 0, nonce, proof))
            assert peer.recv(32) == relay.prove(key, b"driver", nonce, theirs, names)
            session = relay.prove(key, b"session", theirs, nonce, names)
            good = relay.seal(session, 0, relay.LINES, b"good")
            bad = bytearray(relay.seal(session, 1, relay.LINES, b"bad"))
            bad[change] ^= 1
            assert is_hung_up_on(peer, good + bytes(bad) + good)
    output.close()
    assert output.shown == [(0, "good")] * 3
