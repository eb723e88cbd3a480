# SPDX-License-Identifier: Apache-2.0
"""Whether Spark asks for encryption, as the command lines of a worker's ancestors show.

They lie in a directory that looks like ``/proc``. That real Spark's do is for tests/spark.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import sparkring
from sparkring import _spark_encryption as spark_encryption

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend --cores 2"
CRYPTO = "spark.network.crypto.enabled"


def add_process(proc, process, parent, command):
    folder = proc / str(process)
    folder.mkdir(exist_ok=True)
    (folder / "stat").write_text(f"{process} (a) b ({process}) S {parent} 0 0")
    (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in command.split()))


@pytest.fixture
def proc(tmp_path):
    """Lay out a worker (12) of a daemon (11) of a Java process (10)."""
    add_process(tmp_path, 12, 11, "python3 -m pyspark.daemon")
    add_process(tmp_path, 11, 10, "python3 -m pyspark.daemon")
    add_process(tmp_path, 1, 0, f"init -D{CRYPTO}=true")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "asks"),
    [
        (f"java -cp x -D{CRYPTO}=true {EXECUTOR}", True),
        (f"java -Dspark.authenticate.enableSaslEncryption=TRUE {EXECUTOR}", True),
        (f"java -D{CRYPTO}=false -Dspark.ssl.rpc.enabled=true {EXECUTOR}", True),
        (f"java org.apache.spark.deploy.SparkSubmit --conf {CRYPTO}=true", True),
        (f"java {EXECUTOR}", False),
        (f"java -D{CRYPTO}=false {EXECUTOR}", False),
        (f"java -D{CRYPTO}= {EXECUTOR}", False),
        (f"java -D{CRYPTO}x=true {EXECUTOR}", False),
        (f"java -D{CRYPTO}=truer {EXECUTOR}", False),
        (f"java -D{CRYPTO.upper()}=true {EXECUTOR}", False),
        (f"java -Dspark.io.encryption.enabled=true -Dspark.ssl.ui.enabled=true {EXECUTOR}", False),
        (f"java -D{CRYPTO}=true com.example.Other", False),
        ("", False),
    ],
)
def test_what_asks(proc, command, asks):
    add_process(proc, 10, 1, command)
    assert spark_encryption.asked_of_ancestors(12, proc) == asks


def test_what_cannot_be_read(proc):
    assert not spark_encryption.asked_of_ancestors(99, proc)
    assert not spark_encryption.asked_of_ancestors(1, Path("/nowhere"))
    add_process(proc, 12, 12, "its own parent")
    assert not spark_encryption.asked_of_ancestors(12, proc)
    for stat in ("", "12 (a) S", "12 (a) S x"):
        (proc / "12" / "stat").write_text(stat)
        assert not spark_encryption.asked_of_ancestors(12, proc)
    assert not spark_encryption.asked_of_ancestors()


def test_a_rank_of_such_a_spark(monkeypatch):
    monkeypatch.delenv("SPARKRING_ENCRYPTION", raising=False)
    monkeypatch.setattr(spark_encryption, "asked_of_ancestors", lambda: True)
    with sparkring.init() as comm:
        assert comm.encrypted
    with sparkring.init(encryption=False) as comm:
        assert not comm.encrypted
    two = {"rank": 0, "addresses": ["127.0.0.1"] * 2, "timeout": 0.1}
    with pytest.raises(sparkring.InvalidError, match=r"Spark encrypts its traffic here, .*token"):
        sparkring.init(**two)
    with pytest.raises(sparkring.TimeoutError):
        sparkring.init(**two, token="sixteen letters.")
    monkeypatch.setenv("SPARKRING_ENCRYPTION", "0")
    with sparkring.init() as comm:
        assert not comm.encrypted
