# SPDX-License-Identifier: Apache-2.0
"""Choosing algorithms: rules, and the communicator's explanation of its choice."""

from __future__ import annotations

import os

import numpy as np
import pytest
import sparkring
from ranks import open_comm, outcomes, run


def alone(**options):
    return sparkring.init(rank=0, addresses=["localhost"], **options)


def explain_and_call(algorithm):
    x = np.ones(5000, "float32")
    with open_comm(algorithms=f"allreduce:{algorithm}", shared_memory=False) as comm:
        plan = comm.explain("allreduce", x.nbytes)
        before = comm.counters()
        comm.allreduce(x)
        after = comm.counters()
    return plan, {name: after[name] - before[name] for name in after}


@pytest.mark.parametrize("algorithm", ["direct", "doubling", "halving", "ring"])
def test_explain_returns_what_the_call_moves(algorithm):
    for rank, (plan, moved) in enumerate(run(3, explain_and_call, algorithm)):
        assert (plan.collective, plan.dtype, plan.tier) == ("allreduce", "float32", "loopback")
        assert (plan.algorithm, plan.reason) == (algorithm, "rule")
        assert plan.backend == "native"
        assert (plan.bytes, plan.count) == (20000, 5000)
        assert plan.runner_up != algorithm
        assert plan.seconds > 0
        assert plan.runner_up_seconds > 0
        for name in ("messages_sent", "messages_received", "bytes_sent", "bytes_received"):
            assert getattr(plan, name) == moved[name]
        lines = str(plan).split("\n")
        assert lines[0].startswith(
            "allreduce of 20000 bytes (count 5000, float32) on 3 ranks over loopback: "
            f"{algorithm} (rule), about "
        )
        assert lines[1].startswith(f"rank {rank}: {plan.steps} steps, {plan.links} links; ")


def explain_shared():
    with open_comm() as comm:
        return comm.explain("allreduce", 8), comm.explain("allreduce", 1 << 20)


def test_nothing_moves_over_links_in_shared_memory():
    short, long = run(2, explain_shared)[0]
    assert (short.algorithm, long.algorithm) == ("slots", "arena")
    assert short.reason == "shared memory"
    assert (long.links, long.bytes_sent) == (0, 0)


def test_ranges_and_defaults():
    with alone(algorithms="allreduce:doubling:-1KiB, allgather:ring:1025-") as comm:
        assert comm.explain("allreduce", 1024).algorithm == "doubling"
        assert comm.explain("allreduce", 1025).reason == "least cost"
        assert comm.explain("allgather", 1028).algorithm == "ring"
        assert comm.explain("allreduce", 1025).bytes == 1028
        barrier = comm.explain("barrier", 0)
        assert (barrier.reason, barrier.runner_up) == ("only one", None)
        assert barrier.runner_up_seconds is None


def test_a_dtype_that_the_rule_cannot_serve():
    with alone(algorithms="allreduce:halving") as comm:
        assert comm.explain("allreduce", 8, "float64").algorithm == "halving"
        plan = comm.explain("allreduce", 8, dtype="float16")
        assert plan.algorithm != "halving"
        assert "the rule cannot serve it" in str(plan)


def test_bad_questions():
    with alone() as comm:
        with pytest.raises(sparkring.InvalidError, match=r"all_reduce is no collective; there are"):
            comm.explain("all_reduce", 8)
        with pytest.raises(sparkring.InvalidError, match="nbytes is -1"):
            comm.explain("allreduce", -1)
        with pytest.raises(sparkring.InvalidError, match='unknown dtype "float"'):
            comm.explain("allreduce", 8, "float")
        with pytest.raises(sparkring.InvalidError, match="root 1 is no rank"):
            comm.explain("reduce", 8, root=1)
        assert comm.usable
    with pytest.raises(sparkring.InvalidError, match="the communicator is closed"):
        comm.explain("allreduce", 8)


@pytest.mark.parametrize(
    ("algorithms", "text"),
    [
        ("allreduce", r'^algorithms: "allreduce" is no rule: write collective:algorithm'),
        ("sum:ring", r'^algorithms: "sum:ring" does not begin with a collective; there are allr'),
        ("reduce:ring", r'^algorithms: "reduce:ring" names no algorithm .* are tree, chain$'),
        ("reduce:tree:1KB-", r'^algorithms: "reduce:tree:1KB-" ends in no range of sizes: write'),
    ],
)
def test_bad_rules(algorithms, text):
    with pytest.raises(sparkring.InvalidError, match=text):
        alone(algorithms=algorithms)


def test_the_variable(monkeypatch):
    monkeypatch.setenv("SPARKRING_ALGORITHM", "allreduce:doubling")
    with alone() as comm:
        assert comm.explain("allreduce", 8).reason == "rule"
    with alone(algorithms="") as comm:
        assert comm.explain("allreduce", 8).reason == "least cost"
    monkeypatch.setenv("SPARKRING_ALGORITHM", "allreduce:tree")
    with pytest.raises(sparkring.InvalidError, match=r"^SPARKRING_ALGORITHM: "):
        alone()


def open_apart():
    algorithms = "allreduce:ring" if os.environ["SPARKRING_RANK"] == "1" else None
    open_comm(algorithms=algorithms).close()


def test_ranks_with_other_rules_do_not_open():
    for outcome in outcomes(3, open_apart):
        assert isinstance(outcome.error, sparkring.MismatchError)
        assert "rank 1 called open() with algorithms #" in str(outcome.error)
        assert "give all ranks the same algorithm rules" in str(outcome.error)
