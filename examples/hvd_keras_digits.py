# SPDX-License-Identifier: Apache-2.0
"""A script for Horovod and Keras 3: handwritten digits, a part of them on each rank.

``KERAS_BACKEND`` chooses tensorflow, jax or torch. For Horovod itself the import is ``import
horovod.keras as hvd``, and nothing else differs.
"""

import argparse

import keras
import sparkring.keras as hvd
from sklearn.datasets import load_digits


def read_arguments():
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train on handwritten digits.")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.003)
    return parser.parse_args()


def network():
    """Return two convolutions and two layers for images of 8 by 8."""
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(8, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def main():
    """Train, and print the accuracy on rank 0."""
    args = read_arguments()
    hvd.init()

    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype("float32").reshape(-1, 8, 8, 1)
    training, testing = slice(450 + hvd.rank(), None, hvd.size()), slice(0, 450)

    model = network()
    optimizer = keras.optimizers.Adam(args.lr * hvd.size())
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=hvd.DistributedOptimizer(optimizer),
        metrics=["accuracy"],
    )
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(args.lr * hvd.size(), warmup_epochs=3),
    ]
    model.fit(
        x[training],
        y[training],
        batch_size=args.batch_size,
        epochs=args.epochs,
        callbacks=callbacks,
        verbose=2 if hvd.rank() == 0 else 0,
    )
    _, accuracy = model.evaluate(x[testing], y[testing], verbose=0)
    if hvd.rank() == 0:
        print(f"accuracy {accuracy:.1%}", flush=True)


if __name__ == "__main__":
    main()
