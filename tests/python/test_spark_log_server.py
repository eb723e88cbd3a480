# SPDX-License-Identifier: Apache-2.0
"""The driver shows what ranks print, whatever strangers and bytes that were changed do."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import socket
import threading
import time
import types

import pytest
from log_ranks import DEADLINE, run_rank
from mutations import mutations
from sparkring.spark import _log_forwarder as log_forwarder
from sparkring.spark._log_server import PAUSE, PENDING, Peer, check_report


def is_hung_up_on(peer, data):
    """Whether the driver ends the connection, which it may do before it has read all."""
    try:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        return peer.recv(1) == b""
    except OSError as error:
        return error.errno in (errno.ENOTCONN, errno.ECONNRESET, errno.EPIPE)


def introduce(peer, log_server):
    """Prove to be a rank of the job, rank 0; gives the key of the frames."""
    key = bytes.fromhex(log_server.address.key)
    names = b"\0" * 16
    nonce = os.urandom(log_forwarder.NONCE)
    theirs = peer.recv(log_forwarder.NONCE)
    proof = log_forwarder.prove(key, b"rank", theirs, nonce, names)
    peer.sendall(log_forwarder.HELLO.pack(log_forwarder.MAGIC, 0, 0, 0, nonce, proof))
    assert peer.recv(32) == log_forwarder.prove(key, b"driver", nonce, theirs, names)
    return log_forwarder.prove(key, b"session", theirs, nonce, names)


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
def test_a_peer_that_makes_us_fail(log_server, wrong):
    """Its connection is closed; lines of other peers are shown as before."""

    def fail(*given):
        raise TypeError(given)

    log_server.progress = fail
    with socket.create_connection(log_server.address[:2]) as peer:
        session = introduce(peer, log_server)
        assert is_hung_up_on(peer, log_forwarder.seal(session, 0, log_forwarder.PROGRESS, wrong))
    run_rank("print('one')", log_server.address, 1)
    log_server.close()
    assert log_server.shown == [(1, "one"), (1, "last words of 1")]


def test_strangers(log_server):
    sent = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n" * 20,
        os.urandom(log_forwarder.HELLO.size),
        b"x" * 100000,
    ]
    for data in sent:
        with socket.create_connection(log_server.address[:2]) as stranger:
            stranger.settimeout(DEADLINE)
            assert len(stranger.recv(log_forwarder.NONCE)) == log_forwarder.NONCE
            assert is_hung_up_on(stranger, data)
    many = [socket.create_connection(log_server.address[:2]) for _ in range(200)]
    assert "one\n" in run_rank("print('one')", log_server.address)
    for stranger in many:
        stranger.close()
    run_rank("print('two')", log_server.address)
    log_server.close()
    assert (0, "two") in log_server.shown


def test_strangers_who_keep_silent_and_come_again(log_server):
    """More strangers than there is room for, at any time; the lines of the rank are shown."""
    over = threading.Event()
    full = threading.Event()

    def crowd():
        held = []
        while not over.is_set():
            held = [stranger for stranger in held if not has_ended(stranger)]
            while len(held) < PENDING + 6:
                held.append(socket.create_connection(log_server.address[:2]))
            full.set()
            over.wait(0.02)
        for stranger in held:
            stranger.close()

    thread = threading.Thread(target=crowd)
    thread.start()
    assert full.wait(DEADLINE)
    try:
        run_rank("print('one'); import time; time.sleep(1)", log_server.address, echo=False)
    finally:
        over.set()
        thread.join(DEADLINE)
    log_server.close()
    assert log_server.shown == [(0, "one"), (0, "last words of 0")]


def has_ended(stranger):
    """Whether the driver has closed the connection of a stranger, which is closed then, too."""
    try:
        if stranger.recv(64, socket.MSG_DONTWAIT):
            return False
    except BlockingIOError:
        return False
    except OSError:
        pass
    stranger.close()
    return True


def test_no_descriptor_is_left(log_server):
    """Newcomers wait, and the thread does not spin; then they are accepted."""
    calls = []

    class Listener:
        def __init__(self, listener):
            self.listener = listener

        def accept(self):
            calls.append(1)
            raise OSError(errno.EMFILE, "Too many open files")

        def __getattr__(self, name):
            return getattr(self.listener, name)

        def __hash__(self):
            return hash(self.listener)

        def __eq__(self, other):
            return self.listener == other

    listener = log_server.listener
    log_server.listener = Listener(listener)
    begin = time.monotonic()
    with socket.create_connection(log_server.address[:2]) as newcomer:
        time.sleep(1)
        assert 1 <= len(calls) <= 2 + (time.monotonic() - begin) / PAUSE
        log_server.listener = listener
        newcomer.settimeout(DEADLINE)
        assert len(newcomer.recv(log_forwarder.NONCE)) == log_forwarder.NONCE


def test_frames_that_were_changed(log_server):
    """A rank of the job, as far as it proves; its frames are not."""
    for change in (0, 7, -1):
        with socket.create_connection(log_server.address[:2]) as peer:
            session = introduce(peer, log_server)
            good = log_forwarder.seal(session, 0, log_forwarder.LINES, b"good")
            bad = bytearray(log_forwarder.seal(session, 1, log_forwarder.LINES, b"bad"))
            bad[change] ^= 1
            assert is_hung_up_on(peer, good + bytes(bad) + good)
    log_server.close()
    assert log_server.shown == [(0, "good")] * 3


REPORT = b'[3, 10.5, {"loss": 0.25, "\\u00e9": NaN, "more": -1e300}]'


FRAMES = [
    (log_forwarder.LINES, b"one\ntwo\xff"),
    (log_forwarder.PROGRESS, REPORT),
    (log_forwarder.DROPPED, b"123"),
    (log_forwarder.GONE, b"the last\nlines"),
]


def record(address, log):
    """Stand between a rank and the driver, and write down what passes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def carry(source, sink):
        while piece := source.recv(1 << 16):
            log.append(piece)
            sink.sendall(piece)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def work():
        rank, _ = listener.accept()
        with listener, rank, socket.create_connection(address[:2]) as driver:
            back = threading.Thread(target=carry, args=(driver, rank), daemon=True)
            back.start()
            with contextlib.suppress(OSError):
                carry(rank, driver)
                back.join(DEADLINE)

    threading.Thread(target=work, daemon=True).start()
    return address._replace(port=listener.getsockname()[1])


