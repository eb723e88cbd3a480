# SPDX-License-Identifier: Apache-2.0
"""States that outlive an attempt: whole or not there, the same on every rank."""

from __future__ import annotations

import hashlib
import sys

import numpy as np
import pytest
import sparkring
from ranks import open_comm, run
from sparkring.spark import Checkpoint, checkpoint


@pytest.fixture
def comm():
    with sparkring.init() as comm:
        yield comm


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_last_two_stay(comm, tmp_path):
    folder = tmp_path / "new" / "folder"
    states = Checkpoint(comm, folder)
    assert states.restore() is None
    assert states.restore(default=3) == 3
    for number in range(4):
        states.save({"number": number})
    assert names(folder) == ["state-000000000002", "state-000000000003"]
    assert Checkpoint(comm, str(folder)).restore() == {"number": 3}


def test_numbers_go_on(comm, tmp_path):
    Checkpoint(comm, tmp_path).save("old")
    Checkpoint(comm, tmp_path).save("new")  # without a look at what there is
    assert Checkpoint(comm, tmp_path).restore() == "new"


@pytest.mark.parametrize("damage", [b"", b"sparkring", None])
def test_a_state_that_is_not_whole(comm, tmp_path, damage):
    states = Checkpoint(comm, tmp_path)
    states.save("whole")
    states.save("torn")
    last = tmp_path / names(tmp_path)[-1]
    last.write_bytes(last.read_bytes()[:-1] if damage is None else damage)
    (tmp_path / "new-state-000000000009").write_bytes(b"begun")
    again = Checkpoint(comm, tmp_path)
    assert again.restore() == "whole"
    again.save("next")
    assert Checkpoint(comm, tmp_path).restore() == "next"


def test_a_failed_write_leaves_the_last_state(comm, tmp_path, monkeypatch):
    states = Checkpoint(comm, tmp_path)
    states.save("whole")

    def fail(file):
        raise OSError("the disk is full")

    monkeypatch.setattr(checkpoint.os, "fsync", fail)
    with pytest.raises(OSError, match="full"):
        states.save("torn")
    assert Checkpoint(comm, tmp_path).restore() == "whole"


def ranks_with_disks_of_their_own(folder):
    """Rank 2 has what was the newest state of the last attempt, rank 0 an older one."""
    with open_comm() as comm:
        mine = f"{folder}/{comm.rank}"
        own = checkpoint.Disk(mine)
        if comm.rank in (0, 2):
            for number in range(comm.rank + 1):
                data = checkpoint.pickling.dumps((number, np.arange(5.0)))
                whole = checkpoint.MAGIC + hashlib.sha256(data).digest() + data
                own.write(checkpoint.name_of(number), whole)
        states = Checkpoint(comm, mine)
        number, array = states.restore()
        states.save("next")
        comm.barrier()
        return number, array.tolist(), sorted(own.names())[-1:]


def test_disks_of_their_own(tmp_path):
    first, second, third = run(3, ranks_with_disks_of_their_own, str(tmp_path))
    assert first[:2] == second[:2] == third[:2] == (2, [0.0, 1.0, 2.0, 3.0, 4.0])
    assert first[2] == ["state-000000000003"]
    assert second[2] == []


def one_url(url):
    with open_comm() as comm:
        states = Checkpoint(comm, url)
        before = states.restore()
        states.save([1, 2])
        comm.barrier()
        return before, Checkpoint(comm, url).restore(), sorted(states.store.names())


def test_fsspec(tmp_path):
    url = f"file://{tmp_path}/states"
    assert run(2, one_url, url) == [(None, [1, 2], ["state-000000000000"])] * 2
    assert run(2, one_url, url)[1][0] == [1, 2]


def test_fsspec_is_missing(comm, monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(sparkring.UnsupportedError, match=r"s3://bucket/job needs .* fsspec"):
        Checkpoint(comm, "s3://bucket/job")
    with pytest.raises(sparkring.InvalidError, match="path is empty"):
        Checkpoint(comm, "")
