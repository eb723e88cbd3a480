# SPDX-License-Identifier: Apache-2.0
"""Draw what scripts/bench --horovod has measured: plot_horovod.py NUMBERS.csv PICTURE.svg.

A row of panels is a number of ranks, a column a case. The dots show medians of Horovod and of
sparkring, on a logarithmic scale.
"""

import csv
import sys
from pathlib import Path

from plot import plt, save

STYLES = {  # color, marker, the side of the number
    "horovod": ("C0", "D", {"xytext": (-7, 0), "ha": "right"}),
    "sparkring": ("C3", "o", {"xytext": (7, 0), "ha": "left"}),
}
TITLES = {
    "allreduce": "allreduce of one tensor, µs\n(lower is better)",
    "tensors": "allreduce of many, µs\n(lower is better)",
    "parameters": "training, steps a second\n(higher is better)",
}


def draw_panel(axes, rows):
    """Draw the dots of one case with one number of ranks."""
    for name, (color, marker, side) in STYLES.items():
        values = [float(row[name]) for row in rows]
        axes.plot(range(len(rows)), values, marker, color=color, label=name)
        for place, value in enumerate(values):
            text = f"{value:.3g}" if value < 100 else f"{value:.0f}"
            axes.annotate(text, (place, value), textcoords="offset points", va="center", **side)
    values = [float(row[name]) for row in rows for name in STYLES]
    axes.set_yscale("log")
    axes.set_ylim(min(values) / 3, max(values) * 3)
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.set_xticks(range(len(rows)), [row["size"] for row in rows])
    axes.grid(True, axis="y", alpha=0.3)


def draw(rows):
    """Draw all panels."""
    counts = sorted({int(row["ranks"]) for row in rows})
    figure, grid = plt.subplots(
        len(counts),
        len(TITLES),
        figsize=(12, 3 * len(counts)),
        width_ratios=[4, 1.2, 2],
        squeeze=False,
        layout="constrained",
    )
    for line, count in zip(grid, counts):
        line[0].set_ylabel(f"{count} ranks")
        for axes, (case, title) in zip(line, TITLES.items()):
            here = [row for row in rows if (int(row["ranks"]), row["case"]) == (count, case)]
            draw_panel(axes, here)
            axes.set_title(title)
    for axes, case in zip(grid[-1], TITLES):
        axes.set_xlabel("size" if case == "allreduce" else case)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def main(source, picture):
    """Draw the numbers of a file."""
    with Path(source).open(newline="", encoding="utf-8") as file:
        save(draw(list(csv.DictReader(file))), picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
