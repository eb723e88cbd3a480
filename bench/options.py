# SPDX-License-Identifier: Apache-2.0
"""The command line of scripts/bench."""

import argparse
from pathlib import Path

from libraries import COLLECTIVES, COMPILED, LIBRARIES, LINKS

FULL = {
    "bytes": [8, 64, 512, 4096, 32768, 65536, 262144, 1 << 20, 2 << 20, 16 << 20, 64 << 20],
    "rounds": 5,
    "seconds": 0.2,
    "only": [library.name for library in LIBRARIES],
}
QUICK = {
    "bytes": [8, 4096, 32768, 1 << 20, 16 << 20],
    "rounds": 3,
    "seconds": 0.03,
    "only": list(COMPILED),
}


def one_of(known):
    """Make a reader of names, with commas between, out of these."""

    def read(text):
        unknown = [word for word in text.split(",") if word not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]}: choose from {','.join(known)}")
        return text.split(",")

    return read


def at_least(least):
    """Make a reader of numbers, with commas between, that are not smaller."""

    def read(text):
        numbers = [int(word) for word in text.split(",")]
        if min(numbers) < least:
            raise argparse.ArgumentTypeError(f"{min(numbers)}: at least {least}")
        return numbers

    return read


def parse(arguments):
    """Read the options; what is not given is as in FULL or QUICK."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Compare with others.",
        epilog="scripts/bench --simulate [--help]: allreduce on clusters of thousands of ranks.",
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="two minutes at most: C, up to 16 MiB")
    add("--only", type=one_of(FULL["only"]), metavar="LIBRARY,...", help=", ".join(FULL["only"]))
    add("--collective", type=one_of(COLLECTIVES), default=list(COLLECTIVES), metavar="NAME,...")
    add(
        "--link",
        type=one_of(LINKS),
        default=["tcp", "shm"],
        metavar="LINK,...",
        help="of " + ", ".join(LINKS),
    )
    add("--ranks", type=at_least(2), default=[2, 4], metavar="N,...")
    add("--bytes", type=at_least(8), metavar="N,...")
    add("--rounds", type=int)
    add("--seconds", type=float, help="of samples, for one case in one round")
    add("--output", type=Path, help="the file of results")
    add("--list", action="store_true", help="only name the libraries that would run")
    options = parser.parse_args(arguments)
    for name, value in (QUICK if options.quick else FULL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options
