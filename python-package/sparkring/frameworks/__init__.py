# SPDX-License-Identifier: Apache-2.0
"""What frameworks that train on many processes have to be told: who the others are, and where.

There is a function for each framework, which is a method of the communicator, too. All ranks call
it before the framework starts; what one of them cannot do is an error on all. Servers get ports
that are reserved before anybody is told of them and held until the framework has bound them
(`Communicator.port_reserve`). For a framework that cannot bind a port which is held, its function
says how the port gets there. In a Spark task that has GPUs they see to these, too (`gpus`).

None of them imports its framework, with the exception of `xgboost_config` on rank 0.
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
