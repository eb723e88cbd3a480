# SPDX-License-Identifier: Apache-2.0
"""Runs the drivers of all libraries in turns, round after round, and prints what came out.

In a round every library runs once for every link and number of ranks, so that a slow spell of the
machine meets all of them; every other round goes backwards.
scripts/bench builds everything and calls this.
"""

import datetime
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import libraries
import results
import targets
from job import RunError, WrongLinkError, run_job
from network import Network
from options import parse
from other_load import OtherLoad

NOISE = 0.1  # the share of the processors from which on other programs are reported


class Session:
    """All rounds; `failures` counts the runs that failed."""

    def __init__(self, chosen, options):
        self._chosen = chosen
        self._options = options
        self._given_up = set()
        self.results = results.Results()
        self.failures = 0

    def run(self):
        """Run every round."""
        with tempfile.TemporaryDirectory(prefix="sparkring-bench-") as scratch:
            for number in range(self._options.rounds):
                for link in self._options.link:
                    for ranks in self._options.ranks:
                        self._visit(Path(scratch), number, link, ranks)
                show(f"round {number + 1} of {self._options.rounds} done")

    def _visit(self, scratch, number, link, ranks):
        order = self._chosen[::-1] if number % 2 else self._chosen
        with Network(link, ranks) as network:
            for library in order:
                place = library.name, link, ranks
                options = library.part_of(self._options, link, ranks)
                if options and place not in self._given_up:
                    folder = scratch / "-".join(map(str, (number, *place)))
                    self._try(library, link, network, options, folder)
                    shutil.rmtree(folder, ignore_errors=True)

    def _try(self, library, link, network, options, folder):
        place = library.name, link, network.ranks
        try:
            with OtherLoad() as other:
                medians = run_job(library, link, network, options, folder)
            self.results.add(medians)
            if other.share > NOISE:
                share = f"other programs used {other.share:.0%} of the processors"
                show(f"{library.name}, {link}, {network.ranks} ranks: noisy: {share}")
        except WrongLinkError:
            show(
                f"{library.name}: not over {link} with {network.ranks} ranks: it uses another link"
            )
            self._given_up.add(place)
        except RunError as error:
            show(f"{library.name}: failed over {link} with {network.ranks} ranks: {error}")
            self._given_up.add(place)
            self.failures += 1


def show(text):
    """Tell how it goes; the table alone goes to standard output."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def peers_of(wanted):
    """Return {library of ours: [the peers that are compared with it]}."""
    ours = dict.fromkeys(library.ours for library in wanted)
    return {
        name: [library.name for library in wanted if library.ours == name != library.name]
        for name in ours
    }


def measure(wanted, options, output):
    """Run a session of what is installed; return whether all of it went well."""
    absent = {library: library.missing() for library in wanted}
    for line in filter(None, absent.values()):
        show(line)
    session = Session([library for library in wanted if not absent[library]], options)
    try:
        session.run()
    finally:
        times = session.results.medians()
        if times:
            session.results.write(output)
            print(*results.table(times, peers_of(wanted)), sep="\n")
            if not options.quick:
                print(*targets.table(times), sep="\n")
            print(f"\nwritten to {output}")
    return session.failures == 0


def main():
    """Do what the command line asks for."""
    start = datetime.datetime.now()
    options = parse(sys.argv[1:])
    wanted = [library for library in libraries.LIBRARIES if library.name in options.only]
    if options.list:
        print(*(library.name for library in wanted))
        return 0
    if os.geteuid() != 0:
        show("needs root: the ranks run in network namespaces of their own")
        return 1
    output = options.output or libraries.BENCH / "results" / f"{start:%Y-%m-%d-%H%M}.json"
    well = measure(wanted, options, output)
    show(f"{(datetime.datetime.now() - start).seconds} s")
    return 0 if well else 1


def interrupted(number, _frame):
    """Leave through the finally clauses, undisturbed."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, interrupted)
    sys.exit(main())
