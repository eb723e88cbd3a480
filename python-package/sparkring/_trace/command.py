# SPDX-License-Identifier: Apache-2.0
"""``python -m sparkring timeline DIR -o out.svg``: one trace, or a picture, of all ranks."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from sparkring._trace import merge, picture

KINDS = (".json", ".svg")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    options = parse(arguments)
    source = Path(options.source)
    output = options.output or default_output(source)
    if not output.endswith(KINDS):
        text = f"{output!r} is neither a trace nor a picture: end its name in {' or '.join(KINDS)}"
        print(f"python -m sparkring timeline: {text}", file=sys.stderr)
        return 1
    try:
        events = merge.read(source)
        if output.endswith(".svg"):
            begin, end = options.begin, options.end
            Path(output).write_text(picture.draw(events, begin, end), encoding="utf-8")
        else:
            merge.write(events, output)
    except (merge.TraceError, OSError) as error:
        print(f"python -m sparkring timeline: {error}", file=sys.stderr)
        return 1
    print(f"{output}: {len(merge.ranks(events))} ranks, {len(events)} events")
    return 0


def default_output(source: Path) -> str:
    """Choose the trace for a directory, and the picture for a trace."""
    return (
        os.path.join(source, merge.MERGED) if source.is_dir() else str(source.with_suffix(".svg"))
    )


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m sparkring timeline",
        description="Make one trace, or a picture, of the timelines that ranks have recorded.",
    )
    parser.add_argument("source", metavar="DIR|FILE", help="directory of the timelines, or a trace")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="out.json for Perfetto or chrome://tracing, out.svg for a picture; by default"
        " DIR/timeline.json for a directory, and the picture of a trace beside it",
    )
    parser.add_argument(
        "--from", dest="begin", type=float, metavar="MS", help="begin of the picture, milliseconds"
    )
    parser.add_argument(
        "--to", dest="end", type=float, metavar="MS", help="end of the picture, milliseconds"
    )
    return parser.parse_args(arguments)
