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
    buffers: str = "-"  # of our C driver in shared memory: private, result, arena (driver.c)


def read_ranks(folder, library, link, ranks):
    """Return {case: this round's median in microseconds} from the files of all ranks."""
    files = [(Path(folder) / str(rank)).read_text().splitlines() for rank in range(ranks)]
    medians = {}
    for lines in zip(*files):
        rows = [line.split() for line in lines]
        name, buffers, size, dtype = rows[0][:4]
        slowest = [max(map(float, sample)) for sample in zip(*(row[4:] for row in rows))]
        medians[Case(library, name, link, ranks, int(size), dtype, buffers)] = median(slowest)
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
            known = {name: value for name, value in case._asdict().items() if value != "-"}
            lines.append(json.dumps({**known, **more}))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))


def read(path):
    """Return {case: microseconds} of a results file."""
    rows = map(json.loads, Path(path).read_text().splitlines())
    return {
        Case(**{name: row[name] for name in Case._fields if name in row}): row["us_median"]
        for row in rows
    }


def human_bytes(count):
    """Format 2097152 as 2 MiB."""
    for unit in ("B", "KiB"):
        if count < 1024:
            return f"{count} {unit}"
        count //= 1024
    return f"{count} MiB"


KINDS = ("-", "private", "result", "arena")


def table(times, peers):
    """Yield the lines of the table: the time of ours, and peer/ours for every peer.

    `peers` is {ours: [peers]}. A case that ours has not got shows the peers' times instead. Where
    ours was measured with several kinds of buffers, the time is that of the first kind, and a peer
    has one column for each; the floor (memcpy) is below the last kind alone.
    """
    for ours, names in peers.items():
        for link in sorted({c.link for c in times if c.library in (ours, *names)}):
            group = (ours, *names)
            here = {c: t for c, t in times.items() if c.link == link and c.library in group}
            has = {(c.library, c.buffers) for c in here}
            kinds = [kind for kind in KINDS if (ours, kind) in has] or ["-"]
            shown = {name: kinds[-1:] if name == "memcpy" else kinds for name in names}
            columns = [(n, kind) for n in names if (n, "-") in has for kind in shown[n]]
            yield _head(ours, kinds, columns)
            places = {c._replace(library="", buffers="-") for c in here}
            for place in sorted(places, key=lambda c: (c.ranks, c.collective, c.bytes)):
                yield _row(place, here, ours, kinds[0], columns)


def _head(ours, kinds, columns):
    labels = [f"{name}/{'ours' if kind == '-' else kind}" for name, kind in columns]
    time = f"{ours}{'' if kinds[0] == '-' else ' ' + kinds[0]}, us"
    head = f"\n{'link':<7}{'n':>2}  {'collective':<10}{'bytes':>9}  {time:>22}"
    return head + "".join(f"{label:>17}" for label in labels)


def _row(place, times, ours, first, columns):
    def mine(kind):
        return times.get(place._replace(library=ours, buffers=kind))

    row = f"{place.link:<7}{place.ranks:>2}  {place.collective:<10}{human_bytes(place.bytes):>9}"
    row += f"  {mine(first):>22.1f}" if mine(first) else f"  {'-':>22}"
    theirs = ((times.get(place._replace(library=name)), mine(kind)) for name, kind in columns)
    return row + "".join(f"{_ratio(*pair):>17}" for pair in theirs)


def _ratio(time, mine):
    if time is None:
        return "-"
    return f"{time / mine:.2f}" if mine else f"({time:.1f} us)"
