# SPDX-License-Identifier: Apache-2.0
"""The secrets of a ring are in no log of executors, of the driver or of its events; nor are they in
what it shows, nor in the environment or the arguments of a process.

They are looked for in every form that a line or a pickle could give them. A text that is no secret
is printed and raised by ranks: that it is found in all these places shows that they would be, too.
"""

import base64
import secrets
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import sparkring
from cluster import until
from conftest import TWO_EXECUTORS, work_of
from notebook import PaperError
from pyspark import cloudpickle
from sparkring.spark import driver, run

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors do not have this file

pytestmark = pytest.mark.parametrize("spark", [TWO_EXECUTORS], indirect=True)


def forms(secret):
    """The forms of some bytes: raw, hex, as Python shows them, and base64 from any place on."""
    found = [secret, secret.hex().encode(), secret.hex().upper().encode()]
    found.append(repr(secret)[2:-1].encode())
    for before in range(3):
        text = base64.b64encode(bytes(before) + secret)
        found.append(text[4 if before else 0 : -4])
    return found


def holders(secret, files):
    """List the files that have a secret in any form."""
    return [file for file in files if any(form in file.read_bytes() for form in forms(secret))]


def test_every_form_is_found(spark, tmp_path):
    secret = secrets.token_bytes(32)
    around = [b"", b"a", b"ab", b"abc"]
    texts = [before + secret + b"end" for before in around]
    texts += [base64.b64encode(text) for text in texts]
    texts += [
        f"{secret}".encode(),
        secret.hex().encode(),
        f"token {secret.hex().upper()}.".encode(),
    ]
    for text in texts:
        (tmp_path / "log").write_bytes(text)
        assert holders(secret, [tmp_path / "log"])
        assert not holders(secrets.token_bytes(32), [tmp_path / "log"])


@pytest.fixture
def kept(monkeypatch):
    """The secrets of the attempts of `run`, as they are made."""
    found = []

    def note(*args, **kwargs):
        job = make(*args, **kwargs)
        found.extend([job.key, bytes.fromhex(job.address.key)])
        return job

    make = driver.Job
    monkeypatch.setattr(driver, "Job", note)
    return found


@contextmanager
def driver_log(jvm, path):
    """Let Spark's driver write a log as chatty as there is."""
    log4j = jvm.org.apache.logging.log4j
    context = log4j.LogManager.getContext(False)
    root = context.getConfiguration().getRootLogger()
    layout = log4j.core.layout.PatternLayout.createDefaultLayout()
    file = log4j.core.appender.FileAppender.newBuilder()
    file = file.setName("search").setLayout(layout).withFileName(str(path)).build()
    file.start()
    level, console = root.getLevel(), root.getAppenders()["console"]
    root.removeAppender("console")
    root.addAppender(file, None, None)
    root.setLevel(log4j.Level.DEBUG)
    context.updateLoggers()
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeAppender("search")
        root.addAppender(console, None, None)
        context.updateLoggers()
        file.stop()


def note_processes(path, plant):
    """Note the environments and the arguments of all processes; one of them has the text."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(["cat"], env={"PLANT": plant.hex()}, bufsize=0, **pipes) as planted:
        planted.stdin.write(b"answer\n")
        planted.stdout.readline()  # until it runs, the kernel may show no environment of it
        with open(path, "wb") as file:
            for kind in ("environ", "cmdline"):
                for process in Path("/proc").glob(f"[0-9]*/{kind}"):
                    with suppress(OSError):  # it is another user's, or has just ended
                        file.write(process.read_bytes())


def fail(comm, path, plant):
    """For `run`: tell the text in all ways that there are."""
    print(f"rank {comm.rank} prints {plant.hex()}, {comm!r}")
    comm.barrier()
    if comm.rank == 0:
        note_processes(path, plant)
    comm.barrier()
    if comm.rank == 1:
        raise PaperError(plant)
    comm.barrier()


def fail_in_spark(token, plant):
    """For mapPartitions: the task fails, which Spark tells in its own logs."""

    def work(rows):
        with sparkring.init(token=token) as comm:
            print(comm, flush=True)
            comm.allreduce(np.ones(3))
            raise ArithmeticError(plant.hex())
        yield from rows

    return work


def test_logs(spark, kept, tmp_path, capfd):
    context = spark.sparkContext
    plant, token = secrets.token_bytes(32), secrets.token_bytes(32)
    places = {
        "executors": work_of(context.applicationId),
        "driver": tmp_path / "driver",
        "events": Path(urlsplit(context.getConf().get("spark.eventLog.dir")).path),
        "processes": tmp_path / "processes",
        "shown": tmp_path / "shown",
    }
    with driver_log(context._jvm, places["driver"]):
        with pytest.raises(PaperError):
            run(fail, args=(places["processes"], plant), num_proc=4)
        stage = context.parallelize(range(4), 4).barrier()
        with pytest.raises(Exception, match=plant.hex()):
            stage.mapPartitions(fail_in_spark(token, plant)).collect()
        said = capfd.readouterr()
        places["shown"].write_text(said.out + said.err)
        for name, place in places.items():
            until(lambda place=place: holders(plant, files(place)), lambda name=name: name)
    everything = [file for place in places.values() for file in files(place)]
    assert len(kept) == 2
    assert {file for secret in (*kept, token) for file in holders(secret, everything)} == set()


def files(place):
    """List a file, or the files of a folder."""
    return [path for path in [place, *place.rglob("*")] if path.is_file()]
