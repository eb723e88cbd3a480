# SPDX-License-Identifier: Apache-2.0
# mypy: allow-untyped-calls
"""PySpark in the Spark of another program: that of sparklyr, for R's `ring_pyspark`.

The program starts a gateway of Py4J in the JVM of its driver. PySpark connects to the gateway in
place of a JVM of its own, so both see the same tables.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from sparkring._core import InvalidError, RingError, UnsupportedError
from sparkring.spark._rank_result import RankError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(port: int, secret: str, python: str, archives: list[str]) -> SparkSession:
    """Connect PySpark to a gateway, and return the default session of its JVM.

    Parameters
    ----------
    port : int
        The port of the gateway, on the loopback address.
    secret : str
        The token that the gateway asks for.
    python : str
        The Python of Spark's workers, unless ``PYSPARK_PYTHON`` names one.
    archives : list of str
        PySpark and Py4J, for a Python that has none.
    """
    _import_pyspark(archives)
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    _forget()
    os.environ.setdefault("PYSPARK_PYTHON", python)  # the context reads it now, and later
    place = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(place)
    try:
        gateway = launch_gateway()
    finally:
        for name in place:
            del os.environ[name]
    jvm: Any = gateway.jvm
    inner = jvm.org.apache.spark.sql.SparkSession.getDefaultSession().get()
    _check_version(inner.version())
    context = jvm.org.apache.spark.api.java.JavaSparkContext(inner.sparkContext())
    conf = SparkConf(_jvm=jvm, _jconf=context.getConf())
    driver = SparkContext(gateway=gateway, jsc=context, conf=conf)
    # The JVM would send the accumulators of each task to a thread of this process, and wait for the
    # thread. R has the GIL while R waits for a job, so the thread would not answer.
    driver._javaAccumulator = None
    return SparkSession(driver, inner)


def fit(estimator: Any, frame: Any) -> Any:
    """Train, and raise errors that name the rank: R shows an error, and not its cause."""
    try:
        return estimator.fit(frame)
    except Exception as error:
        if isinstance(error.__cause__, RankError) and not isinstance(error, RingError):
            raise error.__cause__ from error
        raise


def _import_pyspark(archives: list[str]) -> None:
    try:
        import pyspark
    except ImportError:
        sys.path.extend(archives)
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise UnsupportedError(
            f"{sys.executable} has no PySpark ({error}): pip install pyspark, in the version of"
            " Spark"
        ) from error


def _check_version(version: str) -> None:
    import pyspark

    ours, theirs = (text.split(".")[:2] for text in (pyspark.__version__, version))
    if ours != theirs:
        raise InvalidError(
            f"PySpark {pyspark.__version__} cannot drive Spark {version}: pip install"
            f" pyspark=={version}, or remove PySpark, so that Spark's own is used"
        )


def _forget() -> None:
    """Let PySpark forget an earlier Spark, whose JVM may have ended.

    Finalizers of its objects would send commands to the JVM, and show a traceback for each.
    """
    from py4j.finalizer import ThreadSafeFinalizer  # type: ignore[import-untyped, unused-ignore]
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    ThreadSafeFinalizer.clear_finalizers(True)
    if SparkContext._active_spark_context is not None and SparkContext._gateway is not None:
        SparkContext._gateway.close()
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = None
