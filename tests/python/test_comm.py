# SPDX-License-Identifier: Apache-2.0
"""The life of a communicator, and what it knows."""

from __future__ import annotations

import gc
import inspect
import os
import pickle
import re
import time
import weakref

import numpy as np
import pytest
import sparkring
from ranks import open_comm, outcomes, run

pytestmark = pytest.mark.quick


def alone(**options):
    return sparkring.init(rank=0, addresses=["localhost"], **options)


def describe():
    with open_comm() as comm:
        known = (comm.rank, comm.size, comm.local_rank, comm.local_size)
        state = (comm.authenticated, comm.usable, comm.closed)
        return known, comm.hosts, comm.epoch, state, repr(comm)


def test_what_it_knows():
    epochs = set()
    for rank, (known, hosts, epoch, state, text) in enumerate(run(3, describe)):
        assert known == (rank, 3, rank, 3)
        assert hosts == ["127.0.0.1"] * 3
        assert state == (True, True, False)
        assert text == (
            f"<sparkring.Communicator rank {rank} of 3 on 127.0.0.1, local rank {rank} of 3,"
            " authenticated, open>"
        )
        epochs.add(epoch)
    assert len(epochs) == 1


def test_a_world_of_one(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("SPARKRING_", "OMPI_", "PMI_", "SLURM_", "MPI_")):
            monkeypatch.delenv(name)
    monkeypatch.delenv("RANK", raising=False)
    with sparkring.init() as comm:
        assert (comm.rank, comm.size, comm.authenticated) == (0, 1, False)
        assert "not authenticated, open>" in repr(comm)
        comm.barrier()
        assert comm.counters()["calls"] == 1
        assert comm.counters(0)["bytes_sent"] == 0
        assert comm.link(0) == "self"
        for call in (comm.counters, comm.link):
            for peer in (1, -1, 2**32, 2**32 + 1, -(2**32), 2**70):
                with pytest.raises(sparkring.InvalidError, match=rf"^peer (is )?{peer}\b"):
                    call(peer)


def test_close_and_open_again():
    comm = alone()
    comm.close()
    comm.close()
    assert (comm.closed, comm.usable) == (True, False)
    assert repr(comm).endswith("not authenticated, closed>")
    assert (comm.rank, comm.size, comm.hosts) == (0, 1, ["localhost"])
    alone().close()


def test_second_init():
    with alone() as comm:
        text = (
            f"this process has an open communicator, {comm!r}: use it, or close it before the"
            " next init()"
        )
        with pytest.raises(sparkring.InvalidError, match=f"^{re.escape(text)}$"):
            alone()
        assert comm.usable


def use_connections(connections):
    with open_comm(shared_memory=False, connections=connections) as comm:
        total = comm.allreduce(np.arange(100_000) + comm.rank)
        return comm.link(1 - comm.rank), bool((total == 2 * np.arange(100_000) + 1).all())


@pytest.mark.parametrize(("connections", "link"), [(None, "tcp"), (1, "tcp"), (3, "tcp x3")])
def test_connections_of_a_link(connections, link):
    assert run(2, use_connections, connections) == [(link, True)] * 2


def differ_in_connections():
    with pytest.raises(sparkring.MismatchError, match="the same connections"):
        open_comm(connections=2 + int(os.environ["SPARKRING_RANK"]))


def test_connections_that_cannot_be_or_differ():
    with pytest.raises(sparkring.InvalidError, match="connections is 0: it must be 1 or more"):
        sparkring.init(connections=0)
    with pytest.raises(sparkring.InvalidError, match="connections is 17: it must be from 1 to 16"):
        sparkring.init(connections=17)
    run(2, differ_in_connections)


def encrypted(encryption):
    with open_comm(shared_memory=False, encryption=encryption) as comm:
        total = comm.allreduce(np.arange(100_000) + comm.rank)
        assert (total == 2 * np.arange(100_000) + 1).all()
        with comm.split(0) as child:
            child.barrier()
            links = comm.link(1 - comm.rank), child.link(1 - comm.rank)
            return links, (comm.encrypted, child.encrypted), repr(comm).split(", ")[2:]


PLAIN = (("tcp", "tcp"), (False, False), ["authenticated", "open>"])
ENCRYPTED = (("tls", "tls"), (True, True), ["authenticated", "encrypted", "open>"])


@pytest.mark.parametrize(
    ("encryption", "variable", "seen"),
    [
        (True, None, ENCRYPTED),
        (None, None, PLAIN),
        (None, "1", ENCRYPTED),
        (None, "0", PLAIN),
        (False, "1", PLAIN),
    ],
)
def test_encryption(encryption, variable, seen, monkeypatch):
    if variable is not None:
        monkeypatch.setenv("SPARKRING_ENCRYPTION", variable)
    assert run(2, encrypted, encryption) == [seen] * 2


def test_encryption_that_cannot_be(monkeypatch):
    two = {"rank": 0, "addresses": ["127.0.0.1"] * 2}
    needs = "encryption needs a token: give all ranks the same one, of at least 16 random bytes"
    with pytest.raises(sparkring.InvalidError, match=needs):
        sparkring.init(**two, encryption=True)
    with pytest.raises(sparkring.InvalidError, match="encryption must be True or False, not 'no'"):
        sparkring.init(**two, encryption="no")
    monkeypatch.setenv("SPARKRING_ENCRYPTION", "1")
    with pytest.raises(sparkring.InvalidError, match=needs):
        sparkring.init(**two)
    monkeypatch.setenv("SPARKRING_ENCRYPTION", "yes")
    with pytest.raises(sparkring.InvalidError, match='is "yes", which is neither 1 nor 0'):
        sparkring.init(**two)


