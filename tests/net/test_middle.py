# SPDX-License-Identifier: Apache-2.0
"""A man in the middle who lacks the token gets no further than a cable that is cut; and one who has
it, or comes in behind a rank that has, breaks the job with an error and nothing else.

He is a relay on the way of all connections that one host makes (relay.py).
"""

import os
import resource
import time
from pathlib import Path

import jobs
import pytest
import relay
import sparkring
import work
from handshake import wire
from jobs import Job

HELLO_BYTES, CLAIM_BYTES, ANSWER_BYTES = map(wire, ["HELLO_BYTES", "CLAIM_BYTES", "ANSWER_BYTES"])
PATIENCE = 1.5
MEMORY = 16 << 20  # what a rank may take, with all buffers and threads
NOISE = {"ones": b"\xff", "random": None}


def resident():
    """Tell how much memory this process has, with which every rank begins."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def exactly(source, count):
    data = b""
    while len(data) < count and (piece := source.recv(count - len(data))):
        data += piece
    return data


def pass_on(source, target):
    for piece in relay.pieces(source):
        target.sendall(piece)


def introduce_himself(source, target, sent):
    """Send HELLO to both sides, so that he would share a key with each."""
    hello = exactly(source, HELLO_BYTES)
    target.sendall(hello[:12] + os.urandom(HELLO_BYTES - 12))
    pass_on(source, target)


def deny_encryption(source, target, sent):
    """Claim to each side that the other wants no encryption: neither accepts it."""
    hello = exactly(source, HELLO_BYTES)
    target.sendall(hello[:11] + b"\0" + hello[12:])
    pass_on(source, target)


def be_somebody_else(source, target, sent):
    """Change the rank that a claim names."""
    hello = exactly(source, HELLO_BYTES)
    target.sendall(hello)
    if sent:
        claim = exactly(source, CLAIM_BYTES)
        target.sendall(bytes([claim[0] ^ 2]) + claim[1:])
    pass_on(source, target)


def answer_himself(source, target, sent):
    """Send back to each side its own bytes."""
    for piece in relay.pieces(source):
        source.sendall(piece)


def forms(options):
    with sparkring.init(**options) as comm:
        return int(comm.allreduce(comm.rank))


TRICKS = [
    (introduce_himself, False),
    (introduce_himself, True),
    (deny_encryption, True),
    (be_somebody_else, False),
    (answer_himself, False),
]


@pytest.mark.parametrize(("trick", "encryption"), TRICKS)
def test_without_the_token(hosts, trick, encryption, injected):
    relay.start(hosts, 1, trick)
    began = time.monotonic()
    with Job(hosts, [0, 1, 2], timeout=PATIENCE, encryption=encryption) as job:
        outcomes = job.start(forms).wait(PATIENCE + 5)
    for outcome in outcomes:
        assert outcome is not None and outcome.error is not None, outcomes
        assert outcome.error.kind in ("TIMEOUT", "AUTH"), outcomes
    seconds = max(outcome.ended for outcome in outcomes) - began
    assert seconds <= PATIENCE + 1 + job.late, outcomes
    kinds = "/".join(sorted({outcome.error.kind for outcome in outcomes}))
    injected(f"man in the middle: {trick.__name__}", f"{kinds}, refused", seconds)


@pytest.mark.parametrize("encryption", [False, True])
def test_bytes_changed_on_the_way(hosts, encryption, injected):
    """One byte after many right ones: no result is wrong, and all ranks fail."""
    armed = jobs.FORK.Value("i", 0)

    def change_one(source, target, sent):
        for piece in relay.pieces(source):
            if armed.value and len(piece) > 200:
                armed.value = 0
                piece = piece[:100] + bytes([piece[100] ^ 1]) + piece[101:]
            target.sendall(piece)

    relay.start(hosts, 1, change_one)
    progress = jobs.FORK.Array("q", 3)
    with Job(hosts, [0, 1, 2], encryption=encryption) as job:
        job.start(work.count_up, progress)
        job.until(lambda: min(progress) > 5)
        armed.value, began = 1, time.monotonic()
        outcomes = job.wait(20)
    errors = [outcome.error for outcome in outcomes]
    assert all(error.kind == "PEER_LOST" for error in errors), errors
    seconds = max(outcome.ended for outcome in outcomes) - began
    injected("a byte changed on the way", "PEER_LOST" + ", encrypted" * encryption, seconds)


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("after", [0, 200, 5000])
@pytest.mark.parametrize("sent", [True, False], ids=["rank", "rank 0"])
def test_authenticates_and_then_talks_nonsense(hosts, sent, after, noise, injected):
    """Whoever joins as rank 1, or is rank 0 for rank 1, proves it and goes on with noise."""
    proof = HELLO_BYTES + (CLAIM_BYTES if sent else ANSWER_BYTES)

    def go_mad(source, target, from_here):
        if from_here is not sent:
            return pass_on(source, target)
        left = proof + after
        while left > 0 and (piece := source.recv(left)):
            target.sendall(piece)
            left -= len(piece)
        while True:
            target.sendall(NOISE[noise] * 65536 if NOISE[noise] else os.urandom(65536))

    relay.start(hosts, 1, go_mad)
    began = time.monotonic()
    with Job(hosts, [0, 1, 2], timeout=PATIENCE, call_timeout=PATIENCE) as job:
        outcomes = job.start(work.exact, (2000,)).wait(2 * PATIENCE + 5)
    for outcome in outcomes:
        assert outcome is not None and outcome.error is not None, outcomes
        assert outcome.error.kind in ("TIMEOUT", "PEER_LOST", "MISMATCH", "ABORTED"), outcomes
    seconds = max(outcome.ended for outcome in outcomes) - began
    assert seconds <= 2 * PATIENCE + 1 + job.late, outcomes
    assert max(outcome.peak for outcome in outcomes) < resident() + MEMORY
    kinds = "/".join(sorted({outcome.error.kind for outcome in outcomes}))
    injected("authenticates, then nonsense", kinds, seconds)
