# SPDX-License-Identifier: Apache-2.0
"""Draw a results file: time over bytes, both logarithmic, one line a library.

plot.py RESULTS.json [PICTURE.svg [COLLECTIVE]]

A row of panels is a link with a number of ranks, a column a collective; of a single collective a
row is a link and a column a number of ranks. What is written in another language than C is drawn
dashed (Python) or dotted (R), in the colour of the library underneath. Of our C driver in shared
memory there are two lines: private buffers, and all buffers in the memory that the ranks share.
The numbers of a single collective go into a .csv beside its picture. For the vignette:

plot.py RESULTS.json vignettes/performance.svg allreduce
"""

import csv
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import results

STYLES = {
    "sparkring": ("C3", "-"),
    "sparkring, shared buffers": ("C1", "-"),
    "encrypted": ("C4", "-"),
    "openmpi": ("C0", "-"),
    "gloo": ("C2", "-"),
    "sparkring-python": ("C3", "--"),
    "mpi4py": ("C0", "--"),
    "torch-gloo": ("C2", "--"),
    "sparkring-r": ("C3", ":"),
    "rmpi": ("C0", ":"),
    "memcpy": ("0.6", "-"),
}
NAMES = {"-": "", "private": "", "arena": ", shared buffers"}
ORDER = ["allreduce", "broadcast", "allgather", "alltoall"]


def draw_panel(axes, times, panel):
    """Draw all libraries of one panel: a link, a number of ranks and a collective."""
    lines = {}
    for case, time in times.items():
        if (case.link, case.ranks, case.collective) == panel and case.buffers in NAMES:
            lines.setdefault(case.library + NAMES[case.buffers], []).append((case.bytes, time))
    for name, (color, line) in STYLES.items():
        if name in lines:
            points = zip(*sorted(lines[name]))
            axes.loglog(*points, color=color, linestyle=line, marker=".", label=name)
    axes.set_xscale("log", base=2)
    axes.grid(True, alpha=0.3)


def layout(times):
    """Return the rows of panels, each with its title."""
    places = sorted({(case.link, case.ranks) for case in times})
    shown = sorted({case.collective for case in times}, key=ORDER.index)
    if len(shown) > 1:
        return [
            [((*place, name), f"{name}, {place[1]} ranks") for name in shown] for place in places
        ]
    ranks = sorted({place[1] for place in places})
    links = sorted({place[0] for place in places})
    return [[((link, n, *shown), f"{shown[0]}, {n} ranks") for n in ranks] for link in links]


def draw(times):
    """Draw all panels."""
    rows = layout(times)
    figure, grid = plt.subplots(
        len(rows),
        len(rows[0]),
        figsize=(4 * len(rows[0]), 3 * len(rows)),
        sharex=True,
        squeeze=False,
        layout="constrained",
    )
    named = {}
    for axes_row, row in zip(grid, rows):
        axes_row[0].set_ylabel(f"{row[0][0][0]}, µs a call")
        for axes, (panel, title) in zip(axes_row, row):
            draw_panel(axes, times, panel)
            axes.set_title(title)
            named.update({line.get_label(): line for line in axes.get_lines()})
    for axes in grid[-1]:
        axes.set_xlabel("bytes")
    figure.legend(named.values(), named, loc="outside lower center", ncols=min(4, len(named)))
    return figure


def write_numbers(times, path):
    """Write what is drawn, one line a case."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((*results.Case._fields, "us"))
        writer.writerows((*case, f"{time:.3f}") for case, time in sorted(times.items()))


def save(figure, picture):
    """Write a picture, the same bytes for the same numbers."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "sparkring"})
    figure.savefig(picture, dpi=120, metadata={"Date": None})
    print(f"written to {picture}")


def main(source, picture=None, collective=None):
    """Write the picture, beside the results unless given another path."""
    picture = Path(picture) if picture else Path(source).with_suffix(".svg")
    times = results.read(source)
    if collective:
        times = {case: time for case, time in times.items() if case.collective == collective}
        write_numbers(times, picture.with_suffix(".csv"))
    save(draw(times), picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
