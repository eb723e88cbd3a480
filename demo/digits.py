# SPDX-License-Identifier: Apache-2.0
"""Train a network on handwritten digits inside a Spark barrier stage.

Spark reads scikit-learn's 1,797 images and hands a quarter to each of four barrier tasks. Every
task holds the same two-layer network, takes a mini-batch of its own images, and sums its gradients
with those of the others; so all four make the same step. The sum is the only thing that travels.

Afterwards this program proves two things: the four networks are the same to the last bit, and one
process that trains on the same batches ends at the same network.
"""

import hashlib
import sys
import time
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, monotonically_increasing_id

RANKS, EPOCHS, BATCH = 4, 20, 16  # BATCH is what one rank takes for one step
RATE, MOMENTUM = 0.2, 0.9
SHAPES = ((64, 64), (64,), (64, 10), (10,))
PIXELS = [f"pixel{i}" for i in range(64)]
RESULT = "rank int, images binary, weights binary, digest string, shared long, sent long"
LEAST_ACCURACY, LARGEST_DIFFERENCE = 0.95, 1e-5

# ---- the network: its weights and gradients are one flat vector of float64 --------------------


def split(flat):
    """View the flat vector as the four arrays of the network."""
    ends = np.cumsum([np.prod(shape) for shape in SHAPES])[:-1]
    return [part.reshape(shape) for part, shape in zip(np.split(flat, ends), SHAPES)]


def initial_weights():
    """Draw the weights that every rank begins with."""
    random = np.random.default_rng(1)
    parts = [random.normal(0, shape[0] ** -0.5, shape) * (len(shape) > 1) for shape in SHAPES]
    return np.concatenate([part.ravel() for part in parts])


def forward(weights, pixels):
    """Compute the hidden layer, and the probability of each digit."""
    w1, b1, w2, b2 = split(weights)
    hidden = np.tanh(pixels @ w1 + b1)
    scores = hidden @ w2 + b2
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, scores / scores.sum(axis=1, keepdims=True)


def gradient(weights, pixels, labels):
    """Sum the gradients of the images, and behind them, in the same vector, their losses."""
    hidden, probability = forward(weights, pixels)
    rows = np.arange(len(labels))
    loss = -np.log(probability[rows, labels]).sum()
    probability[rows, labels] -= 1
    back = (probability @ split(weights)[2].T) * (1 - hidden**2)
    parts = (pixels.T @ back, back.sum(0), hidden.T @ probability, probability.sum(0))
    return np.concatenate([part.ravel() for part in parts] + [[loss]])


def step(weights, velocity, mean_gradient):
    """Go one step of gradient descent with momentum, in place."""
    velocity *= MOMENTUM
    velocity -= RATE * mean_gradient
    weights += velocity


def batches(rank, epoch, images, steps):
    """Choose the images that a rank takes in an epoch, a row a step."""
    order = np.random.default_rng((epoch, rank)).permutation(images)
    return order[: steps * BATCH].reshape(steps, BATCH)


# ---- what a barrier task does -------------------------------------------------------------------


def train(frames):
    """Train on this task's images together with the other tasks; for mapInPandas."""
    import sparkring

    with sparkring.init() as comm:
        result = learn(comm, pd.concat(frames))
    yield pd.DataFrame({name: [value] for name, value in result.items()})


