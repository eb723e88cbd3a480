# SPDX-License-Identifier: Apache-2.0
"""From the ranks' samples to medians, from medians to lines of JSON and to a table of ratios.

A sample counts as its slowest rank. A case's time is the median over the rounds of each round's
median.
"""

import json
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import NamedTuple


class Case(NamedTuple):
    """What one number is about."""

    library: str
    collective: str
    link: str
    ranks: int
    bytes: int
    dtype: str


def read_ranks(folder, library, link, ranks):
    """Return {case: this round's median in microseconds} from the files of all ranks."""
    files = [(Path(folder) / str(rank)).read_text().splitlines() for rank in range(ranks)]
    medians = {}
    for lines in zip(*files):
        rows = [line.split() for line in lines]
        name, size, dtype = rows[0][:3]
        slowest = [max(map(float, sample)) for sample in zip(*(row[3:] for row in rows))]
        medians[Case(library, name, link, ranks, int(size), dtype)] = median(slowest)
    return medians


def busbw(case, microseconds):
    """Bytes over the busiest link per time, in GB/s, as nccl-tests defines it."""
    share = (case.ranks - 1) / case.ranks
    factor = {"allreduce": 2 * share, "broadcast": 1}.get(case.collective, share)
    return factor * case.bytes / microseconds / 1e3


class Results:
    """The rounds of one session."""

    def __init__(self):
        self._rounds = defaultdict(list)

    def add(self, medians):
        """Take in one run's medians."""
        for case, microseconds in medians.items():
            self._rounds[case].append(microseconds)

    def medians(self):
        """Return {case: microseconds} over all rounds."""
        return {case: median(rounds) for case, rounds in self._rounds.items()}

    def write(self, path):
        """Write one JSON object a line."""
        lines = []
        for case, time in self.medians().items():
            more = {"us_median": round(time, 3), "busbw_gbs": round(busbw(case, time), 4)}
            lines.append(json.dumps({**case._asdict(), **more}))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))


def read(path):
    """Return {case: microseconds} of a results file."""
    rows = map(json.loads, Path(path).read_text().splitlines())
    return {Case(*(row[field] for field in Case._fields)): row["us_median"] for row in rows}


def human_bytes(count):
    """Format 2097152 as 2 MiB."""
    for unit in ("B", "KiB"):
        if count < 1024:
            return f"{count} {unit}"
        count //= 1024
    return f"{count} MiB"


def table(times, peers):
    """Yield the lines of the table: the time of ours, and peer/ours for every peer.

    `peers` is {ours: [peers]}. A case that ours has not got shows the peers' times instead.
    """
    for ours, names in peers.items():
        cases = sorted({c._replace(library="") for c in times if c.library in (ours, *names)})
        if not cases:
            continue
        head = f"{'link':<7}{'n':>2}  {'collective':<10}{'bytes':>9}"
        yield f"\n{head}  {ours + ', us':>20}" + "".join(f"{name + '/ours':>18}" for name in names)
        for case in sorted(cases, key=lambda c: (c.link, c.ranks, c.collective, c.bytes)):
            yield _row(case, times, ours, names)


def _row(case, times, ours, names):
    mine = times.get(case._replace(library=ours))
    row = f"{case.link:<7}{case.ranks:>2}  {case.collective:<10}{human_bytes(case.bytes):>9}"
    row += f"  {mine:>20.1f}" if mine else f"  {'-':>20}"
    return row + "".join(f"{_ratio(times.get(case._replace(library=n)), mine):>18}" for n in names)


def _ratio(time, mine):
    if time is None:
        return "-"
    return f"{time / mine:.2f}" if mine else f"({time:.1f} us)"
