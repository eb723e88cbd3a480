# SPDX-License-Identifier: Apache-2.0
"""Timelines: files of ranks, one trace of them, and a picture."""

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import ranks
import sparkring
from sparkring._trace import command, merge, picture
from sparkring.spark import run

CALLS = 20
SVG = "{http://www.w3.org/2000/svg}"


def files(directory):
    """Return the events of the files of ranks, each of which is strictly valid JSON."""
    return [json.loads(path.read_text()) for path in sorted(Path(directory).glob("rank-*.json"))]


def calls(events, name):
    """Return the calls of a collective. A call inside another one has the number 0."""
    named = (event for event in events if event["name"] == name and event.get("cat") == "call")
    return [event for event in named if event["args"]["call"] > 0]


def record(path):
    """Record calls, and one that is started."""
    with ranks.open_comm() as comm:
        comm.allreduce(1.0)
        comm.start_timeline(path)
        for _ in range(CALLS):
            comm.barrier()
        comm.broadcast_start(np.ones(1000)).wait()
        comm.stop_timeline()
        comm.reduce(1.0)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Record the timelines of three ranks."""
    path = tmp_path_factory.mktemp("timeline") / "made" / "here"
    ranks.run(3, record, str(path))
    return path


def test_files_have_the_calls_between_start_and_stop(recorded):
    for events in files(recorded):
        assert len(calls(events, "barrier")) == CALLS
        (broadcast,) = calls(events, "broadcast")
        assert broadcast["args"]["bytes"] == 8000
        assert not calls(events, "reduce")
        assert [event["ph"] for event in events if event["name"] == "QUEUE"] == ["b", "e"]


def test_clocks_of_a_host_agree(recorded):
    """No rank leaves a barrier before the last one has entered it."""
    everyone = [calls(events, "barrier") for events in files(recorded)]
    skew = [
        max(event["ts"] for event in same) - min(event["ts"] + event["dur"] for event in same)
        for same in zip(*everyone)
    ]
    assert max(skew) < 100
    spread = [
        max(event["ts"] + event["dur"] for event in same)
        - min(event["ts"] + event["dur"] for event in same)
        for same in zip(*everyone)
    ]
    assert min(spread) < 100  # of the ends, without a pause of the machine between them


def test_merge(recorded):
    events = merge.read(recorded)
    assert list(merge.ranks(events)) == [0, 1, 2]
    assert merge.ranks(events)[2]["name"] == "rank 2 (127.0.0.1)"
    assert len(events) == sum(map(len, files(recorded)))
    assert command.main([str(recorded)]) == 0
    assert json.loads((recorded / "timeline.json").read_text()) == events


def test_merge_takes_the_last_run(recorded, tmp_path):
    for file in merge.files(recorded):
        earlier = file.name.replace(file.stem[-16:], "0" * 16)
        (tmp_path / earlier).write_text(file.read_text())
        os.utime(tmp_path / earlier, (1, 1))
        (tmp_path / file.name).write_text(file.read_text())
    assert merge.files(tmp_path) == [tmp_path / file.name for file in merge.files(recorded)]


def test_merge_reads_a_file_that_was_cut(recorded, tmp_path):
    text = merge.files(recorded)[0].read_text()
    cut = tmp_path / "cut.json"
    cut.write_text(text[: len(text) // 2])
    assert merge.read(cut) == json.loads(text)[: len(merge.read(cut))]
    assert len(merge.read(cut)) > 3


def test_picture(recorded, tmp_path):
    out = tmp_path / "out.svg"
    assert command.main([str(recorded), "-o", str(out)]) == 0
    root = ElementTree.parse(out).getroot()
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert [f"rank {rank}" in texts for rank in range(4)] == [True, True, True, False]
    assert "barrier" in texts
    titles = [element.text or "" for element in root.iter(f"{SVG}title")]
    assert any("rank 1: broadcast, call " in title and "7.81 KiB" in title for title in titles)


def test_picture_of_a_part_and_of_many_events():
    def call(rank, begin, name="allreduce", **about):
        event = {"name": name, "cat": "call", "ph": "X", "pid": rank, "tid": 0, "args": about}
        return {**event, "ts": begin, "dur": 0.5}

    events = [call(rank, begin) for rank in range(64) for begin in range(1000)]
    assert len(picture.draw(events)) < 16_000_000
    few = picture.draw([*events[:1000], call(0, 1e7, "gather")])
    assert "1000 of them" in few
    assert "gather" not in picture.draw([*events, call(0, 1e7, "gather")], 0, 1)
    assert "not finished" in picture.draw([call(0, 0, unfinished=True)])
    with pytest.raises(merge.TraceError, match="no calls from 5000 to 6000 ms"):
        picture.draw(events, 5000, 6000)


def test_command_reports_what_is_no_trace(tmp_path, capsys):
    (tmp_path / "odd.json").write_text("{}")
    for source in (tmp_path, tmp_path / "odd.json", tmp_path / "none.json"):
        assert command.main([str(source)]) == 1
        assert "sparkring timeline: " in capsys.readouterr().err


def test_command_refuses_other_kinds(recorded, tmp_path, capsys):
    for name in ("out.png", "out"):
        assert command.main([str(recorded), "-o", str(tmp_path / name)]) == 1
        assert "end its name in .json or .svg" in capsys.readouterr().err
        assert not (tmp_path / name).exists()


def work(comm):
    comm.allreduce(1.0)


def test_launcher_option(tmp_path):
    script = tmp_path / "job.py"
    script.write_text("import sparkring\nwith sparkring.init() as comm: comm.barrier()\n")
    out = tmp_path / "out"
    done = ranks.launch(2, "--timeline", "out", sys.executable, str(script), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [len(calls(events, "barrier")) for events in files(out)] == [1, 1]
    asked = [sys.executable, "-m", "sparkring", "timeline", str(out), "-o", str(out / "a.svg")]
    subprocess.run(asked, check=True, capture_output=True, timeout=60)
    ElementTree.parse(out / "a.svg")


def test_run_merges(tmp_path):
    run(work, num_proc=-2, verbose=0, timeline=tmp_path / "out")
    assert list(merge.ranks(merge.read(tmp_path / "out" / "timeline.json"))) == [0, 1]


def start_twice(path):
    """Fail to start on one rank, then start twice; the communicator stays usable."""
    with ranks.open_comm() as comm:
        bad = os.path.join(path, "file", "in") if comm.rank else path
        with pytest.raises((OSError, sparkring.InvalidError), match="Not a directory"):
            comm.start_timeline(bad)
        comm.stop_timeline()
        comm.start_timeline(path)
        with pytest.raises(sparkring.InvalidError, match="there is a timeline already"):
            comm.start_timeline(path)
        comm.stop_timeline()
        comm.stop_timeline()
        return comm.allreduce(1.0)


def test_errors(tmp_path):
    (tmp_path / "file").touch()
    assert ranks.run(2, start_twice, str(tmp_path)) == [2.0, 2.0]


KILLED = f"""
import os, signal, time, sparkring
with sparkring.init() as comm:
    for _ in range({CALLS}):
        comm.barrier()
    time.sleep(0.3)
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.barrier()
"""


def test_a_killed_rank_leaves_its_calls(tmp_path):
    done = ranks.launch(2, "--timeline", str(tmp_path), sys.executable, "-c", KILLED)
    assert done.returncode == 128 + signal.SIGKILL
    counts = [len(calls(events, "barrier")) for events in files(tmp_path)]
    assert len(counts) == 2
    assert min(counts) >= CALLS
