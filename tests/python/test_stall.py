# SPDX-License-Identifier: Apache-2.0
"""Warnings of a call that waits long to the logger "sparkring", and what its handlers may do."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
import time

import pytest
import sparkring
from ranks import launch, open_comm, run, wait_for

WAITS = r"rank 0 has waited .* in allreduce.* for: rank 1 "


class Keep(logging.Handler):
    """Keeps the records, and does what the test wants with each."""

    def __init__(self, act=lambda record: None):
        super().__init__()
        self.records = []
        self.act = act
        logging.getLogger("sparkring").addHandler(self)

    def emit(self, record):
        self.records.append(record)
        self.act(record)

    def texts(self):
        return [record.getMessage() for record in self.records]


def open_impatient():
    return open_comm(warn_after=0.3)


def wait_for_a_late_rank(gate):
    with open_impatient() as comm:
        keep = Keep(lambda record: gate.touch())
        if comm.rank == 1:
            wait_for(gate)
        total = comm.allreduce(1)
    return total, [(record.name, record.levelname) for record in keep.records], keep.texts()


def test_a_call_that_waits_logs_it_and_goes_on(tmp_path):
    (total, kinds, texts), other = run(2, wait_for_a_late_rank, tmp_path / "gate")
    assert total == 2
    assert set(kinds) == {("sparkring", "WARNING")}
    assert re.match(WAITS, texts[0])
    assert other[0] == 2


SCRIPT = """
import time, sparkring
with sparkring.init(timeout=30, call_timeout=20, warn_after=0.3) as comm:
    time.sleep(3 * comm.rank)
    comm.allreduce(1)
"""


def test_it_is_printed_unless_logging_is_set_up():
    job = launch(2, sys.executable, "-c", SCRIPT, text=True)
    assert job.returncode == 0
    assert re.search(r"^\[0\] " + WAITS, job.stderr, re.MULTILINE)


def ask_about_a_request():
    """A request warns the caller of test() or wait(), also with the interpreter lock held."""
    with open_impatient() as comm:
        keep = Keep()
        if comm.rank == 1:
            time.sleep(2)
            comm.allreduce(1)
            return comm.allreduce(2), comm.allreduce(3), 0, []
        first, second, third = (comm.allreduce_start(i) for i in (1, 2, 3))
        time.sleep(0.8)
        assert not first.test()
        tested = len(keep.records)

        async def work():
            return await first

        asyncio.run(work())
        return second.wait(), third.wait(), tested, keep.texts()


def test_requests():
    (second, third, tested, texts), _ = run(2, ask_about_a_request)
    assert (second, third) == (4, 6)
    assert tested > 0
    assert len(texts) > 1
    assert re.match(WAITS, texts[0])


def fail_in_a_handler(gate):
    caught = []
    sys.unraisablehook = lambda failure: caught.append(failure.exc_value)

    def fail(record):
        gate.touch()
        raise LookupError("of a handler")

    with open_impatient() as comm:
        Keep(fail)
        if comm.rank == 1:
            wait_for(gate)
        return comm.allreduce(1), {repr(error) for error in caught}


def test_what_a_handler_raises_is_reported_and_ends_nothing(tmp_path):
    (total, errors), _ = run(2, fail_in_a_handler, tmp_path / "gate")
    assert (total, errors) == (2, {"LookupError('of a handler')"})


def interrupt_in_a_handler(asking, gate):
    """Ctrl-C while a handler is at work ends the wait, or comes right after a look at a request."""
    comm = open_impatient()
    if comm.rank == 1:
        with pytest.raises(sparkring.AbortedError):
            wait_for(gate)
            while True:
                comm.barrier()
        return True
    keep = Keep(lambda record: len(keep.records) > 1 or os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        if asking:
            request = comm.barrier_start()
            time.sleep(0.8)
            request.test()
            time.sleep(5)
        comm.barrier()
    usable = comm.usable
    comm.abort()
    gate.touch()
    return usable is asking


@pytest.mark.parametrize("asking", [False, True])
def test_interrupt_in_a_handler(asking, tmp_path):
    assert run(2, interrupt_in_a_handler, asking, tmp_path / "gate") == [True, True]


def stay_silent():
    keep = Keep()
    with open_comm(warn_after=0) as comm:
        if comm.rank == 1:
            time.sleep(0.8)
        comm.barrier()
    return keep.texts()


def log_as_the_environment_sets(gate):
    with open_comm() as comm:
        keep = Keep(lambda record: gate.touch())
        if comm.rank == 1:
            wait_for(gate)
        comm.barrier()
    return keep.texts()


def test_the_environment_has_the_default(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARKRING_WARN_AFTER", "0.3")
    assert run(2, stay_silent) == [[], []]
    assert run(2, log_as_the_environment_sets, tmp_path / "gate")[0] != []


def test_seconds():
    for seconds in (-1, float("nan"), float("inf")):
        with pytest.raises(sparkring.InvalidError, match=r"^warn_after is .*: it must be a number"):
            sparkring.init(rank=0, addresses=["localhost"], warn_after=seconds)
