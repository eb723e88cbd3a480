# SPDX-License-Identifier: Apache-2.0
"""Horovod's API for tensors: what `sparkring.torch` offers beside its backend.

::

    elastic (public)       run, TorchState, ElasticSampler
    optimizer, hook        gradients of all ranks: DistributedOptimizer, DistributedDataParallel
      shared_state           groups and state of an optimizer, filled in place
      sync_batch_norm, parameters
        allreduce, moves, reducescatter, join
                               the calls, with handles or results
          autograd               their gradients
            starts                 submissions, from tensors to tensors
              compression            smaller types on the way
              arguments              checks of types
"""
