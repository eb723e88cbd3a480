# SPDX-License-Identifier: Apache-2.0
"""Where Spark encrypts its own traffic, ranks do, too, unless an option turns it off."""

import secrets
from pathlib import Path

import pytest
import tasks
from conftest import ENCRYPTED, FRAMES, SASL
from sparkring.spark import run

WORKER = Path(__file__).with_name("worker.R")

pytestmark = pytest.mark.parametrize("spark", [ENCRYPTED, SASL], indirect=True)


def test_jobs_of_rdds(four):
    assert four(tasks.unasked) == [((True, "tls"), (False, "tcp"))] * 4


@FRAMES
def test_jobs_of_data_frames(spark):
    frame = spark.range(100).repartition(4)
    rows = frame.mapInPandas(tasks.unasked_frames, "encrypted boolean", barrier=True).collect()
    assert [row["encrypted"] for row in rows] == [True] * 4


def test_r_workers(spark, four):
    spark.sparkContext.addFile(str(WORKER))
    ranks = four(tasks.r_rank(WORKER.name, secrets.token_hex(32)))
    assert [rank["encrypted"] for rank in ranks] == [True] * 4


def test_run(spark, capsys):
    """What the ranks print comes here all the same, on connections that are encrypted, too."""

    def work(comm):
        print("a secret")
        return comm.encrypted

    assert run(work, num_proc=4) == [True] * 4
    output = capsys.readouterr().out
    assert [f"[{rank}] a secret" in output for rank in range(4)] == [True] * 4
    assert "live output is off" not in output
