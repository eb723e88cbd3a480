# SPDX-License-Identifier: Apache-2.0
"""Output of `sparkring.spark.run` for its user: lines of the ranks, and a bar of their progress.

The bar is that of tqdm, where tqdm is installed; in a notebook it is a widget, where ipywidgets is
installed, too. Without them a notebook shows a line for each rank, and a terminal prints a line
from time to time.
"""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
import warnings
from typing import Any

SELDOM = 5.0  # seconds between two lines that stand for a bar


class Display:
    """Shows lines and progress on the standard output; any thread may call it.

    Parameters
    ----------
    verbose : int
        0 for nothing, 1 for what the ranks print and report, 2 for what `run` does, too.
    """

    def __init__(self, verbose: int) -> None:
        self.verbose = verbose
        self.stream = sys.stdout  # of the cell that has called, in a notebook
        self.lock = threading.Lock()
        self.reports: dict[int, tuple[float, float | None, dict[str, float]]] = {}
        self.kind: Any = None  # of bar; False where there is none
        self.bar: Any = None
        self.late = 0.0  # seconds from the first report until there was a bar
        self.anew = False  # the clock is to start anew
        self.place: Any = None  # in a notebook, of the lines that stand for a bar
        self.told = -math.inf

    def line(self, rank: int, text: str) -> None:
        """Show a line of a rank."""
        if self.verbose:
            self.write(f"[{rank}] {text}")

    def say(self, text: str) -> None:
        """Tell what the user should know."""
        if self.verbose:
            self.write(f"sparkring: {text}")

    def detail(self, text: str) -> None:
        """Tell what only some want to know."""
        if self.verbose > 1:
            self.write(f"sparkring: {text}")

    def write(self, text: str) -> None:
        """Write a line; above the bar, if there is one."""
        with self.lock:
            if self.bar is not None:
                self.bar.write(self.writable(text), file=self.stream)
            else:
                print(self.writable(text), file=self.stream, flush=True)

    def writable(self, text: str) -> str:
        """Escape what the stream cannot encode."""
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        return text.encode(encoding, "backslashreplace").decode(encoding)

    def progress(
        self, rank: int, step: float, total: float | None, metrics: dict[str, float]
    ) -> None:
        """Show a report, if it is one of the slowest rank."""
        if not self.verbose:
            return
        with self.lock:
            self.reports[rank] = (step, total, metrics)
            slowest = min(self.reports, key=lambda rank: (self.reports[rank][0], rank))
            self.show(*self.reports[slowest])

    def show(self, step: float, total: float | None, metrics: dict[str, float]) -> None:
        """Show the report of the slowest rank: on a bar, or in words."""
        if self.kind is None:
            begin = time.monotonic()
            self.kind = find_bar() or False
            self.late = time.monotonic() - begin
        if self.kind:
            self.draw(step, total, metrics)
        elif in_notebook():
            self.list_ranks()
        else:
            self.tell(step, total, metrics)

    def draw(self, step: float, total: float | None, metrics: dict[str, float]) -> None:
        """Draw the bar. Its rate counts from the first report, and anew when a step goes back."""
        if self.bar is None:
            self.bar = self.kind(total=total, initial=step, dynamic_ncols=True)
            self.bar.start_t -= self.late
        elif self.anew or step < self.bar.n:
            self.bar.reset(total)
            self.bar.initial = step
        self.anew = False
        self.bar.total, self.bar.n = total, step
        self.bar.set_postfix(metrics, refresh=False)
        self.bar.refresh()

    def list_ranks(self) -> None:
        """Show a line for each rank, in one place of the notebook."""
        from IPython.display import Pretty, display  # type: ignore

        lines = [f"rank {rank}: {self.text(*self.reports[rank])}" for rank in sorted(self.reports)]
        text = Pretty("\n".join(lines))
        if self.place is None:
            self.place = display(text, display_id=True)
        else:
            self.place.update(text)

    def tell(self, step: float, total: float | None, metrics: dict[str, float]) -> None:
        """Print a line from time to time, and one at the end."""
        now = time.monotonic()
        ended = step == total and self.told < math.inf
        if ended or now - self.told >= SELDOM:
            self.told = math.inf if ended else now
            text = self.text(step, total, metrics)
            print(self.writable(f"sparkring: {text}"), file=self.stream, flush=True)

    @staticmethod
    def text(step: float, total: float | None, metrics: dict[str, float]) -> str:
        """Put a report into words."""
        words = [f"step {step:g}" + ("" if total is None else f" of {total:g}")]
        words += [f"{name} {value:.4g}" for name, value in metrics.items()]
        return ", ".join(words)

    def restart(self) -> None:
        """Forget the reports, as the ranks are launched again; the clock of the bar starts anew."""
        with self.lock:
            self.reports.clear()
            self.told = -math.inf
            self.anew = True

    def close(self) -> None:
        """End the bar, as it stands."""
        with self.lock:
            bar, self.bar = self.bar, None
            if bar is not None:
                bar.close()


def find_bar() -> Any:
    """Find the bar of tqdm for a terminal or a notebook; None where there is none for it."""
    with contextlib.suppress(ImportError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a notebook without ipywidgets is told of them
        if in_notebook():
            import ipywidgets  # type: ignore  # noqa: F401 (tqdm's bar is one)
        from tqdm.auto import tqdm  # type: ignore

        return tqdm
    return None


def in_notebook() -> bool:
    """Whether the standard output is that of a notebook's cell."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None
