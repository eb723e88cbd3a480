# SPDX-License-Identifier: Apache-2.0
"""Draw a results file: time over bytes, both logarithmic, one line a library.

plot.py RESULTS.json [PICTURE.svg [COLLECTIVE [NOTE]]]

A row of panels is a link with a number of ranks, a column a collective; of a single collective a
row is a link and a column a number of ranks. What is written in another language than C is drawn
dashed (Python) or dotted (R), in the colour of the library underneath. Of our C driver in shared
memory there are two lines: private buffers, and all buffers in the memory that the ranks share.
The numbers of a single collective go into a .csv beside its picture. The note, above the picture,
says when and where they were measured. scripts/bench shows the command for the vignette.
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
LABELS = {  # of the legend
    "openmpi": "Open MPI",
    "gloo": "Gloo",
    "sparkring-python": "sparkring in Python",
    "mpi4py": "mpi4py (Open MPI)",
    "torch-gloo": "Gloo in PyTorch",
    "sparkring-r": "sparkring in R",
    "rmpi": "Rmpi (Open MPI)",
    "memcpy": "two copies past the caches",
}
TICKS = {2**3: "8 B", 2**9: "512 B", 2**15: "32 KiB", 2**21: "2 MiB", 2**26: "64 MiB"}
LINKS = {"shm": "shared memory", "tcp": "TCP over loopback"}
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
            label = LABELS.get(name, name)
            axes.loglog(*points, color=color, linestyle=line, marker=".", label=label)
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(TICKS), TICKS.values())
    axes.minorticks_off()
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


def draw(times, note=""):
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
        link = row[0][0][0]
        axes_row[0].set_ylabel(
            f"{LINKS.get(link, link)}\nµs a call, logarithmic; lower is better", fontsize="small"
        )
        for axes, (panel, title) in zip(axes_row, row):
            draw_panel(axes, times, panel)
            axes.set_title(title)
            named.update({line.get_label(): line for line in axes.get_lines()})
    for axes in grid[-1]:
        axes.set_xlabel("bytes of a rank, logarithmic")
    figure.legend(named.values(), named, loc="outside lower center", ncols=min(3, len(named)))
    figure.suptitle(note, fontsize="small", color="0.3")
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


def main(source, picture=None, collective=None, note=""):
    """Write the picture, beside the results unless given another path."""
    picture = Path(picture) if picture else Path(source).with_suffix(".svg")
    times = results.read(source)
    if collective:
        times = {case: time for case, time in times.items() if case.collective == collective}
        write_numbers(times, picture.with_suffix(".csv"))
    save(draw(times, note), picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
