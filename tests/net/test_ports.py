# SPDX-License-Identifier: Apache-2.0
"""A host that has no port left to connect from is distinguished from a peer that is gone."""

import socket
import time

import numpy as np
import pytest
import sparkring
from jobs import Job

FOUR = [0, 1, 2, 3]
RANGE = (22000, 22007)
FEW = (20000, 20002)  # outside hosts.LOCAL_PORTS, of which earlier connections still hold many


def take_all(address=""):
    """Hold every port of FEW, which is all that the system of this host gives away."""
    taken = []
    for port in range(FEW[0], FEW[1] + 1):
        taken.append(socket.socket())
        taken[-1].bind((address, port))
        taken[-1].listen()
    return taken


def opens(options):
    """Form, on a host of which all ports are taken if this is rank 1."""
    held = take_all() if options["rank"] == 1 else []
    try:
        with sparkring.init(**options) as comm:
            return int(comm.allreduce(comm.rank))
    finally:
        for each in held:
            each.close()


@pytest.mark.parametrize("ports", [RANGE, None], ids=["with a port range", "without"])
def test_none_left_to_connect_to(hosts, ports, injected):
    hosts.use_local_ports(1, *FEW)
    began = time.monotonic()
    with Job(hosts, FOUR, timeout=3, **({"ports": ports} if ports else {})) as job:
        outcomes = job.start(opens).wait(12)
    mine = outcomes[1].error
    assert mine.kind == "SYSTEM" and mine.rank == 1, outcomes
    assert "20000 to 20002 (net.ipv4.ip_local_port_range)" in mine.message
    for other in (0, 2, 3):
        assert outcomes[other].error.kind == "TIMEOUT", outcomes
        assert "missing: rank 1" in outcomes[other].error.message
    seconds = max(outcome.ended for outcome in outcomes) - began
    assert seconds < 4 + job.late
    injected("ephemeral ports run out, ranks join", "SYSTEM, names the range", seconds)


def dials_late(options, low):
    """Open a link that is not there yet when there is no port for it any more."""
    with sparkring.init(**options) as comm:
        if comm.rank == 5:
            with open("/proc/sys/net/ipv4/ip_local_port_range", "w") as setting:
                setting.write(f"{FEW[0]} {FEW[1]}")
            held = take_all()
        comm.barrier()
        began = time.monotonic()
        try:
            if comm.rank == 5:
                comm.recv(np.zeros(1), low)
            comm.barrier()
        finally:
            if comm.rank == 5:
                for each in held:
                    each.close()
        return time.monotonic() - began


def test_none_left_for_a_link(hosts, injected):
    hosts.use_local_ports(3, 32768, 60999)  # so that it is put right again
    began = time.monotonic()
    with Job(hosts, [0, 1, 2, 0, 1, 3]) as job:
        outcomes = job.start(dials_late, 2).wait(20)
    for outcome in outcomes:
        assert outcome.error.kind == "SYSTEM" and outcome.error.rank == 5, outcomes
        assert "rank 5 cannot connect to rank 2 (" in outcome.error.message, outcomes
        assert "20000 to 20002 (net.ipv4.ip_local_port_range)" in outcome.error.message
    seconds = max(outcome.ended for outcome in outcomes) - began
    injected("ephemeral ports run out, a later link", "SYSTEM on all, names the range", seconds)
