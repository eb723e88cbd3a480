# SPDX-License-Identifier: Apache-2.0
"""``model.fit`` with sparkring.keras beside TensorFlow's MultiWorkerMirroredStrategy.

Ours is Keras 3 on TensorFlow. The strategy trains with Keras 2 (tf_keras) alone. Each system has
processes of its own, and rounds alternate between the systems; the processes of the other system
block meanwhile. Network, optimizer and global batch are the same. Prints medians as Markdown.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import statistics
import time

BATCH, WIDTH = 32, 890  # of all ranks together; 1 M parameters
SYSTEMS = ("MultiWorkerMirroredStrategy", "sparkring")


def compiled(keras, optimizer):
    """Return the network, ready to train."""
    model = keras.Sequential(
        [
            keras.Input((256,)),
            keras.layers.Dense(WIDTH, activation="relu"),
            keras.layers.Dense(WIDTH, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, optimizer=optimizer)
    return model


def numbers(tf, batch: int):
    """Return random batches without end, which every rank draws for itself."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    x, y = tf.random.normal((8 * batch, 256)), tf.random.uniform((8 * batch,), 0, 10, tf.int32)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch, drop_remainder=True)
    return data.repeat().with_options(options)


def theirs(tf, size: int):
    """Return Keras 2, a model in the strategy, and batches that the strategy divides."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    import tf_keras as keras

    assert strategy.num_replicas_in_sync == size
    with strategy.scope():
        return keras, compiled(keras, keras.optimizers.legacy.SGD(1e-3)), numbers(tf, BATCH)


def ours(tf, size: int):
    """Return Keras 3, a model with a distributed optimizer, and this rank's batches."""
    import keras
    import sparkring.keras as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1e-3))
    return keras, compiled(keras, optimizer), numbers(tf, BATCH // size)


def clock_of(keras):
    """Return a callback that counts steps a second from the end of the first step."""

    class Clock(keras.callbacks.Callback):
        rate = start = None

        def on_train_batch_end(self, batch, logs=None):
            if batch == 0:
                self.start = time.perf_counter()
            else:
                self.rate = batch / (time.perf_counter() - self.start)

    return Clock()


def rank_main(system: str, environment: dict, size: int, orders) -> None:
    """Train for as many steps as each order asks for, and answer with the rate."""
    os.environ.update(environment)
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    keras, model, data = (ours if system == "sparkring" else theirs)(tf, size)
    while steps := orders.recv():
        clock = clock_of(keras)
        model.fit(data, steps_per_epoch=steps + 1, verbose=0, callbacks=[clock])
        orders.send(clock.rate)


def environments_of(size: int) -> list[dict[str, str]]:
    """Return the variables of the ranks, by which either system finds the other ranks."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(size + 1)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    workers = [f"127.0.0.1:{port}" for port in ports[1:]]
    common = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(ports[0]),
        "WORLD_SIZE": str(size),
        "KERAS_BACKEND": "tensorflow",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    tasks = [{"type": "worker", "index": rank} for rank in range(size)]
    configs = [{"cluster": {"worker": workers}, "task": task} for task in tasks]
    return [
        {**common, "RANK": str(rank), "TF_CONFIG": json.dumps(config)}
        for rank, config in enumerate(configs)
    ]


def start(system: str, size: int) -> list:
    """Start the ranks of a system, which end with this process. Return the connections to them."""
    spawn, connections = multiprocessing.get_context("spawn"), []
    for environment in environments_of(size):
        mine, orders = spawn.Pipe()
        arguments = (system, environment, size, orders)
        spawn.Process(target=rank_main, args=arguments, daemon=True).start()
        orders.close()  # so that the end of a rank ends what waits for it
        connections.append(mine)
    return connections


def one_round(connections: list, steps: int) -> float:
    """Let all ranks train, and return the rate of the slowest."""
    for each in connections:
        each.send(steps)
    return min(each.recv() for each in connections)


def main() -> None:
    """Measure both systems."""
    parser = argparse.ArgumentParser(prog="scripts/bench --keras", description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=200, help="of a round (default: 200)")
    options = parser.parse_args()
    ranks = {system: start(system, options.ranks) for system in SYSTEMS}
    rates = {system: [] for system in SYSTEMS}
    for system in SYSTEMS:
        one_round(ranks[system], 20)  # traces the train step
    for index in range(options.rounds):
        for system in SYSTEMS[:: 1 if index % 2 else -1]:
            rates[system].append(one_round(ranks[system], options.steps))
    for each in (*ranks[SYSTEMS[0]], *ranks[SYSTEMS[1]]):
        each.send(0)
    for process in multiprocessing.active_children():
        process.join()
    strategy, sparkring = (statistics.median(rates[system]) for system in SYSTEMS)
    print(f"| {options.ranks} ranks, 1 M parameters | {' | '.join(SYSTEMS)} | ratio |")
    print("|---|---|---|---|")
    print(f"| steps/s | {strategy:.1f} | {sparkring:.1f} | {sparkring / strategy:.2f} |")


if __name__ == "__main__":
    main()
