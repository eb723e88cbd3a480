# SPDX-License-Identifier: Apache-2.0
"""Which rank is at fault, and the text of its error."""

from __future__ import annotations

import os
import pickle
import sys

import pytest
import sparkring
from sparkring.spark import RankError
from sparkring.spark import _rank_result as rank_result
from sparkring.spark import _task_main as task_main
from sparkring.spark._rank_result import Failure, RankResult

pytestmark = pytest.mark.quick


def raised(error, when=0.0, number=0):
    """Let a rank raise an error, after others when it has a context."""
    failure = Failure.of(error, None)
    return RankResult(number, None, Failure(**{**vars(failure), "when": when}))


def derived(cause):
    try:
        raise RuntimeError("training has failed") from cause
    except RuntimeError as error:
        return error


ABORTED = sparkring.AbortedError("rank 2 aborted")
LOST = sparkring.PeerLostError("rank 2 was lost")


@pytest.mark.parametrize(
    ("errors", "at_fault"),
    [
        ([ABORTED, ValueError(), ABORTED], 1),
        ([LOST, ABORTED, sparkring.InvalidError("unknown op")], 2),
        ([ABORTED, sparkring.TimeoutError("rank 2 is silent"), ABORTED], 1),
        ([derived(ABORTED), ABORTED, KeyError("x")], 2),
        ([None, LOST, None], 1),
        ([sparkring.MismatchError("a"), sparkring.MismatchError("b"), ABORTED], 0),
        ([SystemExit(1), ABORTED, ABORTED], 0),
    ],
)
def test_who_is_at_fault(errors, at_fault):
    rank_results = [
        RankResult(number) if error is None else raised(error, number=number)
        for number, error in enumerate(errors)
    ]
    assert rank_result.culprit(rank_results).rank == at_fault


def test_of_two_the_first():
    rank_results = [raised(ValueError(), 2.0, 0), raised(KeyError(), 1.0, 1)]
    assert rank_result.culprit(rank_results).rank == 1
    assert rank_result.culprit([RankResult(0), RankResult(1)]) is None


def test_text():
    failed = RankResult(
        3, None, Failure("KeyError", None, "Traceback: x\n", 0, 0.0), ("a", "b"), "h"
    )
    error = rank_result.to_raise(failed, 2)
    assert isinstance(error, RankError)
    assert str(error) == (
        "rank 3 on h failed with KeyError (attempt 2)\n\nTraceback: x\n\n"
        "The last lines of its log:\n  a\n  b"
    )
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.rank, copy.host, copy.attempt, copy.log) == (3, "h", 2, ["a", "b"])


def test_of_a_killed_rank_and_those_that_lost_it_the_first():
    killed = RankResult(2, failure=Failure.lost("was killed by SIGKILL"))
    assert rank_result.culprit([raised(LOST), raised(ABORTED, number=1), killed]) is killed
    own = raised(ValueError(), number=1)
    assert rank_result.culprit([killed, own]) is own
    assert str(rank_result.to_raise(killed, 0)) == f"rank 2 on {killed.host} was killed by SIGKILL"


class TwoArgumentsError(Exception):
    """Its pickle cannot be read."""

    def __init__(self, a, b):
        super().__init__(f"{a} {b}")


@pytest.mark.parametrize("error", [TwoArgumentsError(1, 2), SystemExit(3), KeyboardInterrupt()])
def test_what_cannot_be_raised_here(error):
    raised_error = rank_result.to_raise(raised(error), 0)
    assert isinstance(raised_error, RankError)
    assert type(error).__name__ in str(raised_error)


def test_outcomes_in_the_text_of_an_error():
    failed = raised(ArithmeticError("x"), number=1)
    text = f"Job aborted.\n  at java {task_main.to_text(failed, failed.failure)}\n  at scala"
    assert task_main.from_text(text) == failed
    large = raised(ArithmeticError("x" * 2 * task_main.LARGEST))
    assert task_main.from_text(task_main.to_text(large, large.failure)).failure.error is None
    assert task_main.from_text("Job aborted") is None


def test_a_child_of_a_rank_ends_though_nobody_reads_its_errors():
    reader, writer = os.pipe()
    os.close(reader)
    child = os.fork()
    if child == 0:
        try:
            sys.stderr = open(writer, "w", buffering=1)  # noqa: SIM115
            task_main.exit_child(ValueError())
        finally:
            os._exit(77)
    os.close(writer)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
