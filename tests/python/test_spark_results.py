# SPDX-License-Identifier: Apache-2.0
"""Results that are too large for Spark: to the driver, through a folder, or an error that helps."""

from __future__ import annotations

import errno
import os
import socket
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import pytest
import sparkring
from sparkring.spark import _log_forwarder as log_forwarder
from sparkring.spark import _results as results
from sparkring.spark._log_server import LogServer
from sparkring.spark._rank_result import RankResult

pytestmark = pytest.mark.quick

DEADLINE = 180


def spark(limit="1g", reach=lambda: ("127.0.0.1", "127.0.0.1")):
    return types.SimpleNamespace(setting=lambda *_: limit, reach=reach)


def collect(sent, server, most=0):
    """Hand the result of each rank over, and take those that Spark has not carried."""
    route = types.SimpleNamespace(**{**vars(server.route), "most": most})
    with ThreadPoolExecutor(len(sent)) as ranks:
        carried = list(
            ranks.map(
                lambda rank: results.hand_over(route, rank, 0, sent[rank], "bytes"),
                range(len(sent)),
            )
        )
    rank_results = [
        RankResult(rank, value, receipt=receipt) for rank, (value, receipt) in enumerate(carried)
    ]
    assert all(value is None for value, _ in carried)
    return [bytes(rank_result.value) for rank_result in server.insert(rank_results)]


def test_many_ranks_at_once(tmp_path):
    """On connections of their own; and through a folder, which is empty afterwards."""
    sent = [os.urandom(100_000 + rank) for rank in range(63)] + [os.urandom(5 << 20)]
    with results.Results(spark(), 64, None) as server:
        assert collect(sent, server) == sent
    assert not server.server.thread.is_alive()
    with results.Results(spark(), 64, str(tmp_path)) as server:
        assert collect(sent, server) == sent
        assert len(list(tmp_path.iterdir())) == 64
        (tmp_path / f"new-{server.route.name}-000000").touch()  # of a rank that was killed
        (tmp_path / "another").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["another"]


def test_a_file_that_was_changed(tmp_path):
    with results.Results(spark(), 1, str(tmp_path)) as server:
        _, receipt = results.hand_over(server.route, 0, 0, bytes(1 << 25), "bytes")
        next(tmp_path.iterdir()).write_bytes(bytes(1 << 24) + b"\1" * (1 << 24))
        with pytest.raises(OSError, match="the result of rank 0 was changed in"):
            server.insert([RankResult(0, receipt=receipt)])


def test_a_rank_that_dies_in_the_middle():
    with results.Results(spark(), 2, None) as server:
        address = server.route.address
        sender = results.Sender(
            {**address._asdict(), "rank": 0, "attempt": 0, "core": results._core.__file__},
            bytes(1 << 26),
        )
        send = log_forwarder.Channel.send
        sent = []

        def die(channel, data):
            sent.append(send(channel, data))
            if sum(sent) > 1 << 20:
                raise ZeroDivisionError
            return sent[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(log_forwarder.Channel, "send", die)
            with pytest.raises(ZeroDivisionError):
                sender.run(address[:2])
        results.transmit(address, 1, 0, b"whole")
        assert server.server.results == {1: b"whole"}


def test_failures_that_pass(monkeypatch):
    """No address of the driver, no descriptor, a connection that breaks amid the result."""
    passing = [
        socket.gaierror(socket.EAI_AGAIN, "try again"),
        OSError(errno.EMFILE, "no descriptor"),
        ConnectionRefusedError(),
        BrokenPipeError(),
    ]
    connect, send = socket.create_connection, log_forwarder.Channel.send

    def reach(*given):
        if failures and not isinstance(failures[-1], BrokenPipeError):
            raise failures.pop()
        return connect(*given)

    def break_off(channel, data):
        if isinstance(data, memoryview) and len(data) < results.CHUNK and failures:
            raise failures.pop()  # at the last piece of the result
        return send(channel, data)

    monkeypatch.setattr(socket, "create_connection", reach)
    monkeypatch.setattr(log_forwarder.Channel, "send", break_off)
    monkeypatch.setattr(results, "PAUSES", (0.0, 0.0))
    value = os.urandom(5 << 20)
    with results.Results(spark(), 1, None) as server:
        for failures in (passing[:2], passing[2:]):
            results.transmit(server.route.address, 0, 0, value)
            assert (failures, server.server.results.pop(0)) == ([], value)
        failures = [socket.gaierror(socket.EAI_NONAME, "unknown")]
        with pytest.raises(socket.gaierror, match="unknown"):
            results.transmit(server.route.address, 0, 0, value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"port": 1}, "ConnectionRefusedError"),
        ({"key": "00" * 32}, "ConnectionError: the driver has closed the connection"),
    ],
)
def test_a_driver_that_takes_nothing(change, why, monkeypatch):
    """What Spark can carry it does then; for the rest an error tells what to do."""
    monkeypatch.setattr(results, "PAUSES", (0.0, 0.0))
    with results.Results(spark(), 2, None) as server:
        route = server.route
        route = results.Route(0, route.address._replace(**change), "", None, "x")
        assert results.hand_over(route, 1, 0, b"small", "bytes") == (b"small", None)
        with pytest.raises(
            sparkring.UnsupportedError,
            match=r"rank 1 returned a value of type bytes that takes 17 MiB. Spark carries results"
            rf" up to 16 MiB; a larger one goes to the driver at 127.0.0.1:\d+, where .* \({why}.*"
            r"let executors reach it \(spark.driver.host.* or pass results= with a directory",
        ):
            results.hand_over(route, 1, 0, bytes(17 << 20), "bytes")
        assert server.server.results == {}


