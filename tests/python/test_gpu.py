# SPDX-License-Identifier: Apache-2.0
"""Which GPUs a rank sees. There are none here: only the variable is looked at."""

from __future__ import annotations

import os
import sys
import types
import warnings

import pytest
import sparkring
from ranks import open_comm, outcomes, run
from sparkring.frameworks import _device as device

VISIBLE = "CUDA_VISIBLE_DEVICES"


class Task:
    """The context of a task, as PySpark makes it."""

    def __init__(self, addresses, number=0, asked=None):
        self.addresses, self.number, self.asked = addresses, number, asked

    def resources(self):
        if self.addresses is None:
            return {}
        return {"gpu": types.SimpleNamespace(addresses=self.addresses)}

    def taskAttemptId(self):  # noqa: N802 (PySpark's name)
        return self.number

    def getLocalProperty(self, name):  # noqa: N802 (PySpark's name)
        return self.asked if name == device.ASKED else None


@pytest.fixture
def be(monkeypatch):
    """Be another task: `be(task, visible)`, where no variable is touched when that is left out."""
    monkeypatch.setattr(device, "_choice", None)
    before = dict(os.environ)
    os.environ.pop(device.ORDER, None)

    def be(task, visible="as it is"):
        monkeypatch.setattr(device, "find_task", lambda: task)
        if visible is None:
            os.environ.pop(VISIBLE, None)
        elif visible != "as it is":
            os.environ[VISIBLE] = visible

    yield be
    os.environ.clear()
    os.environ.update(before)


# ---- Spark's


@pytest.mark.parametrize(
    ("addresses", "visible", "names"),
    [
        (["1", "3"], None, ["1", "3"]),
        (["1", "3"], "4,5,6,7", ["5", "7"]),
        (["0"], " GPU-1f , GPU-2e", ["GPU-1f"]),
        (["GPU-2e"], "GPU-1f,GPU-2e", ["GPU-2e"]),
        (["2", "3"], "2,3", ["2", "3"]),  # set by hand
        (["0", "1"], "1,0,-1,2", ["1", "0"]),
    ],
)
def test_addresses_are_indexes_into_what_is_visible(be, comm, addresses, visible, names):
    be(Task(addresses), visible)
    assert comm.gpus() == names
    assert os.environ[VISIBLE] == ",".join(names)
    by_number = visible is None
    assert (os.environ.get(device.ORDER) == "PCI_BUS_ID") == by_number


@pytest.mark.parametrize(
    ("visible", "text"),
    [
        ("2,3", "the GPU 2, but CUDA_VISIBLE_DEVICES is '2,3': of the 2 GPUs there the first has"),
        ("0,1,-1,2", "of the 2 GPUs there"),
        ("", "of the 0 GPUs there"),
    ],
)
def test_an_address_without_a_place(be, comm, visible, text):
    be(Task(["2"]), visible)
    with pytest.raises(sparkring.InvalidError, match=text):
        comm.gpus()
    assert os.environ[VISIBLE] == visible
    comm.barrier()


def test_the_next_task_of_a_worker(be, comm):
    be(Task(["0"], number=1), "6,7")
    assert comm.gpus() == comm.gpus() == ["6"]
    be(Task(["1"], number=2))
    assert comm.gpus() == ["7"]
    be(Task(["1"], number=3), None)
    assert comm.gpus() == ["1"]
    be(Task(["0"], number=4))
    assert comm.gpus() == ["0"]


def test_frameworks_see_to_it(be, comm):
    for number, configure in enumerate(
        (comm.torch_env, comm.tf_config, comm.jax_config, comm.lightgbm_config)
    ):
        be(Task(["1"], number), "6,7")
        configure()
        assert os.environ[VISIBLE] == "7"


def test_a_choice_stays_within_its_task(be, comm):
    be(Task(["0", "1"], number=1), "6,7")
    assert comm.gpus(0) == []
    comm.torch_env()
    assert os.environ[VISIBLE] == ""
    be(Task(["0", "1"], number=2))
    comm.torch_env()
    assert os.environ[VISIBLE] == "6,7"
    assert comm.gpus(1) == ["6"]
    with pytest.raises(sparkring.InvalidError, match="count is 3, but Spark has given this task 2"):
        comm.gpus(3)


