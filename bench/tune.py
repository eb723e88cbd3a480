# SPDX-License-Identifier: Apache-2.0
"""Measures every algorithm of ours, fits the model of cost.h and writes cost_table.h (core/tuner).

Each algorithm is forced by a rule and runs over loopback TCP with several numbers of ranks and
bytes. In a round all of them run, every other round backwards; a case counts as the median of its
best round, because what other programs take is not the algorithm's. The latency is that of two
ranks; the other numbers of the tier are fitted by least squares on the logarithm of the time, then
for each algorithm how far it is from them, and that is varied as long as choices get better.
Shared memory and the network keep the numbers below: what a network costs cannot be measured on one
machine whose ranks share the processors.
scripts/bench --tune calls this; the times go to build/bench/tune.json, and
    bench/tune.py --fit build/bench/tune.json
fits them again.
"""

import argparse
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import libraries
import numpy
from job import run_job
from network import Network
from other_load import OtherLoad
from results import human_bytes

TABLE = libraries.ROOT / "core" / "cost_table.h"
TIMES = libraries.BUILD / "tune.json"
EFFORT = libraries.BUILD / "drivers" / "effort"

# Nanoseconds: latency, message, busy; picoseconds a byte: path, shared, reduce (core/tuner/cost.h).
SHM = (400, 50, 30, 30, 60, 60)
# 10 Gbit/s Ethernet: 20 us from process to process, 1.25 GB/s, 1.5 us of the processor a message.
NETWORK = (20000, 1500, 0, 800, 0, 100)
# With as many bytes a ring is the faster one: halving and Bruck's algorithm wait between rounds,
# and what all ranks send one rank at once meets at its port.
NETWORK_ROWS = {
    ("allgather", "bruck"): (100, 110),
    ("allreduce", "halving"): (100, 110),
    ("reduce_scatter", "direct"): (100, 110),
}

LEAST, MOST = 20, 500  # percent that an algorithm may be away from its tier
STEPS = (0.7, 0.85, 0.95, 1.05, 1.2, 1.4)  # in which percentages are varied
FAITH = 0.3  # what an error of the prediction counts against a wrong choice
LOSS = 0.1  # from which on a wrong choice is worth a line


@dataclass(frozen=True)
class Forced:
    """Our driver with overrides; for the rest a library as run_job knows it."""

    library: libraries.Library
    overrides: str

    @property
    def name(self):
        """Name the library."""
        return self.library.name

    def commands(self, network, link, folder):
        """Give the (words, environment) of every process."""
        more = {"SPARKRING_ALGORITHM": self.overrides}
        commands = self.library.commands(network, link, folder)
        return [(words, {**environment, **more}) for words, environment in commands]


def show(text):
    """Tell how it goes; the report alone goes to standard output."""
    print(f"tune: {text}", file=sys.stderr, flush=True)


def effort(*words):
    """Run the program that knows the algorithms; return the words of its lines."""
    done = subprocess.run([EFFORT, *map(str, words)], check=True, capture_output=True, text=True)
    return [line.split() for line in done.stdout.splitlines()]


def algorithms():
    """Return {collective: its algorithms}, of those that the driver runs and that have a choice."""
    found = {}
    for collective, algorithm in effort():
        found.setdefault(collective, []).append(algorithm)
    chosen = {name: names for name, names in found.items() if len(names) > 1}
    return {name: names for name, names in chosen.items() if not name.endswith("v")}


# ---- measuring -----------------------------------------------------------------------------------


def passes():
    """Yield {collective: algorithm}, so that each algorithm is in one of them."""
    known = algorithms()
    for number in range(max(map(len, known.values()))):
        yield {name: names[number] for name, names in known.items() if number < len(names)}


def measure(options):
    """Return {(collective, algorithm, ranks, bytes): microseconds}."""
    rounds = {}
    library = next(each for each in libraries.LIBRARIES if each.name == "sparkring")
    forced = list(itertools.product(options.ranks, passes()))
    with tempfile.TemporaryDirectory(prefix="sparkring-tune-") as scratch:
        for number in range(options.rounds):
            busiest = 0
            for ranks, names in forced[::-1] if number % 2 else forced:
                options.collective = list(names)
                overrides = ",".join(":".join(pair) for pair in names.items())
                folder = Path(scratch) / "job"
                with Network("tcp", ranks) as network, OtherLoad() as other:
                    driver = Forced(library, overrides)
                    medians = run_job(driver, "tcp", network, options, folder)
                shutil.rmtree(folder)
                for case, time in medians.items():
                    key = case.collective, names[case.collective], ranks, case.bytes
                    rounds.setdefault(key, []).append(time)
                busiest = max(busiest, other.share)
            show(f"round {number + 1} of {options.rounds}: others used up to {busiest:.0%}")
    return {key: min(times) for key, times in rounds.items()}


