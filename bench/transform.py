# SPDX-License-Identifier: Apache-2.0
"""What a prediction costs: transform() beside a function of rows, and beside no function at all.

transform.py [--rows N] [--rounds N]; scripts/bench --transform calls it.

The table has 8 doubles, once as columns and once as a vector, in memory. A network of PyTorch with
one hidden layer predicts. "rows" is a UDF of Python that calls the network for each row, on a
tenth of the table. "identity" is mapInArrow of the same table with a function that returns its
batches. Each run writes to Spark's sink "noop". Runs of a round follow each other.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median

COLUMNS = [f"x{i}" for i in range(8)]


def network(params):
    """Make the network, for columns or for a vector."""
    import torch

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            first, last = torch.nn.Linear(8, 16), torch.nn.Linear(16, 1)
            self.layers = torch.nn.Sequential(first, torch.nn.ReLU(), last)

        def forward(self, *inputs):
            x = inputs[0] if len(inputs) == 1 else torch.stack(inputs, 1)
            return self.layers(x)

    return Network()


def loss(params):
    """Make the loss."""
    import torch

    return torch.nn.MSELoss()


def optimizer(params, parameters):
    """Make the optimizer."""
    import torch

    return torch.optim.SGD(parameters, lr=0.01)


def row_by_row(model):
    """Make a UDF that calls the network for each row."""
    from pyspark.sql.functions import udf

    plan, weights = model._plan(), model._weights
    cache = {}

    def predict(*values):
        import torch

        if not cache:
            cache["network"] = plan.module.Predictor(plan, weights).model.eval()
        given = values[0].toArray() if len(values) == 1 else values
        with torch.no_grad():
            return float(cache["network"](torch.tensor([list(given)], dtype=torch.float32)))

    return udf(predict, "float")


def identity(frame):
    """Pass the batches through Python."""
    return frame.mapInArrow(lambda batches: batches, frame.schema)


def seconds(frame):
    """Compute all columns of a frame."""
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def compare(spark, options):
    """Measure both tables."""
    from pyspark.ml.feature import VectorAssembler

    table = spark.range(options.rows).selectExpr(*(f"rand({i}) {x}" for i, x in enumerate(COLUMNS)))
    vectors = VectorAssembler(inputCols=COLUMNS, outputCol="x").transform(table).select("x")
    measure("8 columns", table.repartition(2).cache(), COLUMNS, options)
    measure("a vector", vectors.repartition(2).cache(), ["x"], options)


def measure(name, frame, inputs, options):
    """Measure the ways of a table, and print the medians."""
    from sparkring.spark.ml import TorchEstimator

    tenth = frame.sample(0.1, seed=1).cache()
    rows = frame.count()
    factor = rows / tenth.count()
    factories = {"model": network, "loss": loss, "optimizer": optimizer}
    estimator = TorchEstimator(**factories, inputCols=inputs, numProc=1, verbose=0)
    model = estimator.fit(frame.limit(100).selectExpr("*", "1.0 label"))
    predict = row_by_row(model)
    ways = {
        "transform": (model.transform(frame), 1),
        "rows": (tenth.withColumn("prediction", predict(*inputs)), factor),
        "identity": (identity(frame), 1),
    }
    found = {way: [] for way in ways}
    for number in range(options.rounds + 1):
        for way, (result, times) in ways.items():
            found[way] += [times * seconds(result)] if number else []  # round 0 starts workers
    report(name, rows, {way: median(times) for way, times in found.items()})


def report(name, rows, times):
    """Print the times of a table, and whether the targets are met."""
    print(f"{name}, {rows:,} rows: " + ", ".join(f"{way} {x:.2f} s" for way, x in times.items()))
    faster = times["rows"] / times["transform"]
    print(f"  rows / transform: {faster:.1f}, wanted 8: {'met' if faster >= 8 else 'MISSED'}")
    cost = times["transform"] / times["identity"]
    print(f"  transform / identity: {cost:.2f}, wanted 2: {'met' if cost <= 2 else 'MISSED'}")


def main():
    """Start Spark, and measure."""
    parser = argparse.ArgumentParser(prog="scripts/bench --transform")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    import transform  # so that functions have an import path
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    try:
        transform.compare(spark, options)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
