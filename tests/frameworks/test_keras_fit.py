# SPDX-License-Identifier: Apache-2.0
"""``model.fit`` of Keras 3 with sparkring.keras, on the backends TensorFlow, JAX and PyTorch."""

from __future__ import annotations

import os

import digits
import numpy as np
import pytest
from ranks import run

IMPORTED = ("jax", "tensorflow")
ROWS, EPOCHS, BATCH = 384, 3, 64


def network(keras, seed):
    keras.utils.set_random_seed(seed)
    layers = [
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(10),
    ]
    return keras.Sequential([keras.Input((8, 8, 1)), *layers])


def rows_of(rank, size):
    """Return the rows of a rank: the batches of all ranks together are those of one process."""
    data = digits.load(0, 1)
    mine = np.arange(ROWS).reshape(-1, size, BATCH // size)[:, rank].ravel()
    return data.x.reshape(-1, 8, 8, 1)[mine], data.y[mine]


def fit(keras, model, optimizer, rank=0, size=1, callbacks=(), epochs=EPOCHS):
    """Train, and return the history."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, optimizer=optimizer, metrics=["accuracy"])
    x, y = rows_of(rank, size)
    options = {"batch_size": BATCH // size, "shuffle": False, "verbose": 0}
    return model.fit(x, y, epochs=epochs, callbacks=list(callbacks), **options).history


def weights_of(model):
    return np.concatenate([each.ravel() for each in model.get_weights()])


def check_start(keras, hvd, folder):
    """Two ranks with half of each batch train as one process; a loaded model goes on."""
    rank, size = hvd.rank(), hvd.size()
    alone, ours = network(keras, 1), network(keras, 1 + rank)
    expected = fit(keras, alone, keras.optimizers.Adam(0.01))
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.01))
    start = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
    ]
    seen = fit(keras, ours, optimizer, rank, size, start)
    assert np.abs(weights_of(ours) - weights_of(alone)).max() <= 1e-5
    assert np.allclose(seen["loss"], expected["loss"], atol=1e-5)
    assert hvd.allgather_object(seen) == [seen] * size

    path = f"{folder}/{rank}.keras"
    ours.save(path)
    plain = keras.models.load_model(path).optimizer
    assert type(plain) is type(keras.optimizers.Adam())
    loaded = hvd.load_model(path)
    assert int(loaded.optimizer.iterations) == EPOCHS * ROWS // BATCH
    x, y = rows_of(rank, size)
    loaded.fit(x, y, batch_size=BATCH // size, shuffle=False, verbose=0)
    alone.fit(*rows_of(0, 1), batch_size=BATCH, shuffle=False, verbose=0)
    assert np.abs(weights_of(loaded) - weights_of(alone)).max() <= 1e-5
    return [weights_of(ours), weights_of(loaded)]


class Rates:
    """The learning rates and the velocity of one weight, after the changes of each batch."""

    def __new__(cls, keras):
        def look(callback):
            if hasattr(callback.model, "jax_state_sync"):
                callback.model.jax_state_sync()
            optimizer = callback.model.optimizer
            velocity = np.zeros(10)  # TensorFlow makes it in the first step
            if optimizer.built:
                velocity = np.array(keras.ops.convert_to_numpy(optimizer.momentums[-1].value))
            rate = keras.ops.convert_to_numpy(optimizer.learning_rate)
            callback.seen.append((float(rate), velocity))

        members = {
            "seen": [],
            "on_train_batch_begin": lambda self, batch, logs=None: look(self),
            "on_train_batch_end": lambda self, batch, logs=None: look(self),
        }
        return type("Rates", (keras.callbacks.Callback,), members)()


def check_rates(keras, hvd):
    """The rate rises from 1/2 of it with each batch, falls later, and the velocity follows."""
    rank, size, rates = hvd.rank(), hvd.size(), Rates(keras)
    optimizer = hvd.DistributedOptimizer(
        keras.optimizers.SGD(0.2, momentum=0.5), compression=hvd.Compression.fp16
    )
    changes = [
        hvd.callbacks.LearningRateWarmupCallback(0.2, warmup_epochs=2),
        hvd.callbacks.LearningRateScheduleCallback(0.2, 0.1, start_epoch=2),
        rates,
    ]
    history = fit(keras, network(keras, 1), optimizer, rank, size, changes)
    steps = ROWS // BATCH
    rising = [0.1 + 0.1 * (step + 1) / (2 * steps) for step in range(2 * steps)]
    begun, ended = rates.seen[::2], rates.seen[1::2]
    assert np.allclose([rate for rate, _ in begun], rising + [0.02] * steps)
    assert np.allclose(history["lr"], [0.15, 0.2, 0.02])
    for (old, before), (new, after) in zip(ended, begun[1:]):
        assert np.allclose(before * new / old, after)


def check_passes(keras, hvd):
    """Gradients of two batches make one update, and are combined once."""
    alone, ours = network(keras, 1), network(keras, 1)
    fit(keras, alone, keras.optimizers.SGD(0.1, gradient_accumulation_steps=2), epochs=1)
    optimizer = hvd.DistributedOptimizer(
        keras.optimizers.SGD(0.1), backward_passes_per_step=2, average_aggregated_gradients=True
    )
    counters = hvd.global_process_set._group.reducer.counters
    before = counters()["operations"]
    fit(keras, ours, optimizer, hvd.rank(), hvd.size(), epochs=1)
    assert counters()["operations"] - before == ROWS // BATCH // 2
    assert np.abs(weights_of(ours) - weights_of(alone)).max() <= 1e-5


def check_unbuilt(keras, hvd):
    """A network that gets its weights in the first batch is the same on all ranks, too."""
    keras.utils.set_random_seed(hvd.rank())
    layers = [keras.layers.Flatten(), keras.layers.Dense(10)]
    ours = keras.Sequential(layers)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.01))
    start = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
    fit(keras, ours, optimizer, hvd.rank(), hvd.size(), start, epochs=1)
    return weights_of(ours)


def train(backend, folder):
    os.environ["KERAS_BACKEND"] = backend
    import keras
    import sparkring.keras as hvd

    hvd.init(timeout=60)
    weights = check_start(keras, hvd, folder)
    check_rates(keras, hvd)
    check_passes(keras, hvd)
    weights.append(check_unbuilt(keras, hvd))
    hvd.shutdown()
    return weights


@pytest.mark.parametrize(
    "backend", ["tensorflow", "jax", pytest.param("torch", marks=pytest.mark.long)]
)
def test_two_ranks_train_as_one_process(backend, tmp_path):
    first, second = run(2, train, backend, str(tmp_path))
    assert all(map(np.array_equal, first, second))
