# SPDX-License-Identifier: Apache-2.0
"""Settings of frameworks that train on many processes: ranks, hosts and ports.

Each framework has a function, which is also a method of the communicator. All ranks call the
function before the framework starts. A failure of one rank is an error on all ranks. Ports of
servers are reserved before any rank receives them, and stay reserved until the framework has bound
them (`Communicator.port_reserve`). Where a framework cannot bind a reserved port, its function
documents how the framework gets the port. In a Spark task with GPUs the functions also choose the
GPUs of the task (`gpus`).

No function imports its framework, except `xgboost_config` on rank 0.
"""

from sparkring.frameworks._gpu import gpus
from sparkring.frameworks._jax import jax_config
from sparkring.frameworks._lightgbm import lightgbm_config
from sparkring.frameworks._nccl import nccl_id
from sparkring.frameworks._ray import ray_config
from sparkring.frameworks._tensorflow import tf_config
from sparkring.frameworks._torch import torch_env
from sparkring.frameworks._xgboost import xgboost_config

__all__ = [
    "gpus",
    "jax_config",
    "lightgbm_config",
    "nccl_id",
    "ray_config",
    "tf_config",
    "torch_env",
    "xgboost_config",
]


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)
