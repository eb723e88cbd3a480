# SPDX-License-Identifier: Apache-2.0
"""Finding the barrier task. Spark itself is in tests/spark; here a module takes PySpark's place."""

from __future__ import annotations

import sys
import threading
import types

import pytest
import sparkring

pytestmark = pytest.mark.quick


class TaskContext:
    current = None

    @classmethod
    def get(cls):
        return TaskContext.current


class BarrierTaskContext(TaskContext):
    def __init__(self, attempt, addresses=("localhost:7337",), answer=None, properties=None):
        self.attempt = attempt
        self.properties = properties or {}
        self.addresses = addresses
        self.answer = answer

    def partitionId(self):  # noqa: N802 (Spark's name)
        return 0

    def taskAttemptId(self):  # noqa: N802
        return self.attempt

    def getLocalProperty(self, key):  # noqa: N802
        return self.properties.get(key)

    def getTaskInfos(self):  # noqa: N802
        return [types.SimpleNamespace(address=address) for address in self.addresses]

    def allGather(self, message):  # noqa: N802
        if isinstance(self.answer, Exception):
            raise self.answer
        if isinstance(self.answer, threading.Event):
            self.answer.wait()
        return [message] if self.answer is None else self.answer


@pytest.fixture
def task(monkeypatch):
    """Run the test in a Spark task: call the fixture with its context."""
    module = types.ModuleType("pyspark")
    module.TaskContext, module.BarrierTaskContext = TaskContext, BarrierTaskContext
    monkeypatch.setitem(sys.modules, "pyspark", module)
    monkeypatch.setattr(TaskContext, "current", None)
    return lambda context: setattr(TaskContext, "current", context)


def test_encryption_is_as_spark_has_it(task, monkeypatch):
    monkeypatch.delenv("SPARKRING_ENCRYPTION", raising=False)
    yes, no = ({"spark.network.crypto.enabled": value} for value in ("true", "false"))
    for properties, given, variable, encrypted in (
        (yes, None, None, True),
        (yes, False, None, False),
        (yes, None, "0", False),
        (no, None, None, False),
        (no, True, None, True),
        ({"spark.ssl.rpc.enabled": "TRUE"}, None, None, True),
        ({"spark.authenticate.enableSaslEncryption": "true"}, None, None, True),
        ({"spark.io.encryption.enabled": "true"}, None, None, False),
        ({}, None, None, False),
    ):
        if variable:
            monkeypatch.setenv("SPARKRING_ENCRYPTION", variable)
        task(BarrierTaskContext(attempt=1, properties=properties))
        with sparkring.init(encryption=given) as comm:
            assert comm.encrypted == encrypted, (properties, given, variable)
        monkeypatch.delenv("SPARKRING_ENCRYPTION", raising=False)


def test_the_task_is_found(task):
    task(BarrierTaskContext(attempt=1))
    with sparkring.init() as comm:
        assert (comm.rank, comm.size, comm.hosts) == (0, 1, ["localhost"])


def test_no_task(task):
    task(None)
    with sparkring.init() as comm:
        assert comm.size == 1


def test_arguments_come_first(task):
    task(BarrierTaskContext(attempt=1, addresses=["a", "b"]))
    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        assert comm.size == 1


def test_a_task_without_barrier(task):
    task(TaskContext())
    with pytest.raises(sparkring.InvalidError, match="this Spark task is not a barrier task"):
        sparkring.init()


def test_what_another_task_left_open_is_aborted(task):
    task(BarrierTaskContext(attempt=1))
    left = sparkring.init()
    task(BarrierTaskContext(attempt=2))
    with sparkring.init() as comm:
        assert comm.usable
        assert left.closed
        with pytest.raises(sparkring.AbortedError, match="its Spark task ended without closing it"):
            left.barrier()


def test_second_init_in_one_task(task):
    task(BarrierTaskContext(attempt=1))
    with sparkring.init() as comm:
        with pytest.raises(sparkring.InvalidError, match="this process has an open communicator"):
            sparkring.init()
        assert comm.usable


def test_what_the_exchange_raises(task):
    task(BarrierTaskContext(1, ["a", "b"], answer=ConnectionResetError("Spark has gone")))
    with pytest.raises(ConnectionResetError, match="Spark has gone"):
        sparkring.init()
    task(BarrierTaskContext(1, ["a", "b"], answer=[b"bytes", b"bytes"]))
    with pytest.raises(TypeError):
        sparkring.init()


@pytest.mark.parametrize("answer", [[], ["x"], ["x", "y"], ["x", "y", "z"]])
def test_what_the_exchange_answers(task, answer):
    task(BarrierTaskContext(1, ["localhost", "localhost"], answer))
    with pytest.raises(sparkring.RingError):
        sparkring.init(timeout=5)


def test_a_task_that_never_calls(task):
    """Spark's own exchange would wait for a year."""
    release = threading.Event()
    task(BarrierTaskContext(1, ["localhost", "localhost"], release))
    with pytest.raises(sparkring.TimeoutError, match=r"not all 2 have called sparkring.init\(\)"):
        sparkring.init(timeout=0.2)
    release.set()