def differ_in_encryption():
    rank = int(os.environ["SPARKRING_RANK"])
    with pytest.raises(sparkring.RingError) as caught:
        open_comm(encryption=rank == 1)
    return caught.value.status, str(caught.value)


def test_encryption_that_differs():
    for status, text in run(2, differ_in_encryption):
        assert status == "MISMATCH"
        assert re.match(
            r"rank 1.* wants encryption, and rank 0 \(127\.0\.0\.1\) wants none: ", text
        )


def test_call_after_close():
    comm = alone()
    comm.close()
    for call in (comm.barrier, lambda: comm.allreduce(1), lambda: comm.allgather(1)):
        with pytest.raises(sparkring.InvalidError, match=r"^the communicator is closed$"):
            call()


def test_call_after_abort():
    comm = alone()
    comm.abort("no reason")
    comm.abort()
    assert (comm.closed, comm.usable) == (True, False)
    with pytest.raises(sparkring.AbortedError, match="aborted the communicator: no reason"):
        comm.barrier()
    comm.close()
    alone().close()


def test_peer_outside():
    with alone() as comm:
        for peer in (-1, 1):
            for call in (comm.counters, comm.link):
                with pytest.raises(sparkring.InvalidError, match=f"peer {peer} is outside 0 to 0"):
                    call(peer)


def raise_in_block():
    with open_comm() as comm:
        comm.barrier()
        if comm.rank == 1:
            raise ZeroDivisionError
        comm.barrier()


def test_an_exception_in_the_block_aborts():
    for rank, outcome in enumerate(outcomes(3, raise_in_block)):
        if rank == 1:
            assert isinstance(outcome.error, ZeroDivisionError)
        else:
            assert isinstance(outcome.error, sparkring.AbortedError)
            assert str(outcome.error).endswith("aborted the communicator: ZeroDivisionError")
            assert outcome.error.rank == 1


def drop_without_closing():
    comm = open_comm()
    comm.barrier()
    if comm.rank == 1:
        with pytest.warns(ResourceWarning, match="rank 1 of 2 was collected while open"):
            del comm
            gc.collect()
        return
    comm.barrier()


def test_dropping_it_aborts():
    kept, dropped = outcomes(2, drop_without_closing)
    assert dropped.error is None
    assert isinstance(kept.error, sparkring.AbortedError)
    assert "without closing it" in str(kept.error)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_weak_references():
    comm = alone()
    ended = []
    reference = weakref.ref(comm, ended.append)
    assert reference() is comm
    del comm
    assert ended == [reference]
    alone().close()


def test_it_cannot_be_made_or_copied():
    with pytest.raises(TypeError, match=re.escape("a Communicator is made by sparkring.init()")):
        sparkring.Communicator()
    with pytest.raises(TypeError, match="is not an acceptable base type"):
        type("Derived", (sparkring.Communicator,), {})
    with alone() as comm, pytest.raises(TypeError, match="pickle"):
        pickle.dumps(comm)


def use_in_child():
    with open_comm() as comm:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                comm.barrier()
            except sparkring.InvalidError as error:
                os.write(writer, str(error).encode())
            with sparkring.init(rank=0, addresses=["localhost"]) as own:
                os.write(writer, b"; own size %d" % own.size)
            del comm
            os._exit(0)
        os.close(writer)
        os.waitpid(child, 0)
        text = os.read(reader, 4096).decode()
        comm.barrier()
        return text


def test_forked_child():
    for text in run(2, use_in_child):
        assert text.startswith("this communicator belongs to the process that forked this one")
        assert text.endswith("; own size 1")


def test_signatures():
    signatures = {
        "allreduce": "(self, x, op='sum', *, out=None, dtype=None, prescale=1.0, postscale=1.0)",
        "broadcast": "(self, x, root=0, *, out=None, dtype=None)",
        "allgather": "(self, x, *, out=None, dtype=None)",
        "barrier": "(self) -> 'None'",
        "close": "(self, timeout: 'float | None' = None) -> 'None'",
        "abort": "(self, reason: 'str | None' = None) -> 'None'",
        "counters": "(self, peer: 'int | None' = None) -> 'dict[str, int]'",
        "link": "(self, peer: 'int') -> 'str'",
        "explain": "(self, collective: 'str', nbytes: 'int', dtype: 'str' = 'float32',"
        " root: 'int' = 0) -> 'Explanation'",
    }
    for name, signature in signatures.items():
        assert str(inspect.signature(getattr(sparkring.Communicator, name))) == signature


def late(timeout):
    with open_comm(call_timeout=1) as comm:
        if comm.rank:
            time.sleep(3)
        comm.close(timeout)


def test_close_may_wait_longer_than_other_calls():
    assert run(2, late, 100.0) == [None, None]
    with sparkring.init() as comm:
        for timeout in (0, -1.5, float("nan")):
            text = f"timeout is {timeout}: it must be a positive number of seconds"
            with pytest.raises(sparkring.InvalidError, match=f"^{re.escape(text)}$"):
                comm.close(timeout)
        with pytest.raises(TypeError, match="str"):
            comm.close("1")
        assert not comm.closed
