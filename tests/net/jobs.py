# SPDX-License-Identifier: Apache-2.0
"""Jobs: ranks that run on hosts, each a fork of the test process that enters a host's namespace.

A rank calls a function with the options for sparkring.init; what that returns or raises, and when,
comes back through a pipe. Every job has a deadline, and none of its processes outlives it.
"""

import ctypes
import itertools
import multiprocessing
import os
import resource
import secrets
import signal
import time
import traceback
from multiprocessing.connection import wait
from typing import Any, NamedTuple

import sparkring

FORK = multiprocessing.get_context("fork")
PR_SET_PDEATHSIG = 1
TICK = 0.02
STARTED = []  # processes that may still run
serial = itertools.count()


class Failure(NamedTuple):
    """An error of a rank, as text so that it travels."""

    kind: str
    rank: Any
    message: str


class Outcome(NamedTuple):
    value: Any
    error: Any  # a Failure, or None
    ended: float  # time.monotonic(), which all processes of a machine share
    peak: int  # bytes of memory that were resident at most


def process(place, function, *arguments):
    """Start a process: place() moves it to its namespace. It dies with this one."""
    parent = os.getpid()

    def run():
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if os.getppid() == parent:
            place()
            function(*arguments)

    started = FORK.Process(target=run, daemon=True)
    started.start()
    STARTED.append(started)
    return started


def until(condition, seconds=30):
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it has not come about within {seconds} s"
        time.sleep(0.005)


def end(processes):
    for each in processes:
        each.kill()
    for each in processes:
        each.join(10)


def end_all():
    """End what this module has started."""
    end(STARTED)
    STARTED.clear()


class Job:
    """The ranks of one job; a context manager that leaves none of them."""

    def __init__(self, hosts, placement, **options):
        self.hosts = hosts
        self.placement = placement  # the host of each rank
        self.late = 0.0  # seconds by which this process was kept from running while it waited
        self.options = {
            "size": len(placement),
            "addresses": [hosts.addresses[host] for host in placement],
            "token": secrets.token_bytes(32),
            "job": f"net {next(serial)}",
            "timeout": 60,
            "call_timeout": 30,
            **options,
        }
        self.processes = []
        self.pipes = []

    def start(self, function, *arguments):
        """Start all ranks."""
        for rank in range(len(self.placement)):
            self.start_rank(rank, function, *arguments)
        return self

    def start_rank(self, rank, function, *arguments, **options):
        """Start one rank; `options` are only its own."""
        reader, writer = FORK.Pipe(duplex=False)
        options = {**self.options, "rank": rank, **options}
        host = self.placement[rank]
        started = process(
            lambda: self.hosts.enter_host(host), be_rank, writer, function, options, arguments
        )
        writer.close()
        self.processes.append(started)
        self.pipes.append(reader)

    def has_ended(self, rank):
        """Tell whether a rank has its outcome."""
        return self.pipes[rank].poll()

    def wait(self, seconds):
        """Return the outcome of each rank; None for one that has not ended in time."""
        found = [None] * len(self.pipes)
        open_pipes = {pipe: index for index, pipe in enumerate(self.pipes)}
        deadline = time.monotonic() + seconds
        while open_pipes and (left := deadline - time.monotonic()) > 0:
            tick, before = min(TICK, left), time.monotonic()
            ready = wait(list(open_pipes), tick)
            self.late += max(0.0, time.monotonic() - before - tick - 0.001)
            for pipe in ready:
                found[open_pipes.pop(pipe)] = receive(pipe)
        return found

    def until(self, condition, seconds=30):
        """Wait until something holds while all ranks are at work."""

        def holds():
            ended = [rank for rank in range(len(self.pipes)) if self.has_ended(rank)]
            assert not ended, (ended, self.wait(10))
            return condition()

        until(holds, seconds)

    def results(self, seconds=60):
        """Return the value of each rank; none may fail or hang."""
        outcomes = self.wait(seconds)
        for rank, outcome in enumerate(outcomes):
            assert outcome is not None, f"rank {rank} has not ended after {seconds} s: {outcomes}"
            assert outcome.error is None, f"rank {rank}: {outcomes}"
        return [outcome.value for outcome in outcomes]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.processes)
        for pipe in self.pipes:
            pipe.close()


def receive(pipe):
    try:
        return pipe.recv()
    except EOFError:
        return Outcome(None, Failure("died", None, "the process ended without a word"), 0.0, 0)


def be_rank(pipe, function, options, arguments):
    try:
        value, error = function(options, *arguments), None
    except sparkring.RingError as failure:
        value, error = None, Failure(failure.status, failure.rank, str(failure))
    except BaseException as failure:
        value, error = None, Failure(type(failure).__name__, None, traceback.format_exc())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    pipe.send(Outcome(value, error, time.monotonic(), peak))
    pipe.close()
