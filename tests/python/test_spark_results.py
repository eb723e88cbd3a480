# SPDX-License-Identifier: Apache-2.0
"""Results that are too large for Spark: to the driver, through a folder, or an error that helps."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import sparkring
from sparkring.spark import _driver_link as driver_link
from sparkring.spark import _log_forwarder as log_forwarder
from sparkring.spark import _results as results
from sparkring.spark._driver_link import DriverLink
from sparkring.spark._log_server import LogServer
from sparkring.spark._rank_result import RankResult
from sparkring.spark._stdio_redirect import StdioRedirect

pytestmark = pytest.mark.quick

DEADLINE = 180


def spark(limit="1g", reach=lambda: "127.0.0.1"):
    return types.SimpleNamespace(setting=lambda *_: limit, reach=reach)


@contextlib.contextmanager
def taking(size, directory=None, show=print):
    """Take the results of a run; gives the results and the server."""
    server = LogServer("127.0.0.1", size, show, print)
    try:
        with results.Results(spark(), size, directory, server) as large:
            yield large, server
    finally:
        server.close(0)
    assert not any(thread.is_alive() for thread in server.threads.values())


@contextlib.contextmanager
def task(address, rank):
    """Run the log forwarder of a task in a thread; gives the redirection of the task."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reader, writer = os.pipe()
    outbox = log_forwarder.Outbox(address, rank)
    with open(os.devnull, "wb") as log, ThreadPoolExecutor(1) as thread, theirs:
        forwarder = log_forwarder.LogForwarder(reader, theirs, log.fileno(), False, outbox)
        run = thread.submit(forwarder.run)
        redirect = StdioRedirect(rank, address, False)
        redirect.control = ours
        yield redirect
        redirect.finish()
        os.close(writer)
        run.result(DEADLINE)
    os.close(reader)


def end(route, rank, value):
    """End a rank with a value, as its process and then its task do."""
    with tempfile.TemporaryFile() as file:
        carried, receipt = results.hand_over(route, rank, value, "bytes", file)
        rank_result = RankResult(rank, carried, receipt=receipt, kind="bytes")
        with task(route.address, rank) as redirect:
            return results.deliver(route, rank_result, file, redirect.send_result)


def collect(sent, large):
    """Hand the result of each rank over, and take those that Spark has not carried."""
    route = replace(large.route, most=0)
    with ThreadPoolExecutor(len(sent)) as ranks:
        ended = list(ranks.map(lambda rank: end(route, rank, sent[rank]), range(len(sent))))
    assert all(rank_result.value is None for rank_result in ended)
    return [bytes(rank_result.value) for rank_result in large.insert(ended)]


def test_many_ranks_at_once(tmp_path):
    """On links of their own; and through a folder, which is empty afterwards."""
    sent = [os.urandom(100_000 + rank) for rank in range(15)] + [os.urandom(5 << 20)]
    with taking(16) as (large, _):
        assert collect(sent, large) == sent
    with taking(16, str(tmp_path)) as (large, _):
        assert collect(sent, large) == sent
        assert len(list(tmp_path.iterdir())) == 16
        (tmp_path / f"new-{large.route.name}-000000").touch()  # of a rank that was killed
        (tmp_path / "another").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["another"]


def test_a_file_that_was_changed(tmp_path):
    with taking(1, str(tmp_path)) as (large, _):
        receipt = end(large.route, 0, bytes(1 << 25)).receipt
        next(tmp_path.iterdir()).write_bytes(bytes(1 << 24) + b"\1" * (1 << 24))
        with pytest.raises(OSError, match="the result of rank 0 was changed in"):
            large.insert([RankResult(0, receipt=receipt)])


def test_a_task_that_dies_in_the_middle():
    """Its result is none; others arrive."""
    with taking(2) as (large, server):
        link = DriverLink(server.address, 0, driver_link.TASK, DEADLINE)
        moved = []

        def die():
            moved.append(1)
            if len(moved) > 3:
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            link.send_result(memoryview(bytes(1 << 26)), die)
        link.ring.abort("it has died")
        assert end(replace(large.route, most=0), 1, b"whole").receipt == results.Receipt(5)
        server.close()
        assert server.results == {1: b"whole"}


