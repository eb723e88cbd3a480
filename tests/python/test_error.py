# SPDX-License-Identifier: Apache-2.0
"""Bad input, each by the text that the user reads, and what the exceptions are."""

from __future__ import annotations

import builtins
import os
import pickle
import re
import secrets
import traceback

import numpy as np
import pytest
import sparkring
from ranks import open_comm, outcomes

pytestmark = pytest.mark.quick

HOSTS = ["localhost", "localhost"]


def refuses(text, **options):
    """Check that init raises InvalidError, which is a ValueError, with exactly this text."""
    with pytest.raises(sparkring.InvalidError, match=f"^{re.escape(text)}$") as caught:
        sparkring.init(**options)
    assert isinstance(caught.value, ValueError)


# ---- Arguments of init


def test_rank_outside_size():
    refuses("rank is 2, but size is 2: ranks go from 0 to 1", rank=2, addresses=HOSTS)
    refuses("rank is 2, but size is 2: ranks go from 0 to 1", rank=2, size=2, root_address="a")
    refuses("rank is -1: ranks go from 0 to size - 1", rank=-1, addresses=HOSTS)


def test_size():
    refuses(
        "3 addresses were given for size 2: there must be one for each rank",
        rank=0,
        size=2,
        addresses=["a", "b", "c"],
    )
    refuses("size is 0: it must be 1 or more", rank=0, size=0)
    refuses(
        "no addresses were given: pass those of all ranks, in rank order, or at least that of"
        " rank 0",
        rank=0,
        size=2,
    )


def test_rank_is_missing():
    text = (
        "rank is missing: size, addresses, root_address or exchange was given, so rank must be"
        " given too"
    )
    refuses(text, size=2)
    refuses(text, addresses=HOSTS)
    refuses(text, root_address="localhost")
    refuses(text, exchange=lambda text: [text])


def test_addresses():
    empty = "addresses is empty: pass the address of every rank, in rank order"
    refuses(empty, rank=0, addresses=[])
    text = "addresses is one string: pass a list with the address of every rank"
    refuses(text, rank=0, addresses="localhost")
    refuses("the address of rank 1 is of type int, not str", rank=0, addresses=["localhost", 7])


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"rank": "0"}, "rank is of type str: it must be a whole number"),
        ({"size": 2.0}, "size is of type float: it must be a whole number"),
        ({"connections": "2"}, "connections is of type str: it must be a whole number"),
        ({"timeout": "3"}, "timeout is of type str: it must be a number of seconds"),
        ({"call_timeout": [3]}, "call_timeout is of type list: it must be a number of seconds"),
        ({"warn_after": "60"}, "warn_after is of type str: it must be a number of seconds"),
        ({"token": 5}, "token is of type int, not str or bytes"),
        ({"job": 5}, "job is of type int, not str"),
        ({"root_address": b"localhost"}, "root_address is of type bytes, not str"),
        ({"algorithms": ["allreduce:ring"]}, "algorithms is of type list, not str"),
        ({"job": "a\0b"}, r"job is 'a\x00b': it must not have a null character"),
        (
            {"addresses": ["localhost", "a\0b"]},
            r"the address of rank 1 is 'a\x00b': it must not have a null character",
        ),
    ],
)
def test_wrong_type(given, text):
    refuses(text, **({"rank": 0, "addresses": HOSTS} | given))


@pytest.mark.parametrize("address", ["", " ", "a b", "host:port", "host:70000", "[::1"])
def test_malformed_address(address):
    with pytest.raises(sparkring.InvalidError, match=r"^the address of rank 1 is bad: .+"):
        sparkring.init(rank=0, addresses=["localhost", address])


def test_ports():
    for ports in [(0, 10), (10, 9), (1, 65536)]:
        refuses(
            f"the port range {ports[0]} to {ports[1]} is bad: give its first and its last port,"
            " from 1 to 65535",
            rank=0,
            addresses=HOSTS,
            ports=ports,
        )
    for ports in [(1, 2, 3), 5000, ("a", "b"), ()]:
        text = f"ports is {ports!r}: give the first and the last port to listen on, as two numbers"
        refuses(text, rank=0, addresses=HOSTS, ports=ports)


@pytest.mark.parametrize("name", ["timeout", "call_timeout"])
def test_seconds(name):
    for seconds, shown in [(0, "0"), (-1, "-1"), (float("nan"), "nan")]:
        text = f"{name} is {shown}: it must be a positive number of seconds"
        refuses(text, rank=0, addresses=HOSTS, **{name: seconds})
    text = f"{name} is inf: it must be less than 1e9 seconds"
    refuses(text, rank=0, addresses=HOSTS, **{name: float("inf")})


def test_empty_token():
    text = "the token is empty: give at least 16 random bytes, or none"
    refuses(text, rank=0, addresses=HOSTS, token="")
    refuses(text, rank=0, addresses=HOSTS, token=b"")


