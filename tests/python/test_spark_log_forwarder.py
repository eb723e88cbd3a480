# SPDX-License-Identifier: Apache-2.0
"""What ranks print: to their logs and the driver, whatever the driver and strangers do."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
import types

import pytest
import sparkring
from mutations import mutations
from sparkring import _run_state as run_state
from sparkring.spark import _log_forwarder as log_forwarder
from sparkring.spark import _progress_bar as progress_bar
from sparkring.spark._log_server import PAUSE, PENDING, LogServer, Peer, check_report
from sparkring.spark._progress_bar import Display
from sparkring.spark._stdio_redirect import StdioRedirect

DEADLINE = 60

RANK = """
import json, os, sys
from sparkring.spark._stdio_redirect import StdioRedirect
from sparkring.spark._log_server import Address
settings = json.loads(sys.argv[1])
address = Address(*settings["address"]) if settings["address"] else None
with StdioRedirect(settings["rank"], 0, address, settings["echo"]) as redirect:
    exec(settings["work"])
    print("last words of", settings["rank"])
    lines = redirect.finish()
print("after:", json.dumps(lines))
"""


@pytest.fixture
def output(request):
    """Listen; with TLS where a test says so."""
    shown = []
    tls = getattr(request, "param", False)
    output = LogServer("127.0.0.1", "127.0.0.1", 4, lambda *line: shown.append(line), report, tls)
    output.shown = shown
    yield output
    output.close()
    assert not output.thread.is_alive()


reports = []


def report(*given):
    reports.append(given)


def play(work, address, rank=0, echo=True):
    """Be a rank that prints in a process of its own; gives its log, and what StdioRedirect told."""
    settings = {"work": work, "address": address, "rank": rank, "echo": echo}
    command = [sys.executable, "-c", RANK, json.dumps(settings)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=DEADLINE, check=False
    )
    return done.stdout.decode()


@pytest.mark.parametrize("output", [False, True], indirect=True)
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
    host, port, *_ = output.address
    assert "one\nlast words of 0\n" in play("print('one')", (host, port, "00" * 32))
    output.close()
    assert output.shown == []


class SlowDriver(log_forwarder.Driver):
    """What its thread has made is some time in sight before the thread says so."""

    def connect(self, address, ready):
        kept = os.dup(ready)
        super().connect(address, ready)
        time.sleep(2)
        os.close(kept)


def test_a_connection_that_is_seen_before_it_is_told_of(output, monkeypatch, tmp_path):
    monkeypatch.setattr(log_forwarder, "Driver", SlowDriver)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reader, writer = os.pipe()
    ours.send(
        json.dumps({"rank": 3, "attempt": 0, "echo": True, **output.address._asdict()}).encode()
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
    play("redirect.report(3, 10, {'loss': 0.5})", output.address, 3)
    output.close()
    assert reports == [(3, 3, 10, {"loss": 0.5})]
    assert check_report([1, None, {"loss": float("inf")}]) == (1, None, {"loss": float("inf")})


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
def test_a_peer_that_makes_us_fail(output, wrong):
    """It is hung up on; the others are heard as before."""

    def fail(*given):
        raise TypeError(given)

    output.progress = fail
    with socket.create_connection(output.address[:2]) as peer:
        session = introduce(peer, output)
        assert is_hung_up_on(peer, log_forwarder.seal(session, 0, log_forwarder.PROGRESS, wrong))
    play("print('one')", output.address, 1)
    output.close()
    assert output.shown == [(1, "one"), (1, "last words of 1")]


def test_a_report_that_is_too_long(output):
    reports.clear()
    long = "{f'metric {i}': 1.0 for i in range(5000)}"
    work = (
        f"try: redirect.report(1, 2, {long})\nexcept Exception as error: print(error)\n"
        "redirect.report(2, 2, {})"
    )
    play(work, output.address)
    output.close()
    (_, line), last = output.shown
    assert line.startswith("this report of 5000 metrics takes ")
    assert last == (0, "last words of 0")
    assert reports == [(0, 2, 2, {})]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((10**400,), "step is too large"),
        ((1, float("inf")), "total is inf: progress takes finite numbers"),
        ((float("nan"), 2), "step is nan"),
    ],
)
def test_progress_that_no_bar_can_show(given, text):
    run_state.begin(0, report)
    try:
        with pytest.raises(sparkring.InvalidError, match=text):
            run_state.progress(None, *given)
    finally:
        run_state.begin(0, None)


def test_progress_while_the_rank_ends(monkeypatch):
    """In the middle of a report of another thread."""

    class Clock:
        @staticmethod
        def monotonic():
            run_state.begin(0, None)
            return time.monotonic()

    reports.clear()
    run_state.begin(0, report)
    monkeypatch.setattr(run_state, "time", Clock)
    run_state.progress(None, 1, 1)
    assert reports == [(1, 1, {})]


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


@pytest.mark.parametrize("on_bar", [True, False])
def test_a_stream_that_cannot_show_all(on_bar):
    with io.TextIOWrapper(io.BytesIO(), "ascii") as stream:
        display = Display(1)
        display.stream = stream
        if on_bar:
            pytest.importorskip("tqdm")
            display.progress(0, 1, 2, {})
        display.line(0, "caf\u00e9 \udc80")
        display.close()
        stream.flush()
        assert stream.buffer.getvalue() == b"[0] caf\\xe9 \\udc80\n"


class Clock:
    """A clock that the test sets."""

    now = 1000.0

    @classmethod
    def time(cls):
        return cls.now


def test_the_bar_is_of_the_slowest_rank_and_starts_anew(monkeypatch, capsys):
    std = pytest.importorskip("tqdm.std")
    monkeypatch.setattr(std, "time", Clock.time)
    display = Display(1)
    seen = []
    for at, rank, step in [
        (0, 1, 11),
        (0, 0, 10),
        (10, 1, 40),
        (10, 0, 30),
        (11, -1, 0),
        (20, 0, 16),
    ]:
        Clock.now = 1000.0 + at
        if rank < 0:
            display.restart()
            display.progress(1, 15, 40, {"loss": 3.0})
            continue
        display.progress(rank, step, 40, {"loss": rank + 0.5})
        seen.append((display.bar.n, display.bar.format_dict["elapsed"], str(display.bar)))
    assert [n for n, *_ in seen] == [11, 10, 10, 30, 15]
    assert "?it/s" in seen[0][2] and "?it/s" in seen[1][2]
    assert "2.00it/s, loss=0.5" in seen[3][2]  # 20 steps in 10 seconds, of rank 0
    assert seen[4][1] == 9.0
    display.close()


def test_the_clock_of_the_bar_starts_before_tqdm_is_imported(monkeypatch):
    """Reports wait meanwhile, and would seem to have come at once."""
    found = pytest.importorskip("tqdm.auto").tqdm
    monkeypatch.setattr(progress_bar, "find_bar", lambda: time.sleep(0.5) or found)
    display = Display(1)
    display.progress(0, 1, 9, {})
    display.progress(0, 3, 9, {})
    assert display.bar.format_dict["elapsed"] >= 0.5
    display.close()


def test_a_notebook_has_a_line_for_each_rank(monkeypatch):
    shown = []
    place = types.SimpleNamespace(update=shown.append)
    pretty = types.ModuleType("IPython.display")
    pretty.Pretty = str
    pretty.display = lambda text, display_id: shown.append(text) or place
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", pretty)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    display = Display(1)
    display.progress(1, 3, 8, {})
    display.progress(0, 2, 8, {"loss": 0.25})
    assert shown == ["rank 1: step 3 of 8", "rank 0: step 2 of 8, loss 0.25\nrank 1: step 3 of 8"]


@pytest.mark.parametrize("output", [False, True], indirect=True)
def test_a_rank_that_is_killed(output):
    play("print('here'); os.kill(os.getpid(), 9)", output.address, 1)
    deadline = time.monotonic() + DEADLINE
    while 1 not in output.hosts and time.monotonic() < deadline:
        time.sleep(0.01)
    assert output.last_lines(1) == ["here"]
    assert output.hosts == {1: "127.0.0.1"}


def is_hung_up_on(peer, data):
    """Whether the driver ends the connection, which it may do before it has read all."""
    try:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        return peer.recv(1) == b""
    except OSError as error:
        return error.errno in (errno.ENOTCONN, errno.ECONNRESET, errno.EPIPE)


def test_strangers(output):
    sent = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n" * 20,
        os.urandom(log_forwarder.HELLO.size),
        b"x" * 100000,
    ]
    for data in sent:
        with socket.create_connection(output.address[:2]) as stranger:
            stranger.settimeout(DEADLINE)
            assert len(stranger.recv(log_forwarder.NONCE)) == log_forwarder.NONCE
            assert is_hung_up_on(stranger, data)
    many = [socket.create_connection(output.address[:2]) for _ in range(200)]
    assert "one\n" in play("print('one')", output.address)
    for stranger in many:
        stranger.close()
    play("print('two')", output.address)
    output.close()
    assert (0, "two") in output.shown


def test_strangers_who_keep_silent_and_come_again(output):
    """More than there is room for, at any time; the rank is heard."""
    over = threading.Event()
    full = threading.Event()

    def crowd():
        held = []
        while not over.is_set():
            held = [stranger for stranger in held if not has_ended(stranger)]
            while len(held) < PENDING + 6:
                held.append(socket.create_connection(output.address[:2]))
            full.set()
            over.wait(0.02)
        for stranger in held:
            stranger.close()

    thread = threading.Thread(target=crowd)
    thread.start()
    assert full.wait(DEADLINE)
    try:
        play("print('one'); import time; time.sleep(1)", output.address, echo=False)
    finally:
        over.set()
        thread.join(DEADLINE)
    output.close()
    assert output.shown == [(0, "one"), (0, "last words of 0")]


def has_ended(stranger):
    """Whether the driver has hung up on one that never waits; it is closed then."""
    try:
        if stranger.recv(64, socket.MSG_DONTWAIT):
            return False
    except BlockingIOError:
        return False
    except OSError:
        pass
    stranger.close()
    return True


def test_a_driver_that_hangs_up_at_first(output):
    """As on one of too many; the log forwarder connects again, with its queue."""
    turned_away = []

    def accept():
        output.accept = accept_all
        connection, _ = output.listener.accept()
        connection.close()
        turned_away.append(1)

    accept_all, output.accept = output.accept, accept
    play("print('one'); import time; time.sleep(1)", output.address, echo=False)
    output.close()
    assert turned_away
    assert output.shown == [(0, "one"), (0, "last words of 0")]


def test_no_descriptor_is_left(output):
    """Newcomers wait, and the thread does not spin; then they are heard."""
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

    listener = output.listener
    output.listener = Listener(listener)
    begin = time.monotonic()
    with socket.create_connection(output.address[:2]) as newcomer:
        time.sleep(1)
        assert 1 <= len(calls) <= 2 + (time.monotonic() - begin) / PAUSE
        output.listener = listener
        newcomer.settimeout(DEADLINE)
        assert len(newcomer.recv(log_forwarder.NONCE)) == log_forwarder.NONCE


def introduce(peer, output):
    """Prove to be a rank of the job, rank 0; gives the key of the frames."""
    key = bytes.fromhex(output.address.key)
    names = b"\0" * 16
    nonce = os.urandom(log_forwarder.NONCE)
    theirs = peer.recv(log_forwarder.NONCE)
    proof = log_forwarder.prove(key, b"rank", theirs, nonce, names)
    peer.sendall(log_forwarder.HELLO.pack(log_forwarder.MAGIC, 0, 0, 0, nonce, proof))
    assert peer.recv(32) == log_forwarder.prove(key, b"driver", nonce, theirs, names)
    return log_forwarder.prove(key, b"session", theirs, nonce, names)


def test_frames_that_were_changed(output):
    """A rank of the job, as far as it proves; its frames are not."""
    for change in (0, 7, -1):
        with socket.create_connection(output.address[:2]) as peer:
            session = introduce(peer, output)
            good = log_forwarder.seal(session, 0, log_forwarder.LINES, b"good")
            bad = bytearray(log_forwarder.seal(session, 1, log_forwarder.LINES, b"bad"))
            bad[change] ^= 1
            assert is_hung_up_on(peer, good + bytes(bad) + good)
    output.close()
    assert output.shown == [(0, "good")] * 3


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


@pytest.mark.parametrize("output", [False, True], indirect=True)
def test_what_is_on_the_wire(output):
    """Where it is encrypted nothing of it can be read, and a driver without TLS gets nothing."""
    said = []
    play("print('a secret')", record(output.address, said))
    output.close()
    assert output.shown == [(0, "a secret"), (0, "last words of 0")]
    assert (b"a secret" in b"".join(said)) == (not output.address.tls)


@pytest.mark.parametrize("output", [False, True], indirect=True)
def test_ends_that_disagree_about_tls(output):
    """The driver shows nothing that came in plain text when it expects TLS, nor the reverse."""
    play("print('one')", output.address._replace(tls=not output.address.tls), echo=False)
    output.close(1)
    assert output.shown == []


WORDS = [b"NaN", b"-Infinity", b"1e999", b"null", b"true", b'"', b"[", b"{}", b",", b"\n"]


def talk_of_a_rank(nonce, key):
    """All bytes that the log forwarder of a rank sends to a driver with this random number."""
    names, mine = b"\0" * 16, b"m" * log_forwarder.NONCE
    proof = log_forwarder.prove(key, b"rank", nonce, mine, names)
    session = log_forwarder.prove(key, b"session", nonce, mine, names)
    frames = [log_forwarder.seal(session, number, *frame) for number, frame in enumerate(FRAMES)]
    return log_forwarder.HELLO.pack(log_forwarder.MAGIC, 0, 0, 0, mine, proof) + b"".join(frames)


def hear(said, nonce, key):
    """What the driver takes for frames of a rank, until it hangs up: what comes last is none."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peer, frames = Peer(theirs, key), []
        peer.nonce = nonce
        for piece in [
            *said,
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
    said = talk_of_a_rank(nonce, key)
    assert hear([said], nonce, key) == FRAMES
    counts = [0] * (len(FRAMES) + 1)
    for pieces in mutations(said, 4000):
        frames = hear(pieces, nonce, key)
        assert frames == FRAMES[: len(frames)]
        assert len(frames) < len(FRAMES) or b"".join(pieces).startswith(said)
        counts[len(frames)] += 1
    assert min(counts) > 10


@pytest.mark.parametrize(("kind", "said"), FRAMES, ids=["lines", "report", "dropped", "gone"])
def test_payloads_that_make_no_sense(output, kind, said):
    """Of a rank that has proved itself: shown as text, or the one refusal."""
    taken = []
    output.progress = lambda *given: taken.append(given)
    for pieces in mutations(said, 3000, WORDS):
        try:
            output.take(types.SimpleNamespace(rank=1, host="x"), kind, b"".join(pieces))
        except ValueError:
            continue
    for rank, line in output.shown:
        assert rank == 1
        assert "\n" not in line
    for rank, step, total, metrics in taken:
        assert rank == 1
        assert all(math.isfinite(bound) for bound in (step, total) if bound is not None)
        assert all(isinstance(value, (int, float)) for value in metrics.values())
    assert (kind == log_forwarder.PROGRESS) == bool(taken)