def test_a_driver_that_nobody_can_reach(tmp_path):
    def fail():
        raise OSError("it is not known where the server is")

    with results.Results(spark(reach=fail), 1, None) as server:
        words = "this run's driver, where .* not known where the server is.*pass results="
        with pytest.raises(sparkring.UnsupportedError, match=words):
            results.hand_over(server.route, 0, 0, bytes(17 << 20), "bytes")
    (tmp_path / "file").touch()
    with results.Results(spark(), 1, str(tmp_path / "file" / "folder")) as server:
        words = "goes through .*/file/folder, where the rank cannot write it .NotADirectoryError"
        with pytest.raises(sparkring.UnsupportedError, match=words):
            results.hand_over(server.route, 0, 0, bytes(17 << 20), "bytes")


def test_a_driver_that_stops_reading(monkeypatch):
    """It has proved itself, and then says nothing any more."""
    monkeypatch.setattr(results, "STALL", 0.5)
    release = threading.Event()
    server = LogServer("127.0.0.1", "127.0.0.1", 1, print, print, tls=True)
    taken = server.take
    server.take = lambda *given: (taken(*given), release.wait(DEADLINE))
    try:
        with pytest.raises(TimeoutError, match=r"the driver has received nothing for"):
            results.transmit(server.address, 0, 0, bytes(1 << 26))
    finally:
        release.set()
        server.close(0)


@pytest.mark.parametrize("said", [b"-1", b"x", b"99999999999999999999", b""])
def test_a_length_that_makes_no_sense(said):
    """Of a rank that has proved itself; others are heard."""
    server = LogServer("127.0.0.1", "127.0.0.1", 2, print, print, tls=True)
    settings = {**server.address._asdict(), "rank": 0, "attempt": 0}
    sender = results.Sender({**settings, "core": results._core.__file__}, b"seven..")
    sender.waiting[0] = log_forwarder.RESULT + said
    with pytest.raises(ConnectionError):
        sender.run(server.address[:2])
    results.transmit(server.address, 1, 0, b"fine")
    server.close(0)
    assert server.results == {1: b"fine"}


def test_no_result_in_plain_text():
    server = LogServer("127.0.0.1", "127.0.0.1", 1, print, print)
    settings = {**server.address._asdict(), "rank": 0, "attempt": 0}
    with pytest.raises(ConnectionError):
        results.Sender(settings, b"seven..").run(server.address[:2])
    server.close(0)
    assert server.results == {}


def test_what_spark_carries():
    """All of them together, at any number of ranks, within its limit and the memory of its JVM."""
    for limit, size, most in [
        ("1g", 2, 1 << 24),
        ("1g", 64, 1 << 21),
        ("0", 2, 1 << 24),
        ("4m", 2, (1 << 20) - results.SPARE),
        ("nonsense", 1, 1 << 24),
    ]:
        assert results.most_of(spark(limit), size) == most
    assert results.most_of(spark("1k"), 4) < 0


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("is bigger than spark.driver.maxResultSize (1024.0 KiB)", "1024.0 KiB"),
        ("is bigger than spark.driver.maxResultSize (1.0 MiB).\n\tat x", "1.0 MiB"),
        ("is bigger than local maxResultSize 4.0 MB\n", "4.0 MB"),
    ],
)
def test_what_spark_refuses_to_carry(text, limit):
    error = results.explain(f"x: Total size of serialized results of 2 tasks (30.1 MiB) {text}")
    assert str(error).startswith("the results of 2 ranks together take 30.1 MiB in Spark, and")
    assert f"spark.driver.maxResultSize allows {limit}: raise it" in str(error)
    assert results.explain("Total size") is None


def test_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert results.directory_of(None, False) is None
    assert results.directory_of(tmp_path / "a", False) == str(tmp_path / "a")
    assert results.directory_of("file:///a/b", False) == "/a/b"
    assert results.directory_of("a", here=True) == str(tmp_path / "a")
    with pytest.raises(sparkring.InvalidError, match="results is the relative path a, and"):
        results.directory_of("a", here=False)
    for wrong in (3, "", b"/a"):
        with pytest.raises(sparkring.InvalidError, match=r"results is .*: pass a directory that"):
            results.directory_of(wrong, False)
