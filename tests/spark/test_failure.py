# SPDX-License-Identifier: Apache-2.0
"""A failing task fails the job, by name and soon; a new attempt forms a ring of its own."""

import pytest
import tasks


def test_failing_rank_fails_the_job(four):
    """Spark reports the failing task or one of those that lost it; either message names rank 2.

    Their executors, which have folders of their own, stay.
    """
    before = four(tasks.describe)
    with pytest.raises(Exception, match="rank 2"):
        four(tasks.rank_two_fails)
    after = four(tasks.describe)
    assert [rank["rank"] for rank in after] == [0, 1, 2, 3]
    assert {rank["executor"] for rank in after} == {rank["executor"] for rank in before}


def test_rank_that_stays_away(four):
    with pytest.raises(Exception, match="TimeoutError"):
        four(tasks.rank_three_stays_away)


def test_second_attempt_forms_a_new_ring(spark, tmp_path):
    """Spark tries a barrier stage again when a shuffle follows it."""
    run = tasks.rank_one_fails_once(str(tmp_path / "marker"))
    barrier = spark.sparkContext.parallelize(range(4), 4).barrier().mapPartitions(run)
    assert barrier.repartition(1).collect() == [4.0] * 4
    assert (tmp_path / "marker").exists()
