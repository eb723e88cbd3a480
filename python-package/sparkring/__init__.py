# SPDX-License-Identifier: Apache-2.0
"""The tasks of a Spark barrier stage find each other, form a ring and compute together.

`init` makes a `Communicator`: inside a PySpark barrier task, under ``sparkring-run``, mpirun,
Slurm or torchrun, or alone. `sparkring.spark.run` starts the ranks on Spark, or here.

Where to go on
--------------
help(sparkring.spark.run)      run a function or a script on Spark: the usual way in
help(sparkring.init)           join the other ranks, from inside a task or a process
help(sparkring.Communicator)   allreduce, broadcast, send and the other calls of a rank
help(sparkring.Reducer)        named arrays in any order, from any thread
help(sparkring.Messages)       sends and receives with tags, from any rank, at any time
help(sparkring.Device)         the GPUs of the ranks, for arrays there
help(sparkring.Request)        started calls, to wait for or to await
help(sparkring.data.batches)   the rows of a Spark task as batches of arrays or tensors
help(sparkring.data.parquet)   the same of Parquet files, past Spark: shuffled, resumable
help(sparkring.models)         statistical models of the rows of all ranks, as in scikit-learn
help(sparkring.spark.ml)       estimators of Spark ML that train networks on the ranks
help(sparkring.frameworks)     the settings of TensorFlow, PyTorch, JAX, XGBoost, LightGBM, Ray
help(sparkring.RingError)      the base of the errors: TimeoutError, PeerLostError and others
dir(sparkring)                 all public names
python -m sparkring            what is installed, and a test with two ranks
python -m sparkring timeline   one trace, or a picture, of the timelines of the ranks
sparkring-run --help           start the ranks of a job on this machine

Examples
--------
>>> import numpy, sparkring
>>> sparkring.spark.run(lambda comm: int(comm.allreduce(comm.rank)), num_proc=-4)
[6, 6, 6, 6]
>>> with sparkring.init() as comm:
...     mean = comm.allreduce(numpy.ones(3), op="avg")
"""

# A module is private when its name, or that of its directory, begins with an underscore.
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import sparkring._core_loader  # noqa: F401 (first: it loads sparkring._core)
from sparkring._communicator import Communicator
from sparkring._core import (
    AbortedError,
    AuthError,
    BusyError,
    InvalidError,
    MismatchError,
    NoMemoryError,
    PeerLostError,
    RingError,
    SystemCallError,
    TimeoutError,  # noqa: A004 (it is Python's TimeoutError as well)
    UnsupportedError,
)
from sparkring._core import version as __version__
from sparkring._device.array import DeviceArray
from sparkring._device.device import Device
from sparkring._explanation import DeviceExplanation, Explanation
from sparkring._init import init
from sparkring._messages import Messages, MessageStatus, Transfer
from sparkring._reducer import Reducer
from sparkring._request import Request
from sparkring._submission import Submission
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

if TYPE_CHECKING:
    from sparkring import data, frameworks, models, spark

__all__ = [
    "AbortedError",
    "AuthError",
    "BusyError",
    "Communicator",
    "Device",
    "DeviceArray",
    "DeviceExplanation",
    "Explanation",
    "InvalidError",
    "MessageStatus",
    "Messages",
    "MismatchError",
    "NoMemoryError",
    "PeerLostError",
    "Reducer",
    "Request",
    "RingError",
    "Submission",
    "SystemCallError",
    "TimeoutError",
    "Transfer",
    "UnsupportedError",
    "__version__",
    "data",
    "frameworks",
    "gpus",
    "init",
    "jax_config",
    "lightgbm_config",
    "models",
    "nccl_id",
    "ray_config",
    "spark",
    "tf_config",
    "torch_env",
    "xgboost_config",
]

_public = __all__
# help() prints all names in __all__ in full, which would be 2,000 lines. A star import uses it.
globals()["__all__"] = ["__version__", "data", "frameworks", "models", "spark"]


def __dir__() -> list[str]:
    """List the public names."""
    return list(_public)


def __getattr__(name: str) -> Any:
    """Import a public package when it is first used."""
    if name in ("data", "models", "spark"):
        return importlib.import_module(f"sparkring.{name}")
    raise AttributeError(f"module 'sparkring' has no attribute {name!r}")