# ---- fitting -------------------------------------------------------------------------------------


def efforts(times):
    """Return {case: its six numbers of core/tuner/cost.h}, rounds first."""
    asked = sorted({(name, ranks, size) for name, _, ranks, size in times})
    rows = effort(*itertools.chain.from_iterable(asked))
    return {(r[0], r[1], int(r[2]), int(r[3])): [float(x) for x in r[4:]] for r in rows}


def least_squares(features, times, known=0.0):
    """Solve for non-negative factors with the least squared error of the logarithm.

    That error is the relative one, measured against the geometric mean of time and prediction,
    which is found by iteration; each solution is the best subset of the factors. `known` is what is
    already known of the times.
    """
    features, times = numpy.array(features), numpy.array(times)
    predicted, solution = times, None
    for _ in range(10):
        scale = 1 / numpy.sqrt(predicted * times)
        solution = non_negative(features * scale[:, None], (times - known) * scale)
        predicted = numpy.maximum(features @ solution + known, times / 100)
    return solution


def non_negative(matrix, target):
    """Solve a small least squares problem with non-negative factors, by all subsets of them."""
    width = matrix.shape[1]
    best, solution = numpy.inf, numpy.zeros(width)
    for number in range(1, width + 1):
        for subset in map(list, itertools.combinations(range(width), number)):
            factors = numpy.linalg.lstsq(matrix[:, subset], target, rcond=None)[0]
            error = numpy.sum((matrix[:, subset] @ factors - target) ** 2)
            if factors.min() >= 0 and error < best - 1e-12:
                best, solution = error, numpy.zeros(width)
                solution[subset] = factors
    return solution


def fit(times):
    """Return the numbers of the tier, as in SHM, and {(collective, algorithm): percents}."""
    known = efforts(times)
    cases = sorted(times)
    latency = round_of(times, known)
    tier = least_squares(
        [known[case][1:] for case in cases],
        [times[case] for case in cases],
        numpy.array([latency * known[case][0] for case in cases]),
    )
    numbers = [round(1e3 * x) for x in (latency, *tier[:2])] + [round(1e6 * x) for x in tier[2:]]
    parts = {case: split(numbers, known[case]) for case in cases}
    rows = {}
    for name in sorted({case[0] for case in cases}):
        for pair in sorted({case[:2] for case in cases if case[0] == name}):
            own = [case for case in cases if case[:2] == pair]
            percents = least_squares([parts[case] for case in own], [times[case] for case in own])
            rows[pair] = [bounded(100 * x) for x in percents]
        improve(rows, name, parts, times)
    return tuple(numbers), rows


def round_of(times, known):
    """Return the microseconds of a round: those of the quickest exchange between two ranks.

    Few ranks that crowd the processors would hide it behind the messages of all, and a chain of
    many ranks would look cheap.
    """
    exchanges = [case for case in times if case[0] == "allreduce" and case[2] == 2]
    return min(times[case] / known[case][0] for case in exchanges)


def bounded(percent):
    """Round a percentage, and keep it within what is plausible."""
    return min(MOST, max(LEAST, round(percent)))


def improve(rows, name, parts, times):
    """Vary the percentages of a collective's algorithms as long as choices get better."""
    pairs = [pair for pair in rows if pair[0] == name]
    own = {case: parts[case] for case in times if case[0] == name}
    least = regret(rows, own, times)
    while True:
        before = least
        for pair, which, factor in itertools.product(pairs, (0, 1), STEPS):
            kept = rows[pair][which]
            rows[pair][which] = bounded(kept * factor)
            now = regret(rows, own, times)
            if now < least - 1e-6:
                least = now
            else:
                rows[pair][which] = kept
        if least == before:
            return


def regret(rows, parts, times):
    """Return what choices lose on average, and a part of the predictions' error, as logarithms."""
    groups = {}
    error = 0
    for case, pair in parts.items():
        predicted = sum(part * percent / 100 for part, percent in zip(pair, rows[case[:2]]))
        error += abs(math.log(predicted / times[case]))
        groups.setdefault(case[2:], []).append((predicted, times[case]))
    lost = sum(
        math.log(min(group)[1] / min(time for _, time in group)) for group in groups.values()
    )
    return lost / len(groups) + FAITH * error / len(parts)


def split(numbers, effort_of):
    """Give the microseconds that messages and bytes cost."""
    terms = [x * y for x, y in zip(numbers, effort_of)]
    return sum(terms[:3]) / 1e3, sum(terms[3:]) / 1e6


