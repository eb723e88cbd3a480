# SPDX-License-Identifier: Apache-2.0
"""Keras under TensorFlow's MultiWorkerMirroredStrategy.

It is Keras 2 (tf_keras): the `fit` of Keras 3 cannot be used with this strategy.
"""

from __future__ import annotations

import digits
import numpy as np
from ranks import open_comm, run

IMPORTED = ("tensorflow", "tf_keras")
EPOCHS, BATCH = 15, 64


def train():
    with open_comm() as comm:
        comm.tf_config()
        data = digits.load(comm.rank, comm.size)
    import tensorflow as tf
    import tf_keras as keras

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    own = tf.data.Dataset.from_tensor_slices((data.x, data.y))
    own = own.batch(BATCH // strategy.num_replicas_in_sync, drop_remainder=True)
    keras.utils.set_random_seed(1)
    with strategy.scope():
        layers = keras.layers
        model = keras.Sequential(
            [
                layers.Reshape((8, 8, 1), input_shape=(64,)),
                layers.Conv2D(16, 3, activation="relu"),
                layers.MaxPooling2D(),
                layers.Flatten(),
                layers.Dense(10),
            ]
        )
        model.compile(
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            optimizer=keras.optimizers.legacy.Adam(0.01),
        )
    model.fit(own.with_options(options), epochs=EPOCHS, verbose=0)
    weights = np.concatenate([weight.ravel() for weight in model.get_weights()])
    guess = np.array(model(data.test_x)).argmax(1)
    return strategy.num_replicas_in_sync, float((guess == data.test_y).mean()), weights


def test_ranks_train_one_network():
    (replicas, first, weights), (_, second, same) = run(2, train)
    assert replicas == 2
    assert first == second >= digits.ACCURACY
    assert np.array_equal(weights, same)
