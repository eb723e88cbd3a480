# SPDX-License-Identifier: Apache-2.0
"""Merge the timelines of the ranks into one trace. Their times have one origin already."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

MERGED = "timeline.json"
Event = dict[str, Any]


class TraceError(Exception):
    """There is no timeline in a file or directory."""


def files(directory: Path) -> list[Path]:
    """List the files of the last communicator that was recorded into a directory, by rank."""
    found = list(directory.glob("rank-*-*.json"))
    if not found:
        raise TraceError(f"{directory} has no timeline of a rank, which is called rank-*.json")
    last = max(found, key=lambda file: file.stat().st_mtime_ns)
    epoch = last.stem.rpartition("-")[2]
    return sorted(file for file in found if file.stem.endswith(epoch))


def read(path: str | os.PathLike[str]) -> list[Event]:
    """Read the events of a trace, or of all ranks in a directory."""
    source = Path(path)
    if source.is_dir():
        return [event for file in files(source) for event in read(file)]
    try:
        text = source.read_text(encoding="utf-8")
    except OSError as error:
        raise TraceError(f"{source} cannot be read: {error.strerror}") from None
    return parse(text, source)


def parse(text: str, source: Path) -> list[Event]:
    """Read an array of events. A file that was cut, as by a crash of the host, lacks its end."""
    try:
        events = json.loads(text)
    except json.JSONDecodeError:
        events = [event for line in text.splitlines() if (event := line_of(line)) is not None]
    if isinstance(events, dict):
        events = events.get("traceEvents", [])
    if not isinstance(events, list) or not any(isinstance(event, dict) for event in events):
        raise TraceError(f"{source} is no trace in Chrome's format")
    return [event for event in events if isinstance(event, dict)]


def line_of(line: str) -> Event | None:
    """Read one line of a file of a rank; None where there is no event."""
    try:
        event = json.loads(line.lstrip(","))
    except json.JSONDecodeError:
        return None
    return event if isinstance(event, dict) else None


def write(events: list[Event], path: str | os.PathLike[str]) -> None:
    """Write a trace, one event a line."""
    lines = (json.dumps(event, separators=(",", ":")) for event in events)
    Path(path).write_text("[\n" + "\n,".join(lines) + "\n]\n", encoding="utf-8")


def ranks(events: list[Event]) -> dict[int, Event]:
    """Return what each rank says of itself, by rank: its name, host, size and clock."""
    named = (event for event in events if event.get("name") == "process_name")
    return {event["pid"]: event.get("args", {}) for event in sorted(named, key=lambda e: e["pid"])}


def merge_if_complete(directory: str | os.PathLike[str]) -> str | None:
    """Merge the timelines of a directory that has those of all ranks; return the path, or None."""
    try:
        events = read(directory)
    except TraceError:
        return None
    known = ranks(events)
    if any(len(known) != about.get("size") for about in known.values()):
        return None
    path = os.path.join(directory, MERGED)
    write(events, path)
    return path
