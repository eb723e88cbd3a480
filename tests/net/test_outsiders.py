# SPDX-License-Identifier: Apache-2.0
"""Outsiders at the ports of a job, while it forms and while it runs: it does both all the same.

What its ranks hold (descriptors, memory) stays about what it is without outsiders, and these learn
nothing: neither the token in any spelling nor a host. The job's speed meanwhile is only printed.
"""

import base64
import contextlib
import os
import socket
import time
from pathlib import Path

import jobs
import outsiders
import pytest
import relay
import work
from jobs import Job

PORTS = (22000, 22003)
PENDING = 64  # that a rank's acceptor keeps pending (core/peers/acceptor.h)
PAGE = os.sysconf("SC_PAGE_SIZE")
MEMORY = 4 << 20  # what a rank may hold more than without outsiders
QUIET = {}  # what ranks hold and do without outsiders
ATTACKS = [
    "garbage",
    "greet",
    "dribble",
    "scan",
    "half_open",
    "another token",
    "another job",
    "replay",
]


class Scale:
    """The most that the ranks of a job have held while it was looked at."""

    def __init__(self, job):
        self.pids = [process.pid for process in job.processes]
        self.sockets = self.memory = 0

    def look(self):
        for pid in self.pids:
            self.sockets = max(self.sockets, count_sockets(pid))
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            self.memory = max(self.memory, pages * PAGE)


def count_sockets(pid):
    """Count the sockets of a process; other descriptors it has from the test's process."""
    found = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(entry).startswith("socket:")
    return found


def record(hosts, job):
    """Let the job form once through a relay that records the bytes of its ranks."""
    streams = jobs.FORK.SimpleQueue()

    def listen(source, target, sent):
        words = b""
        for piece in relay.pieces(source):
            words += piece
            target.sendall(piece)
        if sent:
            streams.put(words)

    for host in range(4):
        relay.start(hosts, host, listen)
    with Job(hosts, job.placement, **job.options) as first:
        first.start(work.exact, (5,)).results()
    hosts.reset()
    recorded = []
    while not streams.empty():
        recorded.append(streams.get())
    assert all(words[:8] == b"sparkrng"[: len(words)] for words in recorded)
    recorded = [words for words in recorded if words]  # a probe of a listener sends none
    assert len(recorded) > 4
    return recorded


def besiege(hosts, job, attack, notebook):
    """Start the outsiders."""
    place, addresses = lambda: hosts.enter_host(hosts.outsider), hosts.addresses[:4]
    if attack.startswith("another"):
        wrong = {attack.split()[1]: "a guess at the token"}
        options = {**job.options, "rank": 1, "timeout": 1, **wrong}
        return jobs.process(place, outsiders.be_rank, notebook, options)
    more = [record(hosts, job)] if attack == "replay" else []
    function = getattr(outsiders, attack)
    return jobs.process(place, function, addresses, PORTS, notebook, *more)


def live(job, seconds, wait_for=lambda: time.sleep(0.3)):
    """Form the job, let it run for a while, and end it; what it took and held, and its rate.

    The last rank comes when `wait_for` has returned, and time counts from then.
    """
    progress, stop = jobs.FORK.Array("q", 4), jobs.FORK.Value("i", 0)
    for rank in (0, 1, 2):
        job.start_rank(rank, work.count_until, progress, stop)
    wait_for()
    began = time.monotonic()
    job.start_rank(3, work.count_until, progress, stop)
    scale = Scale(job)

    def formed():
        scale.look()
        return min(progress) > 0

    job.until(formed, 60)
    took, ends = time.monotonic() - began, time.monotonic() + seconds
    while time.monotonic() < ends:
        scale.look()
        time.sleep(0.02)
    stop.value = 1
    results = job.results(30)
    return took, scale, results[0][0] / results[0][1]


def spellings(options):
    """All that an outsider must not learn."""
    token = options["token"]
    yield from (token, token.hex().encode(), token.hex().upper().encode(), base64.b64encode(token))
    for address in options["addresses"]:
        yield from (address.encode(), socket.inet_aton(address))


@pytest.fixture
def quiet(hosts):
    if not QUIET:
        with Job(hosts, [0, 1, 2, 3], ports=PORTS) as job:
            QUIET["took"], QUIET["scale"], QUIET["rate"] = live(job, 2)
    return QUIET


def check(job, notebook, scale, quiet):
    # Two more, for a moment: a connection is accepted before another one is dropped, and a rank
    # probes the listener of a rank that has not connected yet. The descriptors are not counted at
    # one moment: a few that were closed meanwhile are counted beside those that took their place.
    assert scale.sockets <= quiet["scale"].sockets + PENDING + 8
    assert scale.memory <= quiet["scale"].memory + MEMORY
    received = notebook.text()
    assert not [secret for secret in spellings(job.options) if secret in received]
    assert b"WELCOME" not in received


def figures(attack, notebook, took, scale, rate, quiet):
    return (
        f"{attack:14} {notebook.connections.value:6} connections, {len(notebook.text()):6} B back;"
        f" formed in {took:5.2f} s (quiet {quiet['took']:.2f}), {rate:4.0f} calls/s"
        f" ({quiet['rate']:.0f}), {scale.sockets} sockets ({quiet['scale'].sockets}),"
        f" {scale.memory >> 10} KiB ({quiet['scale'].memory >> 10})"
    )


@pytest.mark.parametrize("attack", ATTACKS)
def test_outsiders(hosts, attack, quiet, injected, noted):
    notebook = outsiders.Notebook()
    with Job(hosts, [0, 1, 2, 3], ports=PORTS) as job:
        outsider = besiege(hosts, job, attack, notebook)
        took, scale, rate = live(job, 2)
        assert outsider.is_alive(), "the outsider ended"
    check(job, notebook, scale, quiet)
    assert notebook.connections.value > 0, "the outsiders did not get through"
    injected(f"outsiders: {attack}", "forms and runs", took)
    noted(figures(attack, notebook, took, scale, rate, quiet))


def test_ten_thousand_outsiders(hosts, quiet, injected, noted):
    """They are there before the last rank comes, hold what they get and come again."""
    notebook = outsiders.Notebook()
    with Job(hosts, [0, 1, 2, 3], ports=PORTS) as job:
        besiege(hosts, job, "be_silent", notebook)

        def crowded():
            jobs.until(lambda: notebook.connections.value >= outsiders.MANY, 60)

        took, scale, rate = live(job, 1, crowded)
    check(job, notebook, scale, quiet)
    injected("outsiders: ten thousand", "forms and runs", took)
    noted(figures("ten thousand", notebook, took, scale, rate, quiet))
