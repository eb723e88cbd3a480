# SPDX-License-Identifier: Apache-2.0
"""A handle of RAFT over the ranks, with modules that stand in for pylibraft and raft-dask.

Their NCCL connects by files. It shows how raft_handle calls RAFT, and what happens when a rank
fails meanwhile. RAFT itself needs a GPU.
"""

from __future__ import annotations

import os
import sys
import threading
import time

import gpu_stub
import pytest
import sparkring
from ranks import LIMIT, open_comm, outcomes, run

HANDLE = """
class Handle:
    def __init__(self, n_streams=0):
        self.n_streams, self.calls = n_streams, []
    def sync(self):
        self.calls.append("sync")
"""
NCCL = """
import ctypes, os, time
class nccl:
    @staticmethod
    def get_unique_id():
        return b"raft" + bytes(124)
    def init(self, size, unique, rank):
        assert unique == b"raft" + bytes(124)
        gpu = ctypes.c_int()
        if ctypes.CDLL("libcuda.so.1").cuCtxGetDevice(ctypes.byref(gpu)) != 0 or gpu.value != rank:
            raise RuntimeError("NCCL_ERROR: wrong GPU")
        if os.environ.get("STUB_FAILS") == str(rank):
            raise RuntimeError("NCCL_ERROR: unhandled system error")
        open(os.path.join(os.environ["STUB_FOLDER"], str(rank)), "w").close()
        while len(os.listdir(os.environ["STUB_FOLDER"])) < int(os.environ.get("STUB_RANKS", size)):
            time.sleep(0.01)
        self.calls = ["init"]
    def destroy(self):
        self.calls.append("destroy")
    def abort(self):
        self.calls.append("abort")
"""
INJECT = """
def inject_comms_on_handle_coll_only(handle, nccl, size, rank, verbose):
    handle.nccl, handle.injected = nccl, (size, rank)
"""


@pytest.fixture
def stubs(tmp_path, monkeypatch, gpu_stubs):
    for name, text in (
        ("pylibraft/common.py", HANDLE),
        ("raft_dask/common/nccl.py", NCCL),
        ("raft_dask/common/comms_utils.py", INJECT),
    ):
        path = tmp_path / "modules" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "ranks").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"), prepend=os.pathsep)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(gpu_stubs))
    monkeypatch.setenv("CUDA_STUB_GPUS", "8")
    monkeypatch.setenv("STUB_FOLDER", str(tmp_path / "ranks"))


def use():
    with open_comm() as comm:
        gpu_stub.Gpu(comm.rank)
        with comm.raft_handle(n_streams=4) as handle:
            seen = handle.injected, handle.n_streams, list(handle.nccl.calls)
        total = comm.allreduce(1.0)
    return seen, handle.calls, handle.nccl.calls, total


def test_the_handle_has_the_ranks(stubs):
    assert run(3, use) == [
        (((3, rank), 4, ["init"]), ["sync"], ["init", "destroy"], 3) for rank in range(3)
    ]


def leave():
    with open_comm() as comm:
        gpu_stub.Gpu(comm.rank)
        with pytest.raises(ZeroDivisionError), comm.raft_handle() as handle:
            raise ZeroDivisionError
    return handle.calls, handle.nccl.calls


def test_an_exception_aborts_nccl(stubs):
    assert run(2, leave) == 2 * [([], ["init", "abort"])]


def fail(timeouts):
    with open_comm() as comm:
        gpu_stub.Gpu(comm.rank)
        with (
            pytest.raises(sparkring.RingError) as caught,
            comm.raft_handle(timeout=timeouts[comm.rank]),
        ):
            pass
        comm.barrier()  # the communicator stays usable
    time.sleep(0.2)  # a thread that has failed ends
    threads = sum(thread.name == "sparkring-raft" for thread in threading.enumerate())
    return type(caught.value).__name__, caught.value.rank, str(caught.value), threads


def test_a_rank_where_nccl_fails(stubs, monkeypatch):
    monkeypatch.setenv("STUB_FAILS", "1")
    results = run(3, fail, [60, 60, 60])
    assert [(kind, rank) for kind, rank, *_ in results][::2] == 2 * [("InvalidError", 1)]
    assert all(
        "NCCL cannot connect the ranks: NCCL_ERROR: unhandled" in text for *_, text, _ in results
    )
    assert [threads for *_, threads in results] == [1, 0, 1]  # as documented


def test_nccl_that_never_connects(stubs, monkeypatch):
    monkeypatch.setenv("STUB_RANKS", "3")
    timeouts = [0.2, 0.4]  # the rank whose time is not over ends with the same error
    for timeout, (kind, _, text, _) in zip(timeouts, run(2, fail, timeouts)):
        assert kind == "TimeoutError"
        assert f"has not connected the ranks within {timeout} s" in text


def die():
    try:
        with open_comm() as comm:
            gpu_stub.Gpu(comm.rank)
            if comm.rank == 1:
                threading.Timer(0.3, os._exit, (0,)).start()
            began = time.monotonic()
            with comm.raft_handle():
                pass
    except sparkring.PeerLostError as error:
        return error.rank, time.monotonic() - began


def test_a_rank_that_dies_while_nccl_connects(stubs, monkeypatch):
    monkeypatch.setenv("STUB_RANKS", "4")
    for outcome in outcomes(3, die)[::2]:
        rank, seconds = outcome.value
        assert rank == 1
        assert seconds < 0.3 + LIMIT


def lack():
    with open_comm() as comm:
        if comm.rank == 1:
            sys.path[:] = [path for path in sys.path if not path.endswith("modules")]
        gpu_stub.Gpu(comm.rank)
        with pytest.raises(sparkring.RingError) as caught, comm.raft_handle():
            pass
        comm.barrier()
    return type(caught.value).__name__, str(caught.value)


def test_a_rank_without_raft(stubs):
    results = run(2, lack)
    assert [kind for kind, _ in results] == ["InvalidError", "UnsupportedError"]
    assert results[0][1].startswith("rank 1 (127.0.0.1) failed: RAFT cannot be used")
    assert all("install raft-dask-cu12" in text for _, text in results)
