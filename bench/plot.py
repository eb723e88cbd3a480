# SPDX-License-Identifier: Apache-2.0
"""Draw a results file: time over bytes, both logarithmic, one line a library.

plot.py RESULTS.json [PICTURE.svg]

A row of panels is a link with a number of ranks, a column a collective. What is written in another
language than C is drawn dashed (Python) or dotted (R), in the colour of the library underneath.
"""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import results

STYLES = {
    "sparkring": ("C3", "-"),
    "openmpi": ("C0", "-"),
    "gloo": ("C2", "-"),
    "sparkring-python": ("C3", "--"),
    "mpi4py": ("C0", "--"),
    "torch-gloo": ("C2", "--"),
    "sparkring-r": ("C3", ":"),
    "rmpi": ("C0", ":"),
}
ORDER = ["allreduce", "broadcast", "allgather", "alltoall"]


def draw_panel(axes, times, row, collective):
    """Draw all libraries of one panel."""
    for library, (color, line) in STYLES.items():
        points = sorted(
            (case.bytes, time)
            for case, time in times.items()
            if (case.library, case.link, case.ranks, case.collective) == (library, *row, collective)
        )
        if points:
            axes.loglog(*zip(*points), color=color, linestyle=line, marker=".", label=library)
    axes.set_xscale("log", base=2)
    axes.grid(True, alpha=0.3)


def draw(times):
    """Draw all panels."""
    rows = sorted({(case.link, case.ranks) for case in times})
    columns = sorted({case.collective for case in times}, key=ORDER.index)
    figure, grid = plt.subplots(
        len(rows),
        len(columns),
        figsize=(4 * len(columns), 3 * len(rows)),
        sharex=True,
        squeeze=False,
        layout="constrained",
    )
    named = {}
    for axes_row, row in zip(grid, rows):
        axes_row[0].set_ylabel(f"{row[0]}, {row[1]} ranks\nµs a call")
        for axes, collective in zip(axes_row, columns):
            draw_panel(axes, times, row, collective)
            named.update({line.get_label(): line for line in axes.get_lines()})
    for axes, collective in zip(grid[0], columns):
        axes.set_title(collective)
    for axes in grid[-1]:
        axes.set_xlabel("bytes")
    figure.legend(named.values(), named, loc="outside lower center", ncols=len(named))
    return figure


def main(source, picture=None):
    """Write the picture, beside the results unless told otherwise."""
    picture = picture or Path(source).with_suffix(".svg")
    draw(results.read(source)).savefig(picture, dpi=120)
    print(f"written to {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
