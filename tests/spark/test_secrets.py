# SPDX-License-Identifier: Apache-2.0
"""The secrets of a ring are in no log of executors, of the driver or of its events; nor are they in
what it shows, nor in the environment or the arguments of a process.

They are looked for in every form that a line or a pickle could give them. A text that is no secret
is printed and raised by ranks: that it is found in all these places shows that they would be, too.
"""

import base64
import re
import secrets
import shlex
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import sparklyr
import sparkring
from cluster import until
from conftest import TWO_EXECUTORS, work_of
from notebook import PaperError
from pyspark import cloudpickle
from sparkring.spark import _attempts as attempts
from sparkring.spark import run

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors do not have this file

pytestmark = pytest.mark.parametrize("spark", [TWO_EXECUTORS], indirect=True)

PROCESSES = Path(__file__).with_name("processes.sh")
BETWEEN = re.compile(rb"L?[^-0-9A-Za-z]+(?:0x)?")  # numbers in a list, as R and Python show it
IN_R = ["print(x)", "print(list(1:9, x))", "dput(x)", "dput(as.integer(x))", "cat(x, sep = ':')"]
IN_R += ["cat(as.integer(x), sep = ',')", "print(as.integer(x))", "print(bquote(f(x = .(x))))"]


def forms(secret):
    """The forms of some bytes: raw, hex, as Python shows them, and base64 from any place on."""
    found = [secret, secret.hex().encode(), secret.hex().upper().encode()]
    found.append(repr(secret)[2:-1].encode())
    for before in range(3):
        text = base64.b64encode(bytes(before) + secret)
        found.append(text[4 if before else 0 : -4])
    return found


def lists(secret):
    """The forms of parts of them as numbers: hex, decimal, and with a sign, as in Java.

    R has no more than 19 on a line, and begins each with the place of its first.
    """
    found = []
    for part in (secret[at : at + 8] for at in range(0, len(secret), 8)):
        found += [part.hex(" "), part.hex(" ").upper()]
        found += [" ".join(map(str, numbers)) for numbers in (part, memoryview(part).cast("b"))]
    return [form.encode() for form in found]


def holders(secret, files):
    """List the files that have a secret in any form."""
    return [file for file in files if holds(file.read_bytes(), secret)]


def holds(text, secret):
    """Whether there is a secret in a text."""
    listed = BETWEEN.sub(b" ", text)
    found = any(form in text for form in forms(secret))
    return found or any(form in listed for form in lists(secret))


def shown_in_r(secret):
    """How R shows some bytes, in all of its ways."""
    shows = "; cat('\\f'); ".join(IN_R)
    script = f"x <- as.raw(c({', '.join(map(str, secret))})); {shows}"
    done = subprocess.run(
        ["Rscript", "--vanilla", "-e", script], stdout=subprocess.PIPE, check=True
    )
    return done.stdout.split(b"\f")


def test_every_form_is_found(spark, tmp_path):
    secret = secrets.token_bytes(32)
    around = [b"", b"a", b"ab", b"abc"]
    texts = [before + secret + b"end" for before in around]
    texts += [base64.b64encode(text) for text in texts]
    texts += [
        f"{secret}".encode(),
        secret.hex().encode(),
        f"token {secret.hex().upper()}.".encode(),
        f"{list(secret)}".encode(),
        f"{list(memoryview(secret).cast('b'))}".encode(),
        secret.hex(" ").upper().encode(),
    ]
    in_r = shown_in_r(secret)
    assert len(in_r) == len(IN_R)
    for text in texts + in_r:
        (tmp_path / "log").write_bytes(text)
        assert holders(secret, [tmp_path / "log"]), text
        assert not holders(secrets.token_bytes(32), [tmp_path / "log"])


