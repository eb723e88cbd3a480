# SPDX-License-Identifier: Apache-2.0
"""One ring of R and Python: the tasks of two barrier stages that run at the same time.

Each stage knows its own tasks only, so all ranks get the address of rank 0, and the token.
"""

import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tasks

WORKER = Path(__file__).with_name("mixed.R")

pytestmark = pytest.mark.quick


def test_r_and_python_in_one_ring(spark):
    context = spark.sparkContext
    context.addFile(str(WORKER))
    token = secrets.token_hex(32)

    def collect(rank):
        return context.parallelize(range(2), 2).barrier().mapPartitions(rank).collect()

    with ThreadPoolExecutor(2) as threads:
        in_python = threads.submit(collect, tasks.rank_of_four(token))
        in_r = threads.submit(collect, tasks.r_rank(WORKER.name, token))
        ranks = in_python.result() + in_r.result()
    assert ranks == [
        {
            "rank": rank,
            "sum": [6, 10, 14, 18, 22],
            "root": [1, 1, 1],
            "all": [0, 0, 1, 10, 2, 20, 3, 30],
        }
        for rank in range(4)
    ]
