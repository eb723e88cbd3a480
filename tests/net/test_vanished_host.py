# SPDX-License-Identifier: Apache-2.0
"""A host that vanishes without a word is an error that names a rank of it, in time, and no more."""

import random
import time

import jobs
import pytest
import sparkring
import work
from jobs import Job

PATIENCE = 2.0  # the deadline of a call
GRACE = 1.0  # after which all must know
SILENCE = 45.0, 65.0  # a host that answers nothing is lost after 50 s, and looked for every 10 s
GONE = 2  # the host that vanishes
PLACEMENTS = {"4 hosts": [0, 1, 2, 3], "2 a host": [0, 0, 2, 2]}


@pytest.fixture(params=PLACEMENTS)
def placement(request):
    return PLACEMENTS[request.param]


def survivors(placement):
    return [rank for rank, host in enumerate(placement) if host != GONE]


def check(job, outcomes, began, deadline):
    """All survivors have failed in time, naming a rank of the lost host; return the seconds."""
    left = survivors(job.placement)
    for rank in left:
        assert outcomes[rank] is not None, f"rank {rank} hangs: {outcomes}"
        error = outcomes[rank].error
        assert error is not None, f"rank {rank} did not fail: {outcomes}"
        assert error.kind in ("TIMEOUT", "PEER_LOST"), error
        assert error.rank is not None, (rank, outcomes)
        assert job.placement[error.rank] == GONE, (rank, outcomes)
    seconds = max(outcomes[rank].ended for rank in left) - began
    assert seconds <= deadline + GRACE + job.late, (seconds, job.late, outcomes)
    return seconds


@pytest.mark.parametrize(("count", "encryption"), [(8, False), (8, True), (1 << 20, False)])
def test_in_a_collective(hosts, placement, encryption, count, injected):
    progress = jobs.FORK.Array("q", len(placement))
    with Job(hosts, placement, call_timeout=PATIENCE, encryption=encryption) as job:
        job.start(work.count_up, progress, count)
        job.until(lambda: min(progress) > 5)
        time.sleep(random.random() * 0.1)
        hosts.cut(GONE)
        began = time.monotonic()
        seconds = check(job, job.wait(PATIENCE + 5), began, PATIENCE)
    injected("host vanishes in a collective", f"named, deadline {PATIENCE:.0f} s", seconds)


def call_on_signal(options, progress, signal):
    with sparkring.init(**options) as comm:
        comm.allreduce(1)
        progress[comm.rank] = 1
        signal.wait()
        comm.allreduce(1)


def test_between_collectives(hosts, placement, injected):
    progress, signal = jobs.FORK.Array("q", len(placement)), jobs.FORK.Event()
    with Job(hosts, placement, call_timeout=PATIENCE) as job:
        job.start(call_on_signal, progress, signal)
        job.until(lambda: min(progress) == 1)
        hosts.cut(GONE)
        time.sleep(0.5)
        signal.set()
        began = time.monotonic()
        seconds = check(job, job.wait(PATIENCE + 5), began, PATIENCE)
    injected("host vanishes between collectives", f"named, deadline {PATIENCE:.0f} s", seconds)


def call_or_wait(options, progress, signal):
    """Call again at once, or, on the last rank, at the signal."""
    with sparkring.init(**options) as comm:
        comm.allreduce(1)
        progress[comm.rank] = 1
        if comm.rank == comm.size - 1:
            signal.wait()
        comm.allreduce(1)


@pytest.mark.timeout(150)
def test_while_waiting_for_another(hosts, injected):
    """The deadline is far: what shows that a host is gone is that it answers nothing any more."""
    placement = PLACEMENTS["4 hosts"]
    progress, signal = jobs.FORK.Array("q", len(placement)), jobs.FORK.Event()
    with Job(hosts, placement, call_timeout=300.0) as job:
        job.start(call_or_wait, progress, signal)
        job.until(lambda: min(progress) == 1)
        time.sleep(1)
        hosts.cut(GONE)
        began = time.monotonic()
        while time.monotonic() - began < SILENCE[1] and not job.has_ended(0):
            time.sleep(0.1)
        signal.set()
        outcomes = job.wait(5)
    seconds = seconds_until_named(outcomes, placement, began)
    assert SILENCE[0] <= seconds <= SILENCE[1] + GRACE + job.late
    injected("host vanishes, another is waited for", "PEER_LOST, named", seconds)


