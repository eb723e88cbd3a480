# SPDX-License-Identifier: Apache-2.0
"""PySpark of another process in the Spark of this one: R uses it so, beside sparklyr."""

import os
import secrets
import subprocess
import sys

import pytest
from conftest import ONE_EXECUTOR

VISITOR = """
import sys
from sparkring.spark._gateway import session
for port in sys.argv[1:]:
    spark = session(int(port), SECRET, sys.executable, [])
doubled = spark.table("shared").rdd.map(lambda row: 2 * row.id)
print(doubled.sum(), spark.sparkContext.applicationId)
"""


@pytest.mark.parametrize("spark", [ONE_EXECUTOR], indirect=True)
def test_another_process_shares_tables(spark):
    spark.range(5, numPartitions=2).createOrReplaceTempView("shared")
    secret = secrets.token_hex(16)
    server = spark.sparkContext._jvm.py4j.GatewayServer
    gateways = [
        server.GatewayServerBuilder().javaPort(0).authToken(secret).build() for _ in range(2)
    ]
    try:
        for gateway in gateways:
            gateway.start()
        # The visitor's second session stands for a new connection of sparklyr.
        ports = [str(gateway.getListeningPort()) for gateway in gateways]
        visit = subprocess.run(
            [sys.executable, "-c", VISITOR.replace("SECRET", repr(secret)), *ports],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=400,
        )
    finally:
        for gateway in gateways:
            gateway.shutdown()
        spark.catalog.dropTempView("shared")
    assert visit.stdout.split() == ["20", spark.sparkContext.applicationId], visit.stderr
    assert "Traceback" not in visit.stderr
    assert spark.range(3).count() == 3  # the Spark goes on