@pytest.fixture
def places(spark, tmp_path):
    """Where secrets could come to be: files and folders."""
    context = spark.sparkContext
    own = ("driver", "shown", "environ", "cmdline")
    return {
        "executors": work_of(context.applicationId),
        "events": Path(urlsplit(context.getConf().get("spark.eventLog.dir")).path),
        **{name: tmp_path / name for name in own},
    }


def wait_for(plant, places, *names):
    """Wait until places have the text."""
    for name in names:
        until(lambda place=places[name]: holders(plant, files(place)), lambda name=name: name)


def search(found, places):
    """List the files of all places that have one of the secrets."""
    everything = [file for place in places.values() for file in files(place)]
    return {file for secret in found for file in holders(secret, everything)}


def note_processes(folder, plant):
    """The command that notes the environments and the arguments of all processes."""
    return ["sh", str(PROCESSES), str(folder), plant.hex()]


@pytest.fixture
def kept(monkeypatch):
    """The secrets of the attempts of `run`, as they are made."""
    found = []

    def note(*args, **kwargs):
        job = make(*args, **kwargs)
        found.append(bytes.fromhex(job.address.key))
        return job

    make = attempts.Attempt
    monkeypatch.setattr(attempts, "Attempt", note)
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


def fail(comm, note, plant):
    """For `run`: output the text in all ways that there are."""
    print(f"rank {comm.rank} prints {plant.hex()}, {comm!r}")
    comm.barrier()
    if comm.rank == 0:
        subprocess.run(note, check=True)
    comm.barrier()
    if comm.rank == 1:
        raise PaperError(plant)
    comm.barrier()


def fail_in_spark(token, plant):
    """For mapPartitions: the task fails, which Spark writes to its own logs."""

    def work(rows):
        with sparkring.init(token=token) as comm:
            print(comm, flush=True)
            comm.allreduce(np.ones(3))
            raise ArithmeticError(plant.hex())
        yield from rows

    return work


def fail_of_spark(context, token, plant):
    """Let a stage fail, with the text."""
    stage = context.parallelize(range(4), 4).barrier()
    with pytest.raises(Exception, match=plant.hex()):
        stage.mapPartitions(fail_in_spark(token, plant)).collect()


def test_logs(spark, kept, places, tmp_path, capfd):
    plant, token = secrets.token_bytes(32), secrets.token_bytes(32)
    with driver_log(spark._jvm, places["driver"]):
        with pytest.raises(PaperError):
            run(fail, args=(note_processes(tmp_path, plant), plant), num_proc=4)
        fail_of_spark(spark.sparkContext, token, plant)
        output = capfd.readouterr()
        places["shown"].write_text(output.out + output.err)
        wait_for(plant, places, *places)
    assert len(kept) == 1
    assert search([*kept, token], places) == set()


def test_logs_of_ring_apply(spark, places, tmp_path, capfd):
    """Its tasks end well, whatever ranks do: another job brings the text to Spark's own logs."""
    plant, token = secrets.token_bytes(32), secrets.token_bytes(32)
    folder = tmp_path / "ring_apply"
    folder.mkdir()
    arguments = {"text": plant.hex(), "note": shlex.join(note_processes(tmp_path, plant))}
    places["errors"] = folder / "errors"
    with driver_log(spark._jvm, places["driver"]):
        print(sparklyr.ring_apply(spark, sparklyr.table(spark), folder, "fail", **arguments))
        output = capfd.readouterr()
        places["shown"].write_text(output.out + output.err)
        wait_for(plant, places, "executors", "environ", "cmdline", "shown", "errors")
        fail_of_spark(spark.sparkContext, token, plant)
        wait_for(plant, places, "driver", "events")
    drawn = [bytes.fromhex(line) for line in (folder / "drawn").read_text().splitlines()]
    # Of the ranks, of the line to them, and of the ring for large values.
    assert [len(secret) for secret in drawn] == [32, 32, 32]
    assert search([*drawn, token], places) == set()


def files(place):
    """List a file, or the files of a folder."""
    return [path for path in [place, *place.rglob("*")] if path.is_file()]
