# SPDX-License-Identifier: Apache-2.0
"""What models of R cost on Spark: ring_kmeans() and others beside MLlib, and beside R alone.

models.py [--rows N] [--rounds N] [--jobs NAME,NAME] [--long]; scripts/bench --models calls it.

A table of 20 columns and four responses is in files of Parquet. A job reads the files, and fits one
model, by MLlib, or by R on two ranks, or by one process of R that gets all rows. models.R plays
sparklyr for the ranks: Spark hands over the rows as for ring_apply(). A round runs each job once,
and round 0 is not counted: in it Java compiles. Processor time is that of all processes, Java
included. "batches" are ring_glm() and ring_lm() that hold one batch of rows at a time.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

SCRIPT = Path(__file__).with_name("models.R")
PREDICTORS = [f"x{i}" for i in range(1, 21)]
COLUMNS = {
    "kmeans": [],
    "pca": [],
    "lm": ["y"],
    "glm": ["label"],
    "coxph": ["time", "status"],
    "glmnet": ["label"],
}
TICK = os.sysconf("SC_CLK_TCK")


# ---- The table -----------------------------------------------------------------------------------


def write(spark, path, rows):
    """Write the table: ten clusters that overlap, a regression, classes and survival times."""
    spread = spark.range(0, rows, 1, 4).selectExpr(
        "id",
        *(
            f"randn({i}) + if(pmod(id, 10) = {i % 10}, 1.5D, 0D) AS {x}"
            for i, x in enumerate(PREDICTORS)
        ),
        "randn(50) AS e",
        "rand(51) AS u",
    )
    spread.selectExpr(
        *PREDICTORS,
        "1 + 0.5 * x1 - x2 + 0.1 * x3 + e AS y",
        "if(u < 1 / (1 + exp(0.5 - x1 + 0.5 * x2)), 1D, 0D) AS label",
        "round(-log(u) * exp(0.2 * x1 - 0.3 * x2), 3) AS time",
        "if(e < 0.5, 1D, 0D) AS status",
    ).write.parquet(path)


# ---- MLlib ---------------------------------------------------------------------------------------


def assembled(frame, label=None):
    """Make the column of vectors."""
    from pyspark.ml.feature import VectorAssembler

    vectors = VectorAssembler(inputCols=PREDICTORS, outputCol="features").transform(frame)
    return vectors.select("features", *([label] if label else []))


def mllib_kmeans(frame):
    """Fit MLlib's k-means."""
    from pyspark.ml.clustering import KMeans

    summary = KMeans(k=10, maxIter=20, tol=0, seed=1).fit(assembled(frame)).summary
    return [summary.numIter, summary.trainingCost]


def mllib_pca(frame):
    """Fit MLlib's principal components."""
    from pyspark.ml.feature import PCA

    return PCA(k=10, inputCol="features", outputCol="p").fit(assembled(frame)).explainedVariance


def mllib_lm(frame):
    """Fit MLlib's linear regression."""
    from pyspark.ml.regression import LinearRegression

    model = LinearRegression(labelCol="y").fit(assembled(frame, "y"))
    return [model.intercept, *model.coefficients]


def mllib_glm(frame):
    """Fit MLlib's generalised linear regression."""
    from pyspark.ml.regression import GeneralizedLinearRegression

    learner = GeneralizedLinearRegression(family="binomial", labelCol="label", tol=1e-8)
    model = learner.fit(assembled(frame, "label"))
    return [model.intercept, *model.coefficients]


# ---- R -------------------------------------------------------------------------------------------