@pytest.mark.parametrize("key", [None, "00" * 32], ids=["nobody listens", "another key"])
def test_a_driver_that_takes_nothing(key, monkeypatch):
    """What Spark can carry it does then; for the rest an error has a remedy."""
    monkeypatch.setattr(log_forwarder, "CONNECT", 1.0)
    with taking(2) as (large, server):
        address = large.route.address._replace(key=key or "11" * 32)
        route = replace(large.route, most=0, address=address)
        assert end(route, 1, b"small").value == b"small"
        failed = end(route, 1, bytes(17 << 20))
        assert failed.receipt is None
        with pytest.raises(
            sparkring.UnsupportedError,
            match=r"rank 1 returned a value of type bytes that takes 17 MiB. Spark carries results"
            r" up to 16 MiB; a larger one goes to the driver at 127.0.0.1, where .*"
            r" \(TimeoutError.*"
            r"let executors reach it \(spark.driver.host.* or pass results= with a directory",
        ):
            raise sparkring.spark._rank_result.to_raise(failed, 0)
        assert server.results == {}


def test_a_driver_that_nobody_can_reach(tmp_path):
    def fail():
        raise OSError("it is not known where the server is")

    with results.Results(spark(reach=fail), 1, None, None) as large:
        with tempfile.TemporaryFile() as file:
            value = bytes(17 << 20)
            _, receipt = results.hand_over(large.route, 0, value, "bytes", file)
            failed = results.deliver(
                large.route, RankResult(0, receipt=receipt), file, lambda file: "never called"
            )
        words = "this run's driver, where .*not known where the server is.*pass results="
        with pytest.raises(sparkring.UnsupportedError, match=words):
            raise sparkring.spark._rank_result.to_raise(failed, 0)
    (tmp_path / "file").touch()
    with taking(1, str(tmp_path / "file" / "folder")) as (large, _):
        words = "goes through .*/file/folder, where the rank cannot write it .NotADirectoryError"
        with pytest.raises(sparkring.UnsupportedError, match=words):
            end(large.route, 0, bytes(17 << 20))


def test_a_driver_that_stops_reading(monkeypatch):
    """It has proved itself, and then takes nothing any more."""
    monkeypatch.setattr(log_forwarder, "STALL", 0.5)
    release = threading.Event()
    with taking(1) as (_, server):
        monkeypatch.setattr(DriverLink, "confirm", lambda link: release.wait(DEADLINE))
        with task(server.address, 0) as redirect, tempfile.TemporaryFile() as file:
            file.write(bytes(1 << 20))
            file.flush()
            why = redirect.send_result(file)
            release.set()
        assert why.startswith("TimeoutError: the driver has received nothing for")


def test_a_reader_of_the_output_that_is_paused():
    """Its lines wait; the result arrives."""
    release = threading.Event()
    with taking(1, show=lambda *line: release.wait(DEADLINE)) as (_, server):
        with task(server.address, 0) as redirect, tempfile.TemporaryFile() as file:
            file.write(b"whole")
            file.flush()
            assert redirect.send_result(file) == ""
        assert server.results == {0: b"whole"}
        release.set()


@pytest.mark.parametrize("length", [-1, 1 << 62, driver_link.PAYLOAD + 1])
@pytest.mark.parametrize("kind", [driver_link.LINES, driver_link.RESULT, 99, -1])
def test_a_head_that_makes_no_sense(kind, length):
    """Of a task that has proved itself; the results of others are received."""
    if (kind, length) == (driver_link.RESULT, driver_link.PAYLOAD + 1):
        pytest.skip("a result may be as long")
    with taking(2) as (large, server):
        link = DriverLink(server.address, 0, driver_link.TASK, DEADLINE)
        link.ring.send(driver_link.array.array("q", [kind, length]), driver_link.DRIVER)
        assert end(replace(large.route, most=0), 1, b"fine").receipt == results.Receipt(4)
        server.close()
        assert server.results == {1: b"fine"}
        link.ring.abort("the test has ended")


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