def learn(comm, images):
    """Train on these images together with the other ranks; return what came out."""
    images = images.sort_values("id")
    held_out = images[images.held_out]
    images = images[~images.held_out]
    pixels, labels = images[PIXELS].to_numpy(), images.label.to_numpy(int)
    # Spark's partitions need not be equal; the number of steps must be.
    steps = int(comm.allreduce(np.array(len(images) // BATCH), op="min"))
    weights = initial_weights()
    velocity = np.zeros_like(weights)
    for epoch in range(EPOCHS):
        start, loss = time.monotonic(), 0.0
        for batch in batches(comm.rank, epoch, np.arange(len(images)), steps):
            total = comm.allreduce(gradient(weights, pixels[batch], labels[batch]))
            total /= BATCH * comm.size
            step(weights, velocity, total[:-1])
            loss += total[-1] / steps
        seconds = time.monotonic() - start
        accuracy = accuracy_of(comm, weights, held_out)
        if comm.rank == 0:
            report(epoch, loss, accuracy, steps * BATCH * comm.size / seconds)
    return {
        "rank": comm.rank,
        "images": images.id.to_numpy(np.int64).tobytes(),
        "weights": weights.tobytes(),
        "digest": hashlib.sha256(weights.tobytes()).hexdigest(),
        "shared": comm.counters()["bytes_shared"],
        "sent": comm.counters()["bytes_sent"],
    }


def accuracy_of(comm, weights, images):
    """Compute the share of all ranks' held-out images that the network reads rightly."""
    _, probability = forward(weights, images[PIXELS].to_numpy())
    right = (probability.argmax(axis=1) == images.label.to_numpy()).sum()
    right, count = comm.allreduce(np.array([right, len(images)], dtype=np.int64))
    return right / count


def report(epoch, loss, accuracy, speed):
    """Print the line of an epoch."""
    print(
        f"epoch {epoch + 1:2}/{EPOCHS}   loss {loss:.4f}   held-out accuracy {accuracy:.3f}"
        f"   {speed:7,.0f} images/s",
        file=sys.stderr,  # a Spark worker's stderr is this terminal while Spark runs locally
        flush=True,
    )


# ---- what the driver does -----------------------------------------------------------------------


def start_spark():
    """Start Spark on this machine, with a slot for each rank."""
    quiet = Path(__file__).with_name("log4j2.properties")
    return (
        SparkSession.builder.master(f"local[{RANKS}]")
        .appName("sparkring digits")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={quiet.as_uri()}")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )


def read_digits(spark):
    """Read one row an image: 64 pixels from 0 to 1, the digit, an id; hold out every fifth."""
    path = resources.files("sklearn.datasets.data") / "digits.csv.gz"
    schema = ", ".join(f"{name} double" for name in [*PIXELS, "label"])
    table = spark.read.csv(str(path), schema)
    table = table.withColumns({name: col(name) / 16 for name in PIXELS})
    table = table.withColumn("id", monotonically_increasing_id())
    return table.withColumn("held_out", col("id") % 5 == 0)


def train_alone(digits, shards):
    """Repeat the training in this process: a batch is the union of the ranks' batches."""
    pixels, labels = digits[PIXELS].to_numpy(), digits.label.to_numpy(int)
    steps = min(len(shard) for shard in shards) // BATCH
    weights = initial_weights()
    velocity = np.zeros_like(weights)
    for epoch in range(EPOCHS):
        parts = [batches(rank, epoch, shard, steps) for rank, shard in enumerate(shards)]
        for batch in np.concatenate(parts, axis=1):
            total = gradient(weights, pixels[batch], labels[batch]) / len(batch)
            step(weights, velocity, total[:-1])
    return weights


def largest_difference(a, b):
    """Compute the largest relative difference of the elements."""
    return np.max(np.abs(a - b) / np.maximum(np.abs(b), np.finfo(float).tiny))


def accuracy_alone(weights, digits):
    """Compute the accuracy once more, in this process."""
    held_out = digits[digits.held_out]
    _, probability = forward(weights, held_out[PIXELS].to_numpy())
    return np.mean(probability.argmax(axis=1) == held_out.label)


def prove(ranks, digits):
    """Prove what this module's text says; `ranks` has what `learn` returned on each rank."""
    weights = np.frombuffer(ranks[0]["weights"])
    accuracy = accuracy_alone(weights, digits)
    alone = train_alone(digits, [np.frombuffer(rank["images"], np.int64) for rank in ranks])
    difference = largest_difference(weights, alone)

    print(f"\n{digits.held_out.sum()} held-out images: {accuracy:.1%} read rightly")
    for rank in ranks:
        print(f"rank {rank['rank']}: weights have SHA-256 {rank['digest'][:32]}...")
    print(f"largest relative difference from training in one process: {difference:.1e}")

    digests = {rank["digest"] for rank in ranks}
    digests.add(hashlib.sha256(ranks[0]["weights"]).hexdigest())
    if accuracy < LEAST_ACCURACY:
        sys.exit(f"the accuracy is below {LEAST_ACCURACY}")
    if len(ranks) != RANKS or len(digests) != 1:
        sys.exit("the ranks hold different weights")
    if not difference < LARGEST_DIFFERENCE:
        sys.exit("one process gets other weights")


def main():
    """Train with Spark, then prove what the module's text says."""
    start = time.monotonic()
    spark = start_spark()
    table = read_digits(spark)
    tasks = table.repartition(RANKS).mapInPandas(train, RESULT, barrier=True)
    ranks = sorted(tasks.collect(), key=lambda row: row.rank)
    seconds = time.monotonic() - start
    digits = table.toPandas().sort_values("id")
    spark.stop()
    prove([row.asDict() for row in ranks], digits)
    shared, sent = (sum(row[name] for row in ranks) / 1e6 for name in ("shared", "sent"))
    print(
        f"{shared:.1f} MB shared and {sent:.1f} MB sent between the ranks; "
        f"{seconds:.1f} s with the start of Spark"
    )


if __name__ == "__main__":
    main()
