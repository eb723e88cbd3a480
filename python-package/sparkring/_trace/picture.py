# SPDX-License-Identifier: Apache-2.0
"""Draw a trace as SVG: a lane a rank, calls in the color of their collective, waits hatched."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from xml.sax.saxutils import escape

from sparkring._trace.merge import Event, TraceError, ranks

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 960, 118, 96, 84, 52  # pixels
COLOURS = {
    "allreduce": "#3f72af",
    "allreduce_group": "#6a5acd",
    "reduce": "#a569a8",
    "reduce_scatter": "#2a9d8f",
    "broadcast": "#ef8a33",
    "allgather": "#5aa454",
    "allgatherv": "#3d7a3a",
    "gather": "#d9b02f",
    "gatherv": "#a98413",
    "scatter": "#f08fa0",
    "scatterv": "#c75f73",
    "alltoall": "#8d6e5a",
    "alltoallv": "#6b4f3f",
    "barrier": "#9aa5b1",
    "message": "#d9534f",
}
OTHER = "#5c6670"  # of opening, splitting and closing
INK, FAINT, GRID = "#1f2933", "#7b8794", "#e4e7eb"
STYLE = f"""
text {{ font: 12px system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; fill: {INK}; }}
.title {{ font-size: 16px; font-weight: 600; }}
.faint {{ font-size: 11px; fill: {FAINT}; }}
.end {{ text-anchor: end; }}
.mid {{ text-anchor: middle; }}
.grid {{ stroke: {GRID}; }}
.lane {{ fill: #f5f7fa; }}
.wait {{ fill: url(#hatch); }}
.queue {{ fill: #d6409f; }}
.open {{ stroke: #c81e1e; stroke-width: 1.5; stroke-dasharray: 3 2; }}
.mark {{ stroke: {INK}; }}"""
HATCH = """<pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse"
 patternTransform="rotate(45)"><rect width="5" height="5" fill="#fff" fill-opacity=".35"/>
<rect width="2.5" height="5" fill="#fff" fill-opacity=".6"/></pattern>"""
UNITS = {1e-3: "ns", 1.0: "µs", 1e3: "ms", 1e6: "s"}  # by their microseconds


class Span(NamedTuple):
    """Something of a rank that lasted; times in microseconds."""

    rank: int
    kind: str  # the category: call, wait, queue, negotiate
    name: str
    begin: float
    end: float
    note: str
    number: int  # of spans that were joined
    is_open: bool


class Frame(NamedTuple):
    """The part of the trace that is drawn, and where."""

    begin: float
    end: float
    lane: float  # height
    ranks: list[int]

    def x(self, time: float) -> float:
        """Return the place of a time."""
        part = (min(max(time, self.begin), self.end) - self.begin) / (self.end - self.begin)
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    def y(self, rank: int) -> float:
        """Return the upper edge of the lane of a rank."""
        return TOP + self.ranks.index(rank) * self.lane


def draw(events: list[Event], begin: float | None = None, end: float | None = None) -> str:
    """Draw the events from a begin to an end, in milliseconds; by default all."""
    names = ranks(events)
    spans = sorted(spans_of(events), key=lambda span: span.begin)
    if not spans:
        raise TraceError("the trace has no calls, so there is nothing to draw")
    first = spans[0].begin if begin is None else begin * 1e3
    last = max(span.end for span in spans) if end is None else end * 1e3
    shown = [span for span in spans if span.end >= first and span.begin <= last]
    if last <= first or not shown:
        raise TraceError(f"the trace has no calls from {first / 1e3:g} to {last / 1e3:g} ms")
    order = sorted({*names, *(span.rank for span in spans)})
    lane = max(10.0, min(40.0, 640 / len(order)))
    frame = Frame(first, last, lane, order)
    height = TOP + lane * len(order) + BOTTOM
    title = f"{len(order)} rank{'s' * (len(order) > 1)}, {length(last - first)}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}"'
            f' viewBox="0 0 {WIDTH} {height:g}" role="img">',
            f"<title>Timeline of {title}</title><style>{STYLE}</style><defs>{HATCH}</defs>",
            f'<rect width="{WIDTH}" height="{height:g}" fill="#fff"/>',
            f'<text class="title" x="{LEFT}" y="28">Timeline of {title}</text>',
            *legend(shown),
            *lanes(frame, names, shown),
            *axis(frame),
            *(bar(frame, span) for span in joined(frame, shown)),
            *marks(frame, events),
            "</svg>\n",
        ]
    )


# ---- Events --------------------------------------------------------------------------------------


def spans_of(events: list[Event]) -> Iterator[Span]:
    """Find the calls, waits, queues and negotiations."""
    begun: dict[tuple[object, ...], Event] = {}
    for event in events:
        kind, phase = event.get("cat", ""), event.get("ph")
        if phase == "X" and kind in ("call", "wait"):
            yield span(event, float(event["ts"]), float(event["ts"]) + float(event["dur"]))
        key = (event.get("pid"), kind, event.get("id"), event.get("name"))
        if phase == "b" and kind in ("queue", "negotiate"):
            begun[key] = event
        elif phase == "e" and key in begun:
            yield span(begun[key], float(begun.pop(key)["ts"]), float(event["ts"]))


def span(event: Event, begin: float, end: float) -> Span:
    """Describe an event that lasted."""
    about = event.get("args", {})
    note = f"call {about['call']}" if "call" in about else ""
    if "bytes" in about:
        note += f", {size(about['bytes'])}"
    if "peer" in about:
        note += f", for rank {about['peer']}"
    is_open = bool(about.get("unfinished"))
    if is_open:
        note += ", not finished"
    return Span(event["pid"], event["cat"], event["name"], begin, end, note, 1, is_open)


def joined(frame: Frame, spans: list[Span]) -> Iterator[Span]:
    """Join neighbors of one kind that are too narrow to be seen apart. Calls come before waits."""
    narrow = (frame.end - frame.begin) / (WIDTH - LEFT - RIGHT) * 0.6
    for kind in ("call", "wait", "queue", "negotiate"):
        last: dict[int, Span] = {}
        for one in (span for span in spans if span.kind == kind):
            before = last.get(one.rank)
            if before and before.name == one.name and one.end - before.begin < narrow:
                end = max(before.end, one.end)
                is_open = one.is_open or before.is_open
                note = f"{before.number + 1} of them"
                one = before._replace(end=end, note=note, number=before.number + 1, is_open=is_open)
            elif before:
                yield before
            last[one.rank] = one
        yield from last.values()


# ---- Drawing -------------------------------------------------------------------------------------


def bar(frame: Frame, span: Span) -> str:
    """Draw a span in the lane of its rank."""
    x, y = frame.x(span.begin), frame.y(span.rank)
    width = max(frame.x(span.end) - x, 0.4)
    top, height = y + frame.lane * 0.14, frame.lane * 0.6
    if span.kind in ("queue", "negotiate"):
        top, height = y + frame.lane * 0.8, frame.lane * 0.1
    look = fill(COLOURS.get(span.name, OTHER)) if span.kind == "call" else 'class="wait"'
    if span.kind in ("queue", "negotiate"):
        look = 'class="queue"'
    if span.is_open and span.kind == "call":
        look += ' class="open"'
    text = f"rank {span.rank}: {span.name}, {span.note}\n{length(span.end - span.begin)}"
    return (
        f'<rect x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" {look}>'
        f"<title>{escape(text)}</title></rect>"
    )


def lanes(frame: Frame, names: dict[int, Event], spans: list[Span]) -> Iterator[str]:
    """Draw the background of the lanes, their names and the share of waits."""
    size = min(12.0, frame.lane * 0.9)
    yield f'<text class="faint end" x="{WIDTH - 12}" y="{TOP - 10}">waits</text>'
    for rank in frame.ranks:
        y, middle = frame.y(rank), frame.y(rank) + frame.lane * 0.44
        host = names.get(rank, {}).get("host", "")
        yield (
            f'<rect class="lane" x="{LEFT}" y="{y + 1:.1f}" width="{WIDTH - LEFT - RIGHT}"'
            f' height="{frame.lane - 2:.1f}"/>'
        )
        two = frame.lane >= 28 and host
        yield (
            f'<text class="end" x="{LEFT - 10}" y="{middle + (0 if two else 4):.1f}"'
            f' font-size="{size:g}">rank {rank}</text>'
        )
        if two:
            short = host if len(host) <= 16 else host[:15] + "…"
            yield (
                f'<text class="faint end" x="{LEFT - 10}" y="{middle + 14:.1f}">'
                f"{escape(short)}<title>{escape(host)}</title></text>"
            )
        share = waited(frame, spans, rank)
        yield (
            f'<text class="end" x="{WIDTH - 12}" y="{middle + 4:.1f}" font-size="{size:g}">'
            f"{share:.0%}<title>rank {rank} waits for other ranks for {share:.1%} of the time"
            "</title></text>"
        )


def waited(frame: Frame, spans: Iterable[Span], rank: int) -> float:
    """Return the part of the time in which a rank waits."""
    waits = (span for span in spans if span.rank == rank and span.kind == "wait")
    inside = sum(min(w.end, frame.end) - max(w.begin, frame.begin) for w in waits)
    return inside / (frame.end - frame.begin)


def legend(spans: list[Span]) -> Iterator[str]:
    """Draw a square and a name for each collective and kind that is shown."""
    names = {span.name for span in spans if span.kind == "call"}
    entries = [(fill(COLOURS[name]), name) for name in COLOURS if name in names]
    if others := sorted(names - set(COLOURS)):
        entries.append((fill(OTHER), ", ".join(others)))
    if any(span.kind == "wait" for span in spans):
        entries.append(("", "waits for other ranks"))
    if any(span.kind in ("queue", "negotiate") for span in spans):
        entries.append(('class="queue"', "queue of started calls"))
    if any(span.is_open for span in spans):
        entries.append(('fill="#fff" class="open"', "not finished"))
    x = float(LEFT)
    for look, name in entries:
        for layer in (look,) if look else (fill(FAINT), 'class="wait"'):
            yield f'<rect x="{x:g}" y="43" width="12" height="12" {layer}/>'
        yield f'<text x="{x + 17:g}" y="53">{escape(name)}</text>'
        x += 17 + 6.6 * len(name) + 18


def fill(colour: str) -> str:
    """Write the attribute of a color."""
    return f'fill="{colour}"'


def axis(frame: Frame) -> Iterator[str]:
    """Draw the axis of time, in the unit that fits."""
    duration = frame.end - frame.begin
    step = 10 ** math.floor(math.log10(duration / 6))
    step = next(step * factor for factor in (1, 2, 5, 10) if duration / (step * factor) <= 9)
    unit = max((unit for unit in UNITS if unit <= step * 5), default=1e-3)
    bottom = TOP + frame.lane * len(frame.ranks)
    for number in range(math.ceil(frame.begin / step), math.floor(frame.end / step) + 1):
        x = frame.x(number * step)
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom + 5:g}"/>'
        text = f"{number * step / unit:.10g}"
        yield f'<text class="mid" x="{x:.1f}" y="{bottom + 19:g}">{text}</text>'
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield (
        f'<text class="faint mid" x="{middle:g}" y="{bottom + 38:g}">'
        f"{UNITS[unit]} since the timeline began</text>"
    )


def marks(frame: Frame, events: list[Event]) -> Iterator[str]:
    """Draw the marks, such as those of cycles, on the lanes of their ranks."""
    for event in events:
        if event.get("ph") == "i" and frame.begin <= event["ts"] <= frame.end:
            x, y = frame.x(event["ts"]), frame.y(event["pid"])
            yield (
                f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{y + 1:.1f}"'
                f' y2="{y + frame.lane - 1:.1f}"><title>{escape(event["name"])}</title></line>'
            )


# ---- Numbers -------------------------------------------------------------------------------------


def length(microseconds: float) -> str:
    """Write a duration in the unit that fits."""
    unit = max((unit for unit in UNITS if unit <= microseconds), default=1e-3)
    return f"{microseconds / unit:.3g} {UNITS[unit]}"


def size(count: int) -> str:
    """Write a number of bytes in the unit that fits."""
    power = min(max(count, 1).bit_length() - 1, 49) // 10
    return f"{count / 1024**power:.3g} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
