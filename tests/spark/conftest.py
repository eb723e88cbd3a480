# SPDX-License-Identifier: Apache-2.0
"""Real Spark, started once for each kind of master; the tests of one master run together."""

import contextlib
import inspect
import os
import secrets
import shutil
import signal
import threading
from pathlib import Path

import cluster as clusters
import pytest
from pyspark import __version__
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import DataFrame, SparkSession

HERE = Path(__file__).parent
ONE_EXECUTOR = "local[4]"
TWO_EXECUTORS = "local-cluster[2,2,1024]"
ENCRYPTED = TWO_EXECUTORS + " spark.authenticate spark.network.crypto.enabled"
SASL = TWO_EXECUTORS + " spark.authenticate spark.authenticate.enableSaslEncryption"
GPUS = f"""{TWO_EXECUTORS} spark.worker.resource.gpu.discoveryScript={HERE / "gpus.sh"}
spark.worker.resource.gpu.amount=2 spark.executor.resource.gpu.amount=2
spark.task.resource.gpu.amount=1 spark.executorEnv.CUDA_VISIBLE_DEVICES=6,7"""
FOUR_HOSTS = "four hosts"
MASTERS = [ONE_EXECUTOR, TWO_EXECUTORS, ENCRYPTED, SASL, GPUS, FOUR_HOSTS]
BOTH = pytest.mark.parametrize("spark", [ONE_EXECUTOR, TWO_EXECUTORS], indirect=True)
FRAMES = pytest.mark.skipif(
    "barrier" not in inspect.signature(DataFrame.mapInPandas).parameters,
    reason=f"data frames of Spark {__version__} have no barrier stages",
)
QUIET = HERE.parents[1] / "demo" / "log4j2.properties"
DEADLINE = 300


def pytest_configure(config):
    config.addinivalue_line("filterwarnings", "ignore:distutils:DeprecationWarning")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that fixtures are taken down


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Put all tests of a master together, as each start of Spark takes longer than most of them."""

    def master(item):
        callspec = getattr(item, "callspec", None)
        return MASTERS.index(callspec.params.get("spark", ONE_EXECUTOR)) if callspec else 0

    items.sort(key=master)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Four hosts with a worker each; nothing of them is left at the end."""
    if (reason := clusters.missing()) is not None:
        pytest.skip(reason)
    with clusters.Cluster(4, tmp_path_factory.mktemp("hosts") / "cluster") as made:
        yield made
    assert made.remains() == []


# Of a test without a mark. One executor is in scripts/test long: two find what one finds.
MASTERS_OF_ALL = [TWO_EXECUTORS]
if os.environ.get("SPARKRING_SPARK") == "all":
    MASTERS_OF_ALL.append(ONE_EXECUTOR)


@pytest.fixture(scope="session", params=MASTERS_OF_ALL)
def spark(request, tmp_path_factory):
    """A session with room for four tasks at once, which knows the functions of tasks.py."""
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        events = tmp_path_factory.mktemp("events")
        if request.param == FOUR_HOSTS:
            hosts = request.getfixturevalue("cluster")
            patch.setenv("SPARK_LOCAL_IP", hosts.host)
            stack.enter_context(hosts.driver())
            session = start(hosts.configure(SparkSession.builder), events)
            stack.callback(clusters.stop, session)
            hosts.wait_for_executors(session.sparkContext)
        else:
            session = start(on_this_machine(*request.param.split()), events)
            work = work_of(session.sparkContext.applicationId)
            stack.callback(shutil.rmtree, work, ignore_errors=True)  # there is none of local[n]
            stack.callback(clusters.stop, session)
            if request.param != ONE_EXECUTOR:
                clusters.wait_for_executors(session.sparkContext, 2)
        session.sparkContext.addPyFile(str(HERE / "tasks.py"))
        yield session


def on_this_machine(master, *settings):
    """Prepare a session with executors that are processes of this host."""
    builder = SparkSession.builder.master(master).config("spark.executor.memory", "1g")
    builder = builder.config("spark.executor.extraJavaOptions", clusters.SMALL)
    for setting in settings:
        name, _, value = setting.partition("=")
        builder = builder.config(name, value or "true")
    if "spark.authenticate" in settings:
        builder = builder.config("spark.authenticate.secret", secrets.token_hex(16))
    return builder


def start(builder, events):
    """Start Spark, which logs its events to a folder."""
    return (
        builder.appName("sparkring tests")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={QUIET.as_uri()}")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", events.as_uri())
        .config("spark.eventLog.compress", "false")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        # A barrier job looks for its slots, and once more a moment later.
        .config("spark.scheduler.barrier.maxConcurrentTasksCheck.interval", "1s")
        .getOrCreate()
    )


def work_of(application):
    """Where the executors of a local-cluster have their folders and logs: it asks no setting."""
    return Path(_find_spark_home(), "work", application)


@pytest.fixture
def four(spark):
    """Four partitions that run as one barrier stage: `four(function)` collects what they yield.

    A job that hangs is cancelled, as nothing else would end it.
    """
    context = spark.sparkContext

    def run(function):
        deadline = threading.Timer(DEADLINE, context.cancelAllJobs)
        deadline.start()
        try:
            return context.parallelize(range(4), 4).barrier().mapPartitions(function).collect()
        finally:
            deadline.cancel()

    return run