def test_short_token(monkeypatch):
    text = "the token is too short, 6 bytes: give at least 16 random bytes, or none"
    refuses(text, rank=0, addresses=HOSTS, token="sesame")
    monkeypatch.setenv("SPARKRING_RANK", "0")
    monkeypatch.setenv("SPARKRING_SIZE", "1")
    monkeypatch.setenv("SPARKRING_TOKEN", "sesame")
    refuses(text)


def test_a_token_that_is_no_text_is_in_no_error():
    with pytest.raises(sparkring.InvalidError) as caught:
        sparkring.init(rank=0, addresses=HOSTS, token="sesame\udc80")
    assert "sesame" not in "".join(traceback.format_exception(None, caught.value, None))
    assert caught.value.__context__ is None


def test_flags():
    for name in ("shared_memory", "encryption"):
        refuses(f"{name} must be True or False, not 'no'", rank=0, addresses=HOSTS, **{name: "no"})


def test_malformed_environment(monkeypatch):
    monkeypatch.setenv("SPARKRING_RANK", "one")
    monkeypatch.setenv("SPARKRING_SIZE", "2")
    with pytest.raises(sparkring.InvalidError, match="SPARKRING_RANK"):
        sparkring.init()


def test_missing_ranks():
    with pytest.raises(sparkring.TimeoutError, match="rank") as caught:
        sparkring.init(rank=0, addresses=HOSTS, token=secrets.token_hex(), timeout=0.2)
    assert caught.value.status == "TIMEOUT"
    assert isinstance(caught.value, builtins.TimeoutError)


# ---- Arguments of collectives


def test_unknown_op():
    with sparkring.init(rank=0, addresses=["localhost"]) as comm:
        ops = "sum, prod, min, max, avg, land, lor, lxor, band, bor, bxor, mean, average"
        text = f'unknown op "median": one of {ops}'
        with pytest.raises(sparkring.InvalidError, match=f"^{re.escape(text)}$"):
            comm.allreduce(1, "median")
        with pytest.raises(sparkring.InvalidError, match="op land is for integers and bool"):
            comm.allreduce(1.5, "land")
        with pytest.raises(sparkring.InvalidError, match="root 1 is no rank: ranks go from 0 to 0"):
            comm.broadcast(1, 1)
        assert comm.allreduce(1) == 1
        assert comm.allreduce(3, "mean") == comm.allreduce(3, "average") == 3


# ---- Ranks that disagree


def call_with_different_counts():
    with open_comm() as comm:
        comm.allreduce(np.ones(100 + comm.rank))


def call_with_different_ops():
    with open_comm() as comm:
        comm.allreduce(np.ones(100), "sum" if comm.rank == 0 else "max")


def call_different_collectives():
    with open_comm() as comm:
        if comm.rank == 0:
            comm.allreduce(1)
        else:
            comm.barrier()


@pytest.mark.parametrize(
    "function", [call_with_different_counts, call_with_different_ops, call_different_collectives]
)
def test_mismatch(function):
    for outcome in outcomes(3, function):
        assert isinstance(outcome.error, sparkring.MismatchError)


def use_a_token_each(tokens):
    sparkring.init(token=tokens[int(os.environ["SPARKRING_RANK"])], timeout=3)


def test_another_token():
    tokens = [secrets.token_hex(), secrets.token_hex()]  # a job that knew one would join
    for outcome in outcomes(2, use_a_token_each, tokens):
        assert isinstance(outcome.error, sparkring.RingError)
        assert outcome.error.status in ("AUTH", "TIMEOUT")
        assert not any(token in str(outcome.error) for token in tokens)


def die():
    with open_comm() as comm:
        comm.barrier()
        if comm.rank == 1:
            os._exit(0)
        comm.allreduce(np.ones(1000))


def test_a_rank_dies():
    first, _, last = outcomes(3, die)
    for outcome in (first, last):
        assert isinstance(outcome.error, sparkring.PeerLostError)
        assert isinstance(outcome.error, ConnectionError)
        assert outcome.error.rank == 1


# ---- The exceptions


def test_classes():
    bases = {
        "InvalidError": ValueError,
        "TimeoutError": builtins.TimeoutError,
        "PeerLostError": ConnectionError,
        "MismatchError": RuntimeError,
        "AuthError": RuntimeError,
        "AbortedError": RuntimeError,
        "BusyError": RuntimeError,
        "UnsupportedError": RuntimeError,
        "NoMemoryError": MemoryError,
        "SystemCallError": RuntimeError,
    }
    statuses = []
    for name, base in bases.items():
        error = getattr(sparkring, name)("text")
        assert isinstance(error, base)
        assert isinstance(error, sparkring.RingError)
        assert type(error).__module__ == "sparkring"
        assert (str(error), error.rank, error.errno) == ("text", None, None)
        statuses.append(error.status)
    assert " ".join(statuses) == (
        "INVALID TIMEOUT PEER_LOST MISMATCH AUTH ABORTED BUSY UNSUPPORTED NO_MEMORY SYSTEM"
    )


def test_pickles():
    error = sparkring.TimeoutError("text")
    error.rank, error.errno = 3, 110
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.args) == (sparkring.TimeoutError, ("text",))
    assert (copy.status, copy.rank, copy.errno) == ("TIMEOUT", 3, 110)
