# SPDX-License-Identifier: Apache-2.0
"""What the user of `sparkring.spark.run` sees: lines of the ranks, and a bar of their progress.

The bar is tqdm's, where that is installed; elsewhere there is a line from time to time.
"""

from __future__ import annotations

import math
import sys
import threading
import time
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
        self.steps: dict[int, float] = {}
        self.bar: Any = None
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
        """Show a report: the least step of the ranks, the metrics of the lowest."""
        if not self.verbose:
            return
        with self.lock:
            self.steps[rank] = step
            least, lowest = min(self.steps.values()), rank == min(self.steps)
            if not self.draw(least, total, metrics if lowest else None):
                text = self.text(least, total, metrics if lowest else {})
                now = time.monotonic()
                ended = least == total and self.told < math.inf
                if ended or now - self.told >= SELDOM:
                    self.told = math.inf if ended else now
                    print(self.writable(f"sparkring: {text}"), file=self.stream, flush=True)

    def draw(self, step: float, total: float | None, metrics: dict[str, float] | None) -> bool:
        """Draw the bar; false where there is no tqdm."""
        if self.bar is None:
            try:
                from tqdm.auto import tqdm  # type: ignore
            except ImportError:
                return False
            self.bar = tqdm(total=total, dynamic_ncols=True)
        self.bar.total = total
        self.bar.n = step
        if metrics is not None:
            self.bar.set_postfix(metrics, refresh=False)
        self.bar.refresh()
        return True

    @staticmethod
    def text(step: float, total: float | None, metrics: dict[str, float]) -> str:
        """Put a report into words."""
        words = [f"step {step:g}" + ("" if total is None else f" of {total:g}")]
        words += [f"{name} {value:.4g}" for name, value in metrics.items()]
        return ", ".join(words)

    def close(self) -> None:
        """End the bar, as it stands."""
        with self.lock:
            bar, self.bar = self.bar, None
            self.steps.clear()
            self.told = -math.inf
            if bar is not None:
                bar.close()
