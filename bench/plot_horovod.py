# SPDX-License-Identifier: Apache-2.0
"""Draw what scripts/bench --horovod has measured: plot_horovod.py NUMBERS.csv PICTURE.svg NOTE.

A column of panels is a number of ranks. The upper panels show times, the lower panels steps a
second, as dots on a logarithmic axis. The note says when and where the numbers were measured.
"""

import csv
import sys
from pathlib import Path

from plot import plt, save

STYLES = {  # label, color, marker
    "horovod": ("Horovod: Gloo over TCP, cycle of 1 ms (default)", "C0", "D"),
    "horovod_short": ("Horovod: Gloo over TCP, cycle of 0.1 ms", "C9", "D"),
    "sparkring_tcp": ("sparkring over TCP", "C1", "o"),
    "sparkring": ("sparkring in shared memory (default on one host)", "C3", "o"),
}
PANELS = {  # unit: title and axis
    "µs": ("time of an operation", "µs, logarithmic; lower is better"),
    "steps/s": ("training", "steps a second, logarithmic; higher is better"),
}
NAMES = {
    "allreduce": "allreduce of {}",
    "tensors": "allreduce of {}",
    "parameters": "{} parameters",
}


def draw_panel(axes, rows):
    """Draw a line of dots for each case, the first on top."""
    for name, (label, color, marker) in STYLES.items():
        values = [float(row[name]) for row in rows]
        axes.plot(values, range(len(rows)), marker, color=color, label=label, alpha=0.85)
    axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), [NAMES[row["case"]].format(row["size"]) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(True, alpha=0.3)


def draw(rows, note):
    """Draw all panels."""
    counts = sorted({int(row["ranks"]) for row in rows})
    figure, grid = plt.subplots(
        len(PANELS),
        len(counts),
        figsize=(4.2 * max(len(counts), 2), 4.8),
        height_ratios=[5, 2],
        sharex="row",
        sharey="row",
        squeeze=False,
        layout="constrained",
    )
    for line, (unit, (title, axis)) in zip(grid, PANELS.items()):
        for axes, count in zip(line, counts):
            draw_panel(
                axes, [each for each in rows if (int(each["ranks"]), each["unit"]) == (count, unit)]
            )
            axes.set_title(f"{title}, {count} ranks")
            axes.set_xlabel(axis)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize="small")
    figure.suptitle(note, fontsize="small", color="0.3")
    return figure


def main(source, picture, note):
    """Draw the numbers of a file."""
    with Path(source).open(newline="", encoding="utf-8") as file:
        save(draw(list(csv.DictReader(file)), note), picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
