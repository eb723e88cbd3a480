# SPDX-License-Identifier: Apache-2.0
"""JAX's processes, with rank 0's coordinator."""

from __future__ import annotations

import digits
import numpy as np
from ranks import open_comm, run

STEPS, RATE = 100, 2.0


def train():
    with open_comm() as comm:
        config = comm.jax_config()
        data = digits.load(comm.rank, comm.size)
    import jax
    import jax.numpy as jnp
    from jax.experimental import multihost_utils

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(**config)
    assert jax.process_index() == config["process_id"]

    @jax.jit
    def gradient(weights, x, y):
        def loss(weights):
            chances = jax.nn.log_softmax(x @ weights)
            return -jnp.take_along_axis(chances, y[:, None], 1).mean()

        return jax.grad(loss)(weights)

    weights = jnp.zeros((64, 10))
    for _ in range(STEPS):
        mine = gradient(weights, data.x, data.y)
        weights -= RATE * multihost_utils.process_allgather(mine).mean(0)
    accuracy = (np.array(data.test_x @ weights).argmax(1) == data.test_y).mean()
    jax.distributed.shutdown()
    return config["num_processes"], float(accuracy), np.array(weights)


def test_ranks_train_one_model():
    (processes, first, weights), (_, second, same) = run(2, train)
    assert processes == 2
    assert first == second >= digits.ACCURACY
    assert np.array_equal(weights, same)
