# SPDX-License-Identifier: Apache-2.0
"""The tasks of a Spark barrier stage find each other, form a ring and compute together.

`init` makes a `Communicator`: inside a PySpark barrier task, under ``sparkring-run``, mpirun,
Slurm or torchrun, or alone.

Examples
--------
>>> import numpy, sparkring
>>> with sparkring.init() as comm:
...     mean = comm.allreduce(numpy.ones(3), op="avg")
"""

import sparkring.object  # it gives Communicator the methods for objects
import sparkring.request  # it makes Request awaitable
import sparkring.running  # noqa: F401 (it gives Communicator attempt and progress)
from sparkring._core import (
    AbortedError,
    AuthError,
    BusyError,
    Communicator,
    InvalidError,
    MismatchError,
    NoMemoryError,
    PeerLostError,
    Request,
    RingError,
    SystemCallError,
    TimeoutError,  # noqa: A004 (it is Python's TimeoutError as well)
    UnsupportedError,
)
from sparkring._core import version as __version__
from sparkring.communicator import init
from sparkring.explanation import Explanation
from sparkring.frameworks import (
    gpus,
    jax_config,
    lightgbm_config,
    nccl_id,
    ray_config,
    tf_config,
    torch_env,
    xgboost_config,
)

__all__ = [
    "AbortedError",
    "AuthError",
    "BusyError",
    "Communicator",
    "Explanation",
    "InvalidError",
    "MismatchError",
    "NoMemoryError",
    "PeerLostError",
    "Request",
    "RingError",
    "SystemCallError",
    "TimeoutError",
    "UnsupportedError",
    "__version__",
    "gpus",
    "init",
    "jax_config",
    "lightgbm_config",
    "nccl_id",
    "ray_config",
    "tf_config",
    "torch_env",
    "xgboost_config",
]
