# SPDX-License-Identifier: Apache-2.0
"""Sends and receives outside the order of collectives."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
import sparkring
from ranks import open_comm, run

pytestmark = pytest.mark.quick

SIZES = [0, 1, 1000, 9000, 2_000_000]


def cross():
    with open_comm() as comm, comm.messages() as messages:
        peer = 1 - comm.rank
        for size in SIZES:
            for order in (1, -1):
                out = np.full(size, -1.0)
                started = [
                    messages.recv_start(peer, 5, out=out),
                    messages.send_start(np.full(size, float(comm.rank)), peer, 5),
                ]
                results = [transfer.wait() for transfer in started[::order]][::order]
                assert results[0] is out
                assert results[1] is None
                assert (out == peer).all()
                assert started[0].test()
                assert started[0].status == sparkring.MessageStatus(peer, 5, "float64", size)
                assert started[1].status is None


@pytest.mark.parametrize("shared", [True, False])
def test_both_directions(shared, monkeypatch):
    monkeypatch.setenv("SPARKRING_SHARED_MEMORY", str(int(shared)))
    run(2, cross)


def send_around():
    with open_comm() as comm, comm.messages() as messages:
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        got = [messages.sendrecv(np.arange(n) + comm.rank, right, source=left) for n in SIZES]
        assert all((theirs == np.arange(theirs.size) + left).all() for theirs in got)
        return [theirs.size for theirs in got]


def test_sendrecv():
    for size in (1, 2, 3):
        assert run(size, send_around) == [SIZES] * size


def take_any():
    with open_comm() as comm, comm.messages() as messages:
        if comm.rank > 0:
            messages.send(np.full(comm.rank, comm.rank, np.int16), 0, tag=comm.rank)
            messages.send_object({"rank": comm.rank}, 0, tag=9)
            return None
        assert messages.iprobe(tag=77) is None
        found = messages.probe(tag=2)
        array, status = messages.recv(found.source, found.tag, return_status=True)
        assert found == status == sparkring.MessageStatus(2, 2, "int16", 2)
        assert array.dtype == np.int16
        assert messages.recv(tag=1).tolist() == [1]
        return sorted(messages.recv_object(tag=9)["rank"] for _ in range(2))


def test_any_source_probe_and_objects():
    assert run(3, take_any)[0] == [1, 2]


def send_kinds():
    with open_comm() as comm, comm.messages() as messages:
        if comm.rank == 1:
            messages.send(3, 0)
            messages.send(b"abc", 0, 1)
            messages.send(np.ones((2, 3), np.complex64), 0, 2)
            messages.send(np.asfortranarray(np.arange(6).reshape(2, 3)), 0, 3)
            messages.send(np.arange(3, dtype="uint16"), 0, 4, dtype="bfloat16")
            return None
        number, text, matrix = messages.recv(1, 0), messages.recv(1, 1), np.zeros((2, 3), "c8")
        assert messages.recv(1, 2, out=matrix) is matrix
        rows, words = messages.recv(1, 3), messages.recv_start(1, 4)
        assert words.wait().dtype == np.uint16
        assert words.status.dtype == "bfloat16"
        return number.tolist(), bytes(text), matrix.sum(), rows.tolist()


def test_kinds_of_arrays():
    assert run(2, send_kinds)[0] == ([3], b"abc", 6, [0, 1, 2, 3, 4, 5])


def misfit():
    with open_comm() as comm, comm.messages() as messages:
        if comm.rank == 1:
            for tag in range(2):
                messages.send(np.arange(4.0), 0, tag)
            messages.send(1, 0, 2)
            messages.recv(0, 99)
            return None
        with pytest.raises(sparkring.MismatchError, match=r"tag 0 has 4 elements.*room for 3"):
            messages.recv(1, 0, out=np.zeros(3))
        with pytest.raises(
            sparkring.MismatchError, match="is of float64, and the receive of int32"
        ):
            messages.recv(1, 1, out=np.zeros(4, "int32"))
        with pytest.raises(sparkring.InvalidError, match="peer 2 is not in 0 to 1"):
            messages.send(1, 2)
        for text, call in [
            ("tag is -3: it must be 0 or more", lambda: messages.send(1, 1, tag=-3)),
            ("peer is 2147483648: it must be less", lambda: messages.send(1, 2**31)),
            ("source is -1: .* or None for any source", lambda: messages.recv(comm.rank - 1)),
            ("tag is -1: .* or None for any tag", lambda: messages.iprobe(1, -1)),
        ]:
            with pytest.raises(sparkring.InvalidError, match=text):
                call()
        with pytest.raises(TypeError, match=r"source must be a whole number, or None.*, not str"):
            messages.probe("1")
        cancelled = messages.recv_start(1, 50)
        cancelled.cancel()
        with pytest.raises(sparkring.AbortedError, match="cancelled"):
            cancelled.wait()
        dropped = messages.recv_start(1, 51)
        del dropped
        gc.collect()
        messages.send(1, 1, 99)
        return messages.recv(1, 2).tolist()


def test_misfits_and_bad_arguments():
    assert run(2, misfit)[0] == [1]


def talk_in_threads():
    with open_comm() as comm, comm.messages() as messages:
        peer, sums = 1 - comm.rank, {}

        def exchange(tag):
            got = [
                messages.sendrecv(np.full(50, i), peer, tag, source=peer, source_tag=tag)[0]
                for i in range(100)
            ]
            sums[tag] = sum(got)

        threads = [threading.Thread(target=exchange, args=(tag,)) for tag in range(4)]
        for thread in threads:
            thread.start()
        total = comm.allreduce(1)  # collectives go on
        for thread in threads:
            thread.join()
        return total, set(sums.values())


def test_threads_and_collectives():
    assert run(2, talk_in_threads) == [(2, {4950})] * 2


def leave_open():
    with open_comm() as comm:
        messages = comm.messages()
        if comm.rank == 1:
            del messages
            gc.collect()
            return None
        with pytest.raises(sparkring.AbortedError, match=r"rank 1 .* aborted its messages"):
            messages.recv()
        with pytest.raises(sparkring.AbortedError):
            messages.send(1, 0)
        return "aborted"


def test_dropped_messages_abort():
    assert run(2, leave_open)[0] == "aborted"


def forget():
    with open_comm() as comm:
        messages = comm.messages()
        if comm.rank == 1:
            messages.send(1, 0, tag=4)
        try:
            messages.close()
        except sparkring.MismatchError as error:
            return str(error)


def test_messages_that_nobody_receives():
    first, second = run(2, forget)
    assert "never received the message from rank 1" in first
    assert second is None