def seconds_until_named(outcomes, placement, began):
    """Check that all survivors name the rank that is gone; return when the last one did."""
    left = survivors(placement)
    errors = [outcomes[rank] and outcomes[rank].error for rank in left]
    assert all(error and error.kind == "PEER_LOST" and error.rank == GONE for error in errors), (
        errors
    )
    return max(outcomes[rank].ended for rank in left) - began


def run_program(options, progress):
    with sparkring.init(**options) as comm:
        comm.mpi_run(["sh", "-c", "echo running; sleep 600"], output=lambda _: note(progress, comm))


def note(progress, comm):
    progress[comm.rank] = 1


@pytest.mark.timeout(150)
def test_while_mpi_programs_run(hosts, injected):
    """No rank waits for a message: only receives are posted."""
    placement = PLACEMENTS["4 hosts"]
    progress = jobs.FORK.Array("q", len(placement))
    with Job(hosts, placement, call_timeout=PATIENCE) as job:
        job.start(run_program, progress)
        job.until(lambda: min(progress) == 1)
        hosts.cut(GONE)
        began = time.monotonic()
        while time.monotonic() - began < SILENCE[1] and not job.has_ended(0):
            time.sleep(0.1)
        outcomes = job.wait(5)
    seconds = seconds_until_named(outcomes, placement, began)
    assert seconds <= SILENCE[1] + GRACE + job.late
    injected("host vanishes while MPI programs run", "PEER_LOST, named", seconds)


def join(options):
    with sparkring.init(**options) as comm:
        return comm.rank


@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_in_rendezvous(hosts, placement, delay, injected):
    """Of the ranks of a host some have joined, or none has, and another rank is late."""
    with Job(hosts, placement, timeout=PATIENCE) as job:
        if delay == 0.0:
            hosts.cut(GONE)
        began = time.monotonic()
        job.start_rank(0, join)
        for rank in range(2, job.options["size"]):
            job.start_rank(rank, join)
        time.sleep(delay)
        hosts.cut(GONE)
        job.start_rank(1, join)
        found = job.wait(PATIENCE + 5)
        outcomes = [found[0], found[-1], *found[1:-1]]
        seconds = check(job, outcomes, began, PATIENCE + delay)
    injected("host vanishes in rendezvous", f"named, deadline {PATIENCE:.0f} s", seconds)


def test_that_comes_back_too_late(hosts, injected):
    """The others have failed: whoever was cut off fails, too, and has no result.

    It may not learn that it timed out for them, where they have ended by then: their reports are
    lost with their sockets, which answer with a reset. Then it has lost them. If it has nothing to
    send again, it learns that when it looks for them.
    """
    placement = PLACEMENTS["4 hosts"]
    progress = jobs.FORK.Array("q", len(placement))
    patience = 8.0  # of a loaded machine, on which a rank may begin late
    with Job(hosts, placement, call_timeout=patience) as job:
        for rank in range(len(placement)):
            job.start_rank(
                rank, work.count_up, progress, call_timeout=60.0 if rank == GONE else patience
            )
        job.until(lambda: min(progress) > 5)
        hosts.cut(GONE)
        time.sleep(1.5 * patience)
        hosts.mend(GONE)
        began = time.monotonic()
        outcomes = job.wait(SILENCE[1])
    assert all(outcome is not None for outcome in outcomes), outcomes
    error = outcomes[GONE].error
    assert outcomes[GONE].value is None and error is not None, outcomes
    aborted = error.kind == "ABORTED" and error.rank == GONE
    lost = error.kind == "PEER_LOST" and error.rank in survivors(placement)
    assert aborted or lost, error
    injected("host back after others failed", error.kind, outcomes[GONE].ended - began)


@pytest.mark.parametrize(("name", "encryption"), zip(PLACEMENTS, [True, False]))
def test_that_comes_back_in_time(hosts, name, encryption, injected):
    placement = PLACEMENTS[name]
    progress, stop = jobs.FORK.Array("q", len(placement)), jobs.FORK.Value("i", 0)
    with Job(hosts, placement, encryption=encryption) as job:
        job.start(work.count_until, progress, stop)
        job.until(lambda: min(progress) > 5)
        hosts.cut(GONE)
        time.sleep(2)
        before = list(progress)
        hosts.mend(GONE)
        began = time.monotonic()
        job.until(lambda: all(now > then + 5 for now, then in zip(progress, before)))
        seconds = time.monotonic() - began
        stop.value = 1
        job.results(20)
    injected("host away for 2 s", "goes on, exact", seconds)
