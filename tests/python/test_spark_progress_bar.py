# SPDX-License-Identifier: Apache-2.0
"""Progress of ranks, on a bar, in a notebook, and in streams that cannot show all."""

from __future__ import annotations

import io
import sys
import time
import types

import pytest
import sparkring
from log_ranks import report, reports
from sparkring import _run_state as run_state
from sparkring.spark import _progress_bar as progress_bar
from sparkring.spark._progress_bar import Display


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((10**400,), "step is too large"),
        ((1, float("inf")), "total is inf: progress takes finite numbers"),
        ((float("nan"), 2), "step is nan"),
    ],
)
def test_progress_that_no_bar_can_show(given, text):
    run_state.begin(0, report)
    try:
        with pytest.raises(sparkring.InvalidError, match=text):
            run_state.progress(None, *given)
    finally:
        run_state.begin(0, None)


def test_progress_while_the_rank_ends(monkeypatch):
    """In the middle of a report of another thread."""

    class Clock:
        @staticmethod
        def monotonic():
            run_state.begin(0, None)
            return time.monotonic()

    reports.clear()
    run_state.begin(0, report)
    monkeypatch.setattr(run_state, "time", Clock)
    run_state.progress(None, 1, 1)
    assert reports == [(1, 1, {})]


@pytest.mark.parametrize("on_bar", [True, False])
def test_a_stream_that_cannot_show_all(on_bar):
    with io.TextIOWrapper(io.BytesIO(), "ascii") as stream:
        display = Display(1)
        display.stream = stream
        if on_bar:
            pytest.importorskip("tqdm")
            display.progress(0, 1, 2, {})
        display.line(0, "caf\u00e9 \udc80")
        display.close()
        stream.flush()
        assert stream.buffer.getvalue() == b"[0] caf\\xe9 \\udc80\n"


class Clock:
    """A clock that the test sets."""

    now = 1000.0

    @classmethod
    def time(cls):
        return cls.now


def test_the_bar_is_of_the_slowest_rank_and_starts_anew(monkeypatch, capsys):
    std = pytest.importorskip("tqdm.std")
    monkeypatch.setattr(std, "time", Clock.time)
    display = Display(1)
    seen = []
    for at, rank, step in [
        (0, 1, 11),
        (0, 0, 10),
        (10, 1, 40),
        (10, 0, 30),
        (11, -1, 0),
        (20, 0, 16),
    ]:
        Clock.now = 1000.0 + at
        if rank < 0:
            display.restart()
            display.progress(1, 15, 40, {"loss": 3.0})
            continue
        display.progress(rank, step, 40, {"loss": rank + 0.5})
        seen.append((display.bar.n, display.bar.format_dict["elapsed"], str(display.bar)))
    assert [n for n, *_ in seen] == [11, 10, 10, 30, 15]
    assert "?it/s" in seen[0][2] and "?it/s" in seen[1][2]
    assert "2.00it/s, loss=0.5" in seen[3][2]  # 20 steps in 10 seconds, of rank 0
    assert seen[4][1] == 9.0
    display.close()


def test_the_clock_of_the_bar_starts_before_tqdm_is_imported(monkeypatch):
    """Reports wait meanwhile, and would seem to have come at once."""
    found = pytest.importorskip("tqdm.auto").tqdm
    monkeypatch.setattr(progress_bar, "find_bar", lambda: time.sleep(0.5) or found)
    display = Display(1)
    display.progress(0, 1, 9, {})
    display.progress(0, 3, 9, {})
    assert display.bar.format_dict["elapsed"] >= 0.5
    display.close()


def test_a_notebook_has_a_line_for_each_rank(monkeypatch):
    shown = []
    place = types.SimpleNamespace(update=shown.append)
    pretty = types.ModuleType("IPython.display")
    pretty.Pretty = str
    pretty.display = lambda text, display_id: shown.append(text) or place
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", pretty)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    display = Display(1)
    display.progress(1, 3, 8, {})
    display.progress(0, 2, 8, {"loss": 0.25})
    assert shown == ["rank 1: step 3 of 8", "rank 0: step 2 of 8, loss 0.25\nrank 1: step 3 of 8"]
