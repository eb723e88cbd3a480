# SPDX-License-Identifier: Apache-2.0
"""Run a function on the ranks of a ring, as the tasks of a Spark barrier stage.

Examples
--------
>>> from sparkring.spark import run
>>> run(lambda comm: comm.rank, num_proc=4)
[0, 1, 2, 3]
>>> from sparkring.spark import mpi
>>> mpi(["./solve"], num_proc=4)  # an MPI program
"""

import importlib
from typing import Any

from sparkring.spark._checkpoint import Checkpoint
from sparkring.spark._mpi import mpi
from sparkring.spark._preflight import explained
from sparkring.spark._rank_result import RankError
from sparkring.spark._run import run

__all__ = ["Checkpoint", "RankError", "explained", "mpi", "run"]


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)


def __getattr__(name: str) -> Any:
    """Import the estimators when they are first used; they need all of PySpark."""
    if name == "ml":
        return importlib.import_module("sparkring.spark.ml")
    raise AttributeError(f"module 'sparkring.spark' has no attribute {name!r}")
