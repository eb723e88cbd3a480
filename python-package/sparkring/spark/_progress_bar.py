# SPDX-License-Identifier: Apache-2.0
"""Output of `sparkring.spark.run` for its user: lines of the ranks, and a bar of their progress.

The bar is a bar of tqdm, where tqdm is installed. In a notebook the bar is a widget, where
ipywidgets is installed, too. Without tqdm a notebook shows a line for each rank, and a terminal
prints a line from time to time.
"""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
import warnings
from typing import Any

PRINT_INTERVAL = 5.0  # seconds between two lines without a bar


class Display:
    """Shows lines and progress on the standard output; any thread may call it.

    Parameters
    ----------
    verbose : int
        0 shows nothing, 1 the output and the reports of the ranks, 2 also the steps of `run`.
    """

    def __init__(self, verbose: int) -> None:
        self.verbose = verbose
        self.stream = sys.stdout  # in a notebook, of the calling cell
        self.lock = threading.Lock()
        self.reports: dict[int, tuple[float, float | None, dict[str, float]]] = {}
        self.kind: Any = None  # the class of the bar; False without a bar
        self.bar: Any = None
        self.late = 0.0  # seconds from the first report to the bar
        self.restarted = False  # the clock must be reset
        self.cell_output: Any = None  # in a notebook, of the lines without a bar
        self.printed = -math.inf

    def line(self, rank: int, text: str) -> None:
        """Show a line of a rank."""
        if self.verbose:
            self.write(f"[{rank}] {text}")

    def notify(self, text: str) -> None:
        """Show a message for every user."""
        if self.verbose:
            self.write(f"sparkring: {text}")

    def detail(self, text: str) -> None:
        """Show a message for ``verbose=2``."""
        if self.verbose > 1:
            self.write(f"sparkring: {text}")

    def write(self, text: str) -> None:
        """Write a line, above the bar if there is a bar."""
        with self.lock:
            if self.bar is not None:
                self.bar.write(self.writable(text), file=self.stream)
            else:
                print(self.writable(text), file=self.stream, flush=True)

    def writable(self, text: str) -> str:
        """Escape characters that the stream cannot encode."""
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        return text.encode(encoding, "backslashreplace").decode(encoding)

    def progress(
        self, rank: int, step: float, total: float | None, metrics: dict[str, float]
    ) -> None:
        """Show a report, if it changes the slowest rank."""
        if not self.verbose:
            return
        with self.lock:
            self.reports[rank] = (step, total, metrics)
            slowest = min(self.reports, key=lambda rank: (self.reports[rank][0], rank))
            self.show(*self.reports[slowest])

    def show(self, step: float, total: float | None, metrics: dict[str, float]) -> None:
        """Show the report of the slowest rank, on a bar or in words."""
        if self.kind is None:
            begin = time.monotonic()
            self.kind = find_bar() or False
            self.late = time.monotonic() - begin
        if self.kind:
            self.draw(step, total, metrics)
        elif in_notebook():
            self.list_ranks()
        else:
            self.print_report(step, total, metrics)

    def draw(self, step: float, total: float | None, metrics: dict[str, float]) -> None:
        """Draw the bar. Its rate counts from the first report, or from a step that goes back."""
        if self.bar is None:
            self.bar = self.kind(total=total, initial=step, dynamic_ncols=True)
            self.bar.start_t -= self.late
        elif self.restarted or step < self.bar.n:
            self.bar.reset(total)
            self.bar.initial = step
        self.restarted = False
        self.bar.total, self.bar.n = total, step
        self.bar.set_postfix(metrics, refresh=False)
        self.bar.refresh()

    def list_ranks(self) -> None:
        """Show a line for each rank, in one place of the notebook."""
        from IPython.display import Pretty, display  # type: ignore

        lines = [f"rank {rank}: {self.text(*self.reports[rank])}" for rank in sorted(self.reports)]
        text = Pretty("\n".join(lines))
        if self.cell_output is None:
            self.cell_output = display(text, display_id=True)
        else:
            self.cell_output.update(text)

    def print_report(self, step: float, total: float | None, metrics: dict[str, float]) -> None:
        """Print a line from time to time, and one at the end."""
        now = time.monotonic()
        ended = step == total and self.printed < math.inf
        if ended or now - self.printed >= PRINT_INTERVAL:
            self.printed = math.inf if ended else now
            text = self.text(step, total, metrics)
            print(self.writable(f"sparkring: {text}"), file=self.stream, flush=True)

    @staticmethod
    def text(step: float, total: float | None, metrics: dict[str, float]) -> str:
        """Put a report into words."""
        words = [f"step {step:g}" + ("" if total is None else f" of {total:g}")]
        words += [f"{name} {value:.4g}" for name, value in metrics.items()]
        return ", ".join(words)

    def restart(self) -> None:
        """Drop the reports for a new launch of the ranks, and reset the clock of the bar."""
        with self.lock:
            self.reports.clear()
            self.printed = -math.inf
            self.restarted = True

    def close(self) -> None:
        """End the bar in its current state."""
        with self.lock:
            bar, self.bar = self.bar, None
            if bar is not None:
                bar.close()


def find_bar() -> Any:
    """Find the bar of tqdm for a terminal or a notebook; None without one."""
    with contextlib.suppress(ImportError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tqdm warns in a notebook without ipywidgets
        if in_notebook():
            import ipywidgets  # type: ignore  # noqa: F401 (tqdm's bar is one)
        from tqdm.auto import tqdm  # type: ignore

        return tqdm
    return None


def in_notebook() -> bool:
    """Return whether the standard output is a notebook's cell."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None