def test_asked_and_none_came(be, comm):
    be(Task(None, asked="1"), "4,5")
    for configure in (comm.gpus, comm.torch_env):
        with pytest.raises(sparkring.InvalidError, match=r"gpu.amount is 1, but Spark has given"):
            configure()
    assert comm.gpus(2) == ["4", "5"]
    comm.torch_env()
    assert os.environ[VISIBLE] == "4,5"


def test_not_asked(be, comm):
    be(Task(None), "4,5")
    assert comm.gpus() == ["4", "5"]
    comm.torch_env()
    assert os.environ[VISIBLE] == "4,5"


def test_too_late(be, comm, tmp_path):
    be(Task(["0"]), "6,7")
    with open(tmp_path / "nvidia-uvm", "w"):
        text = "initialized in this process while CUDA_VISIBLE_DEVICES was '6,7', so it will not"
        with pytest.raises(sparkring.InvalidError, match=text):
            comm.gpus()
        assert os.environ[VISIBLE] == "6,7"
        with pytest.warns(RuntimeWarning, match=text):
            comm.torch_env()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert comm.gpus() == ["6"]  # it is so already


# ---- Shared out


def test_devices_of_a_host(be, comm, tmp_path, monkeypatch):
    monkeypatch.setattr(device, "DEVICES", tmp_path)
    be(None, None)
    with pytest.raises(sparkring.InvalidError, match=r"rank 0 sees no GPU on .*no /dev/nvidia0"):
        comm.gpus(1)
    for name in ("nvidia0", "nvidia2", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert comm.gpus() == ["0", "1"]
    assert VISIBLE not in os.environ
    assert comm.gpus(1) == ["0"]
    assert comm.gpus(2) == ["0", "1"]
    with pytest.raises(sparkring.InvalidError, match="ranks ask for 3 GPUs, but see 2"):
        comm.gpus(3)
    with pytest.raises(sparkring.InvalidError, match="count is -1: it must be 0 or more"):
        comm.gpus(-1)


def share(visible, counts, addresses=None):
    rank = int(os.environ["SPARKRING_RANK"])
    os.environ[VISIBLE] = visible[rank]
    options = {"rank": rank, "addresses": addresses, "token": "0" * 32} if addresses else {}
    with open_comm(**options) as comm:
        try:
            names = comm.gpus(counts[rank])
        finally:
            comm.barrier()
    return names, os.environ[VISIBLE]


@pytest.mark.parametrize(
    ("visible", "counts", "names"),
    [
        (["4,5,6"] * 3, [1, 1, 1], ["4", "5", "6"]),
        (["4,5,6,7"] * 3, [1, 2, 1], ["4", "5,6", "7"]),
        (["4,5"] * 3, [1, None, 1], ["4", "4,5", "5"]),
        (["4,5"] * 3, [1, 0, 1], ["4", "", "5"]),
        (["4", "5", "6"], [1, 1, 1], ["4", "5", "6"]),  # a launcher has done it
        (["4,5", "6", "4,5"], [1, 1, 1], ["4", "6", "5"]),
    ],
)
def test_ranks_share_what_they_see(visible, counts, names):
    results = run(3, share, visible, counts)
    assert results == [(name.split(",") if name else [], name) for name in names]


def test_each_host_shares_its_own():
    hosts = ["127.0.0.1", "localhost", "127.0.0.1", "localhost"]
    results = run(4, share, ["0,1"] * 4, [1] * 4, hosts)
    assert results == [(["0"], "0"), (["0"], "0"), (["1"], "1"), (["1"], "1")]


def test_more_ranks_than_gpus():
    (_, first), (_, second), (_, third) = outcomes(3, share, ["4,5", "4,5", "6"], [1, 2, 1])
    text = "on 127.0.0.1 ranks ask for 3 GPUs, but see 2 (4,5): start fewer ranks there"
    assert str(first).startswith(text)
    assert str(second).startswith(text)
    assert str(third).startswith(f"rank 0 (127.0.0.1) failed: {text}")
    assert third.rank == 0


def configure():
    with open_comm() as comm:
        comm.gpus()
        comm.torch_env()
    return "pyspark" in sys.modules, "torch" in sys.modules


def test_nothing_is_imported_for_it():
    assert run(1, configure) == [(False, False)]
