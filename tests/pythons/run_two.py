# SPDX-License-Identifier: Apache-2.0
"""Runs a function on two processes, and with "spark" also on two tasks of a barrier stage.

python run_two.py [spark]
"""

from __future__ import annotations

import sys

from sparkring.spark import run


def add(comm):
    return comm.allreduce(comm.rank + 1)


def main() -> None:
    assert run(add, num_proc=-2, verbose=0) == [3, 3]
    ran = "processes"
    if sys.argv[1:] == ["spark"]:
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.master("local[2]").getOrCreate()
        assert run(add, num_proc=2, verbose=0) == [3, 3]
        ran += f" and on Spark {spark.version}"
        spark.stop()
    print(f"run works with {ran}")


if __name__ == "__main__":
    main()
