# SPDX-License-Identifier: Apache-2.0
"""On a bad network results are those of a good one, to the bit."""

import time

import jobs
import packets
import pytest
import relay
import work
from jobs import Job

PLACEMENTS = {"2 hosts": [0, 1], "2 x 2": [0, 0, 1, 1], "4 hosts": [0, 1, 2, 3]}
CASES = [("2 hosts", False), ("2 x 2", True), ("4 hosts", False)]
GOOD = {}  # what a placement, counts and dtypes give on a good network
COUNTS = (1, 700)  # numbers for each rank
CALLS, HANDSHAKE = 6, 4  # what waits for the other side, for each count and type; to get a link
BURST = 6 << 10  # bytes that pass any limit at once


def run(hosts, placement, encryption, *what):
    began = time.monotonic()
    with Job(hosts, placement, encryption=encryption) as job:
        found = job.start(work.exact, *what).results(100)
    return found, time.monotonic() - began


@pytest.fixture(params=CASES)
def same(hosts, request, injected):
    """`same(fault, spoil)` fails unless results are those of a good network; gives the seconds."""
    name, encryption = request.param
    placement = PLACEMENTS[name]

    def compare(fault, spoil, counts=COUNTS, dtypes=work.DTYPES):
        key = name, counts, tuple(dtypes)
        if key not in GOOD:
            GOOD[key] = run(hosts, placement, False, counts, dtypes)[0]
        spoil()
        found, seconds = run(hosts, placement, encryption, counts, dtypes)
        assert found == GOOD[key]
        injected(fault, "exact, encrypted" if encryption else "exact", seconds)
        return seconds

    return compare


def test_good(same):
    same("none", lambda: None)


def test_five_percent_of_packets_lost(hosts, same):
    same("5% of packets lost", lambda: hosts.lose(5))
    assert hosts.lost() > 0


def test_one_megabit(hosts, same):
    seconds = same("1 Mbit/s", lambda: hosts.limit("1mbit"))
    waits, most = hosts.limited()
    assert waits > 0
    assert seconds > 0.9 * (most - BURST) * 8 / 1e6 > 0.1, (seconds, most)


def test_100_ms(hosts, same):
    fate = packets.Fate(delay=0.1)
    seconds = same(
        "100 ms each way", lambda: hosts.switch_with(fate), counts=(300,), dtypes=["float32"]
    )
    assert fate.switched.value > 0
    assert seconds > 0.1 * (CALLS + HANDSHAKE)


def test_packets_out_of_order(hosts, same):
    fate = packets.Fate(spread=0.02, repeat=0.05)
    same("packets out of order, 5% of them twice", lambda: hosts.switch_with(fate))
    assert fate.repeated.value > 0.02 * fate.switched.value > 0
    assert fate.overtaken.value > 0.05 * fate.switched.value


def test_one_byte_at_a_time(hosts, same):
    trickle = relay.Trickle()

    def spoil():
        for host in range(hosts.ranks):
            relay.start(hosts, host, trickle)

    same("one byte a segment", spoil, counts=(60,))
    assert trickle.segments.value >= trickle.bytes.value > 10_000


@pytest.mark.parametrize("encryption", [False, True])
def test_last_words_lost(hosts, encryption, injected):
    """Of a rank that is done with closing, to one that is not: both close well.

    Closing waits three times for the other side. What is sent for the last time leaves after two
    delays, and is lost until the other rank has long asked where it is.
    """
    delay, end, since = 0.1, 1.2, jobs.FORK.Value("d", 0.0)
    silence = packets.Silence(hosts.addresses[0], since, 1.5 * delay, end)
    hosts.switch_with(packets.Fate(delay), silence)
    with Job(hosts, [0, 1], encryption=encryption) as job:
        seconds = job.start(work.close_together, since).results()
    assert silence.lost.value > 0
    assert min(seconds) > end, seconds
    injected("last words lost", "closes well" + ", encrypted" * encryption, max(seconds))


def flip(job, armed, progress):
    """Flip one bit, or another when that changed nothing: TCP may have had the packet before."""
    for _ in range(5):
        before = sum(progress)
        armed.value, began = 1, time.monotonic()
        outcomes = job.wait(5)
        if any(outcomes) or sum(progress) == before or armed.value:
            break
    return outcomes, began


@pytest.mark.parametrize("encryption", [False, True])
def test_a_flipped_bit(hosts, encryption, injected):
    """Of what TCP takes for right. The error names the damage, and no sum is wrong."""
    armed = jobs.FORK.Value("i", 0)
    hosts.switch_with(packets.Fate(), packets.Flip(armed, least=300))
    progress = jobs.FORK.Array("q", 2)
    with Job(hosts, [0, 1], encryption=encryption) as job:
        job.start(work.count_up, progress)
        job.until(lambda: min(progress) > 10)
        outcomes, began = flip(job, armed, progress)
    assert None not in outcomes, outcomes
    errors = [outcome.error for outcome in outcomes]
    assert all(error.kind == "PEER_LOST" for error in errors), errors
    assert any("arrived damaged" in error.message for error in errors) or encryption, errors
    seconds = max(outcome.ended for outcome in outcomes) - began
    injected("a flipped bit", "PEER_LOST" + ", encrypted" * encryption, seconds)