def asked(*arguments):
    """Return the lines that models.R prints."""
    command = ["Rscript", "--vanilla", SCRIPT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


class Ranks:
    """Fits models of R to a table, on ranks that are the tasks of a barrier stage.

    `spent` is the processor time of all processes of R so far.
    """

    spent = 0.0

    def __init__(self, spark, size, columns):
        self.spark, self.columns = spark, columns
        hashes = spark.sql(asked("hashes", str(size))[0]).first()["parts"]
        *self.select, self.lines, self.command = asked("sql", str(size), ",".join(columns), hashes)

    def fit(self, frame, job):
        """Fit a model, and return the numbers of rank 0."""
        from pyspark.sql import DataFrame

        spark = self.spark
        encoders, session = spark._jvm.org.apache.spark.sql.Encoders, spark._jsparkSession
        batches = frame.selectExpr(*self.select)._jdf.toArrowBatchRdd()
        packed = session.createDataset(batches, encoders.BINARY()).toDF()
        packed.createOrReplaceTempView("packing")
        lines = getattr(spark.sql(self.lines)._jdf, "as")(encoders.STRING()).rdd()
        names = session.createDataset(lines.pipe(self.command), encoders.STRING()).toDF()
        names = DataFrame(names, spark)
        found = names.rdd.barrier().mapPartitions(rank(job, self.columns)).collect()
        Ranks.spent += sum(seconds for seconds, _ in found)
        return found[0][1]


def rank(job, columns):
    """Make a function for mapPartitions."""
    token, script = secrets.token_hex(32), str(SCRIPT)

    def run(rows):
        from pyspark import BarrierTaskContext

        context = BarrierTaskContext.get()
        (row,) = rows
        addresses = ",".join(info.address for info in context.getTaskInfos())
        arguments = [
            job,
            row["value"],
            ",".join(columns),
            str(context.partitionId()),
            addresses,
            token,
        ]
        command = ["Rscript", "--vanilla", script, "work", *arguments]
        before = os.times()
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        after = os.times()
        seconds = after.children_user + after.children_system
        seconds -= before.children_user + before.children_system
        yield seconds, [float(number) for number in done.stdout.split()]

    return run


# ---- Measurements --------------------------------------------------------------------------------


def processor_time():
    """Return the processor time of this process, its descendants, and those that have ended.

    Workers of PySpark are left out: their time is lost when Spark ends them. They report that of R.
    """
    stats, children = {}, {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            if b"pyspark.daemon" in (process / "cmdline").read_bytes():
                continue
        except (NotADirectoryError, FileNotFoundError, ProcessLookupError):
            continue
        stats[int(process.name)] = sum(map(int, fields[11:15])) / TICK
        children.setdefault(int(fields[1]), []).append(int(process.name))
    found, todo = Ranks.spent, [os.getpid()]
    while todo:
        process = todo.pop()
        found += stats.get(process, 0)
        todo += children.get(process, [])
    return found


MLLIB = {"kmeans": mllib_kmeans, "pca": mllib_pca, "lm": mllib_lm, "glm": mllib_glm}
CHUNKED = ["lm", "glm"]
ALONE = {"lm": ["lm"], "glm": ["glm", "biglm"], "coxph": ["coxph"], "glmnet": ["glmnet"]}


def has_biglm():
    """Tell whether biglm is installed."""
    command = ["Rscript", "-e", "loadNamespace('biglm')"]
    if subprocess.run(command, capture_output=True).returncode == 0:
        return True
    print("biglm is not installed, and left out", file=sys.stderr)
    return False


def ways(spark, model, options):
    """Return the functions that fit a model to a frame, by name."""
    columns = [*PREDICTORS, *COLUMNS[model]]
    ring, one = Ranks(spark, 2, columns), Ranks(spark, 1, columns)
    found = {"sparkring": partial(ring.fit, job=model)}
    if model in CHUNKED:
        found["sparkring, batches"] = partial(ring.fit, job=f"{model}_batches")
    if model in MLLIB:
        found["MLlib"] = MLLIB[model]
    for name in ALONE.get(model, []):
        if name == "biglm" and options.biglm:
            found[name] = partial(one.fit, job="R.biglm")
        elif name != "biglm" and not options.long:
            found["R alone"] = partial(one.fit, job=f"R.{name}")
    return {(model, way): (columns, fit) for way, fit in found.items()}


def measure(spark, path, options):
    """Measure all jobs in rounds; return lists of pairs of processor and wall times."""
    jobs = {}
    for model in options.jobs.split(","):
        jobs |= ways(spark, model, options)
    times, values = {job: [] for job in jobs}, {}
    for number in range(options.rounds + 1):
        for job, (columns, fit) in jobs.items():
            before, start = processor_time(), time.perf_counter()
            values[job] = list(fit(spark.read.parquet(path).select(*columns)))
            taken = (processor_time() - before, time.perf_counter() - start)
            print(number, *job, *(f"{x:.2f}" for x in taken), file=sys.stderr, flush=True)
            times[job] += [taken] if number else []
    return times, values


TARGETS = [
    ("kmeans", "sparkring", "MLlib", 0.35),
    ("pca", "sparkring", "MLlib", 1),
    ("glm", "sparkring, batches", "MLlib", 1),
    ("glm", "sparkring", "biglm", 1),
    ("coxph", "sparkring", "R alone", 1),
    ("glmnet", "sparkring", "R alone", 1),
]


def report(times, values, rows):
    """Print the medians, and whether the targets are met."""
    middle = {job: [median(x) for x in zip(*pairs)] for job, pairs in times.items()}
    print(
        f"{rows:,} rows: seconds of all processors, and of the wall; the first numbers of the fit"
    )
    for (job, way), (processor, wall) in middle.items():
        numbers = " ".join(f"{x:.7g}" for x in values[job, way][:3])
        print(f"{job:8} {way:20} {processor:8.2f} {wall:8.2f}   {numbers}")
    for job, way, other, most in TARGETS:
        if (job, way) not in times or (job, other) not in times:
            continue
        pairs = zip(times[job, way], times[job, other])
        ratio = median(ours[0] / theirs[0] for ours, theirs in pairs)
        met = "met" if ratio <= most else "MISSED"
        print(f"{job}, {way} / {other}: {ratio:.2f} of the processor time, wanted {most}: {met}")


def main():
    """Start Spark, and measure."""
    parser = argparse.ArgumentParser(prog="scripts/bench --models")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", default="kmeans,pca,lm,glm,coxph,glmnet")
    parser.add_argument("--long", action="store_true", help="10 million rows, without R alone")
    options = parser.parse_args()
    options.rows = options.rows or (10_000_000 if options.long else 1_000_000)
    options.biglm = has_biglm()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "6g")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    folder = tempfile.mkdtemp()
    try:
        path = f"{folder}/rows"
        write(spark, path, options.rows)
        report(*measure(spark, path, options), options.rows)
    finally:
        spark.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
