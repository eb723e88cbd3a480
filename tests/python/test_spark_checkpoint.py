# SPDX-License-Identifier: Apache-2.0
"""States that outlive an attempt: whole or not there, the same on every rank."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import sparkring
from ranks import open_comm, run
from sparkring import _core
from sparkring import _run_state as run_state
from sparkring.spark import Checkpoint
from sparkring.spark import _checkpoint as checkpoint


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


def test_pickle_reads_states(comm, tmp_path):
    Checkpoint(comm, tmp_path).save({"number": 7})
    with (tmp_path / "state-000000000000").open("rb") as file:
        assert pickle.load(file) == {"number": 7}


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


def test_a_failed_write_leaves_the_last_state(comm, tmp_path):
    states = Checkpoint(comm, tmp_path)
    states.save("whole")
    (tmp_path / "new-state-000000000001").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        states.save("torn")
    assert caught.value.filename == f"{tmp_path}/state-000000000001"
    assert Checkpoint(comm, tmp_path).restore() == "whole"


def ranks_with_disks_of_their_own(folder):
    """Rank 2 has what was the newest state of the last attempt, rank 0 an older one."""
    with open_comm() as comm:
        mine = f"{folder}/{comm.rank}"
        own = checkpoint.Disk(mine)
        if comm.rank in (0, 2):
            for number in range(comm.rank + 1):
                data = checkpoint.closure_codec.dumps((number, np.arange(5.0)))
                own.write(f"state-{number:012}", data, _core.checkpoint_trailer(data))
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


class Server:
    """Files that have another process's name for them, written bytewise; some can be moved."""

    def __init__(self, moves):
        from fsspec.implementations.local import LocalFileSystem
        from fsspec.spec import AbstractFileSystem

        def mv(self, old, new):
            os.rename(old, new)

        def pipe_file(self, path, data):
            written.append(Path(path).name)
            Path(path).write_bytes(data[: len(data) // 2])
            if broken:
                raise OSError("the line is cut")
            Path(path).write_bytes(data)

        written, broken = [], []
        self.written, self.broken = written, broken
        own = {
            "mv": mv if moves else AbstractFileSystem.mv,
            "pipe_file": pipe_file,
            "_strip_protocol": staticmethod(lambda path: path.partition("://")[2] or path),
            "cachable": False,
        }
        self.files = type("ServerFiles", (LocalFileSystem,), own)


@pytest.mark.parametrize("moves", [True, False])
def test_remote_files_get_their_name_when_whole(comm, tmp_path, moves):
    import fsspec

    server = Server(moves)
    fsspec.register_implementation("server", server.files, clobber=True)
    url = f"server://{tmp_path}/states"
    states = Checkpoint(comm, url)
    states.save("whole")
    server.broken.append(True)
    with pytest.raises(OSError, match="cut"):
        states.save("torn")
    server.broken.clear()
    named = ["state-000000000000", "state-000000000001"]
    assert server.written == ([f"new-{name}" for name in named] if moves else named)
    assert set(names(tmp_path / "states")) == {named[0], server.written[1]}
    assert Checkpoint(comm, url).restore() == "whole"
    states.save("next")
    assert Checkpoint(comm, url).restore() == "next"


def test_urls_of_a_disk_are_disks(tmp_path):
    """Rank 0 may be on another host the next time, so every rank looks into its own."""
    for url in [f"file://{tmp_path}", f"file:{tmp_path}", f"local://{tmp_path}"]:
        store = checkpoint.find(url)
        assert (type(store), store.path, store.shared) == (checkpoint.Disk, tmp_path, False)
    assert checkpoint.find(f"file://localhost{tmp_path}").path == tmp_path


def test_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert checkpoint.find("~/job").path == tmp_path / "job"
    assert checkpoint.find("file://~/job").path == tmp_path / "job"


def test_relative_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert checkpoint.find("job").path == tmp_path / "job"
    monkeypatch.setattr(run_state, "_directory", "/where/the/driver/is")
    assert checkpoint.find("job").path == Path("/where/the/driver/is/job")
    monkeypatch.setattr(run_state, "_directory", None)
    with pytest.raises(sparkring.InvalidError, match="job is relative, and each executor has"):
        checkpoint.find("job")
    assert checkpoint.find(str(tmp_path)).path == tmp_path


@pytest.mark.parametrize("url", ["memory://job", "simplecache::memory://job"])
def test_memory_of_a_process(comm, url):
    with pytest.raises(sparkring.InvalidError, match="memory of this process, which ends"):
        Checkpoint(comm, url)


def test_one_slash(comm):
    with pytest.raises(sparkring.InvalidError, match=r"write hdfs:// for a URL, and \./hdfs:/job"):
        Checkpoint(comm, "hdfs:/job")
    assert checkpoint.find("./hdfs:/job").path.name == "job"


def test_a_later_attempt_that_finds_nothing_reports_it(comm, tmp_path, monkeypatch):
    assert Checkpoint(comm, tmp_path / "job").restore(default=1) == 1  # no warning
    monkeypatch.setattr(run_state, "_attempt", 1)
    with pytest.warns(RuntimeWarning, match=r"attempt 1 found no state in .*/job on its hosts"):
        assert Checkpoint(comm, tmp_path / "job").restore(default=1) == 1


def one_url(url):
    with open_comm() as comm:
        states = Checkpoint(comm, url)
        before = states.restore()
        states.save([1, 2])
        comm.barrier()
        assert isinstance(states._store, checkpoint.Remote)
        return before, Checkpoint(comm, url).restore(), sorted(states._store.names())


def test_fsspec(tmp_path):
    url = f"dir::file://{tmp_path}/states"
    assert run(2, one_url, url) == [(None, [1, 2], ["state-000000000000"])] * 2
    assert run(2, one_url, url)[1][0] == [1, 2]


def test_fsspec_is_missing(comm, monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(sparkring.UnsupportedError, match=r"s3://bucket/job needs .* fsspec"):
        Checkpoint(comm, "s3://bucket/job")
    for path in ["", b"bytes"]:
        with pytest.raises(sparkring.InvalidError, match="path is empty or no string"):
            Checkpoint(comm, path)
