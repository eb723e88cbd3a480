# SPDX-License-Identifier: Apache-2.0
"""R processes inside Spark barrier tasks find each other by the task addresses alone.

This is what a sparklyr closure has: no way to the barrier context, only the list of addresses,
which on one machine may all be the same, and the number of its partition.
"""

import secrets
from pathlib import Path

import pytest
import tasks

WORKER = Path(__file__).with_name("worker.R")


@pytest.mark.parametrize("partition_type", ["integer", "double"])
def test_r_workers_form_a_ring(spark, four, partition_type):
    spark.sparkContext.addFile(str(WORKER))
    ranks = four(tasks.r_rank(WORKER.name, secrets.token_hex(32), partition_type))
    assert ranks == [
        {
            "rank": rank,
            "size": 4,
            "encrypted": False,
            "sum": [6, 10, 14, 18, 22],
            "root": [1, 1, 1],
            "all": [0, 0, 1, 10, 2, 20, 3, 30],
        }
        for rank in range(4)
    ]
