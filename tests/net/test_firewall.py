# SPDX-License-Identifier: Apache-2.0
"""Firewalls drop without a word: with a port range jobs form, and without one errors name it."""

import time

import pytest
import sparkring
import work
from jobs import Job

FOUR = [0, 1, 2, 3]
RANGE = (22000, 22007)
RENDEZVOUS = (21000, 31999)  # the default ports of rank 0


def forms(options):
    with sparkring.init(**options) as comm:
        return int(comm.allreduce(comm.rank))


def test_a_range_that_is_open(hosts, injected):
    for host in FOUR:
        hosts.allow_ports(host, *RANGE)
    began = time.monotonic()
    with Job(hosts, [0, 0, 1, 2, 3], ports=RANGE) as job:
        assert len(job.start(work.exact, (10,)).results()) == 5
    injected("only a port range open, and passed", "forms", time.monotonic() - began)


@pytest.mark.parametrize("opened", [(1, 1), RENDEZVOUS], ids=["nothing", "rendezvous"])
def test_no_range(hosts, opened, injected):
    for host in FOUR:
        hosts.allow_ports(host, *opened)
    if opened == RENDEZVOUS:  # ports for links are any, so keep them away from those
        for host in FOUR:
            hosts.use_local_ports(host, 40000, 50000)
    began = time.monotonic()
    with Job(hosts, FOUR, timeout=2) as job:
        outcomes = job.start(forms).wait(8)
    for outcome in outcomes:
        assert outcome is not None and outcome.error is not None, outcomes
        assert outcome.error.kind in ("TIMEOUT", "PEER_LOST"), outcomes
        assert "firewall" in outcome.error.message, outcome.error.message
        assert "port range" in outcome.error.message, outcome.error.message
    seconds = max(outcome.ended for outcome in outcomes) - began
    assert seconds < 3 + job.late
    what = "all ports closed" if opened == (1, 1) else "ports for links closed"
    injected(what, "TIMEOUT, names range and firewall", seconds)


def test_closed_between_two_hosts(hosts, injected):
    """Ranks join, and only then find out that two of them cannot reach each other."""
    hosts.refuse_host(1, 3)
    began = time.monotonic()
    with Job(hosts, FOUR, timeout=2) as job:
        outcomes = job.start(forms).wait(8)
    messages = [outcome.error.message for outcome in outcomes]
    assert any("firewall" in message for message in messages), messages
    seconds = max(outcome.ended for outcome in outcomes) - began
    assert seconds < 3 + job.late
    injected("closed between two hosts", outcomes[0].error.kind, seconds)