@pytest.mark.parametrize("log_server", [False, True], indirect=True)
def test_what_is_on_the_wire(log_server):
    """Where it is encrypted nothing of it can be read, and a driver without TLS gets nothing."""
    sent = []
    run_rank("print('a secret')", record(log_server.address, sent))
    log_server.close()
    assert log_server.shown == [(0, "a secret"), (0, "last words of 0")]
    assert (b"a secret" in b"".join(sent)) == (not log_server.address.tls)


@pytest.mark.parametrize("log_server", [False, True], indirect=True)
def test_ends_that_disagree_about_tls(log_server):
    """The driver shows nothing that came in plain text when it expects TLS, nor the reverse."""
    run_rank(
        "print('one')", log_server.address._replace(tls=not log_server.address.tls), echo=False
    )
    log_server.close(1)
    assert log_server.shown == []


WORDS = [b"NaN", b"-Infinity", b"1e999", b"null", b"true", b'"', b"[", b"{}", b",", b"\n"]


def stream_of_a_rank(nonce, key):
    """All bytes that the log forwarder of a rank sends to a driver with this random number."""
    names, mine = b"\0" * 16, b"m" * log_forwarder.NONCE
    proof = log_forwarder.prove(key, b"rank", nonce, mine, names)
    session = log_forwarder.prove(key, b"session", nonce, mine, names)
    frames = [log_forwarder.seal(session, number, *frame) for number, frame in enumerate(FRAMES)]
    return log_forwarder.HELLO.pack(log_forwarder.MAGIC, 0, 0, 0, mine, proof) + b"".join(frames)


def read_frames(sent, nonce, key):
    """What the driver takes for frames of a rank, until it hangs up: what comes last is none."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peer, frames = Peer(theirs, key), []
        peer.nonce = nonce
        for piece in [
            *sent,
            bytes(
                log_forwarder.HELLO.size
                + log_forwarder.HEAD.size
                + log_forwarder.PAYLOAD
                + log_forwarder.TAG
            ),
        ]:
            ours.sendall(piece)
            try:
                frames += peer.read()
            except ConnectionError:
                return frames
        raise AssertionError(f"it waits for more, with {len(peer.received)} bytes")


def test_bytes_that_were_changed():
    """Frames are taken up to the one where something is wrong; no more is kept than one takes."""
    key, nonce = b"k" * 32, b"n" * log_forwarder.NONCE
    sent = stream_of_a_rank(nonce, key)
    assert read_frames([sent], nonce, key) == FRAMES
    counts = [0] * (len(FRAMES) + 1)
    for pieces in mutations(sent, 4000):
        frames = read_frames(pieces, nonce, key)
        assert frames == FRAMES[: len(frames)]
        assert len(frames) < len(FRAMES) or b"".join(pieces).startswith(sent)
        counts[len(frames)] += 1
    assert min(counts) > 10


@pytest.mark.parametrize(("kind", "sent"), FRAMES, ids=["lines", "report", "dropped", "gone"])
def test_payloads_that_make_no_sense(log_server, kind, sent):
    """Of a rank that has proved itself: shown as text, or the one refusal."""
    taken = []
    log_server.progress = lambda *given: taken.append(given)
    for pieces in mutations(sent, 3000, WORDS):
        try:
            log_server.take(types.SimpleNamespace(rank=1, host="x"), kind, b"".join(pieces))
        except ValueError:
            continue
    for rank, line in log_server.shown:
        assert rank == 1
        assert "\n" not in line
    for rank, step, total, metrics in taken:
        assert rank == 1
        assert all(math.isfinite(bound) for bound in (step, total) if bound is not None)
        assert all(isinstance(value, (int, float)) for value in metrics.values())
    assert (kind == log_forwarder.PROGRESS) == bool(taken)
