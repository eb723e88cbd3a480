# SPDX-License-Identifier: Apache-2.0
"""Training with PyTorch that goes on after a failure: Horovod's ``hvd.elastic``.

See `run` for what it recovers from.
"""

from sparkring._horovod.elastic import ObjectState, State, run
from sparkring.torch._horovod.sampler import ElasticSampler
from sparkring.torch._horovod.state import TorchState

__all__ = ["ElasticSampler", "ObjectState", "State", "TorchState", "run"]