def predict(numbers, rows, times):
    """Return {case: microseconds} from the table."""
    known = efforts(times)
    predicted = {}
    for case in times:
        percents = rows[case[:2]]
        parts = split(numbers, known[case])
        predicted[case] = sum(part * percent / 100 for part, percent in zip(parts, percents))
    return predicted


# ---- printing ------------------------------------------------------------------------------------


def report(times, predicted):
    """Yield where the algorithm that the table chooses is not the fastest, and by how much."""
    losses = []
    for name, ranks, size in sorted({(case[0], *case[2:]) for case in times}):
        cases = [case for case in times if (case[0], *case[2:]) == (name, ranks, size)]
        chosen, best = min(cases, key=predicted.get), min(cases, key=times.get)
        losses.append((times[chosen] / times[best] - 1, chosen, best))
    yield f"{'collective':<15}{'n':>2}{'bytes':>9}  {'chosen':<10}{'us':>10}  best"
    for loss, chosen, best in sorted(losses, reverse=True):
        if loss < LOSS:
            break
        yield (
            f"{chosen[0]:<15}{chosen[2]:>2}{human_bytes(chosen[3]):>9}  {chosen[1]:<10}"
            f"{times[chosen]:>10.1f}  {best[1]} {times[best]:.1f}: {loss:.0%} slower"
        )
    right = sum(loss == 0 for loss, *_ in losses)
    mean = numpy.exp(numpy.mean([numpy.log1p(loss) for loss, *_ in losses])) - 1
    yield f"the fastest is chosen in {right} of {len(losses)} cases; on average {mean:.1%} are lost"
    error = numpy.median([abs(numpy.log(predicted[case] / times[case])) for case in times])
    yield f"the median prediction is off by a factor of {numpy.exp(error):.2f}"


def continued(lines):
    """Lay out an X-macro's lines, with the backslashes where clang-format wants them."""
    return "".join(f"{line:<99}\\\n" for line in lines[:-1]) + lines[-1] + "\n"


def table(numbers, rows):
    """Return the text of core/tuner/cost_table.h."""
    tiers = {"shm": SHM, "loopback": numbers, "network": NETWORK}
    tier_lines = [
        f'  X({name.upper()}, "{name}", {", ".join(map(str, values))})'
        for name, values in tiers.items()
    ]
    row_lines = [
        f"  X({tier}, {', '.join(pair).upper()}, {', '.join(map(str, percents))})"
        for tier, own in (("LOOPBACK", rows), ("NETWORK", NETWORK_ROWS))
        for pair, percents in sorted(own.items())
    ]
    return (
        "/* SPDX-License-Identifier: Apache-2.0\n *\n"
        " * Generated by scripts/bench --tune (bench/tune.py): do not edit by hand. Loopback is\n"
        " * measured; shared memory and network (10 Gbit/s Ethernet) are the defaults of tune.py.\n"
        " */\n#ifndef RING_COST_TABLE_H\n#define RING_COST_TABLE_H\n\n"
        '/* X(tier, "name", latency, message, busy in ns, path, shared, reduce in ps a byte): see'
        " cost.h */\n"
        + continued(["#define RING_COST_TIER_MAP(X)", *tier_lines])
        + "\n/* X(tier, collective, algorithm, percent of what messages and what bytes cost) */\n"
        + continued(["#define RING_COST_ROW_MAP(X)", *row_lines])
        + "\n#endif\n"
    )


def read(files):
    """Return the least time of each case in several files."""
    times = {}
    for case, time in itertools.chain(*(json.loads(file.read_text()) for file in files)):
        times[tuple(case)] = min(time, times.get(tuple(case), math.inf))
    return times


def main():
    """Measure or read, fit, write, report."""
    parser = argparse.ArgumentParser(prog="scripts/bench --tune", description=__doc__)
    parser.add_argument("--fit", type=Path, nargs="+", metavar="FILE", help="earlier runs' times")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.01, help="of samples, for one case")
    options = parser.parse_args()
    options.ranks = [2, 3, 4, 6, 8]
    options.bytes = [8, 1024, 8192, 65536, 524288, 4 << 20]
    if options.fit:
        times = read(options.fit)
    elif os.geteuid() != 0:
        show("needs root: the ranks run in a network namespace of their own")
        return 1
    else:
        times = measure(options)
        TIMES.write_text(json.dumps(sorted([list(case), time] for case, time in times.items())))
    numbers, rows = fit(times)
    TABLE.write_text(table(numbers, rows))
    print(*report(times, predict(numbers, rows, times)), sep="\n")
    print(f"written to {TABLE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
