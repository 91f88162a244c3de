"""Space-time diagrams of a trace: processes side by side, time downwards, messages as arrows.

As text:

```
    time  node1          node2          node3
  1.0031  *  crash       |              |
  1.0102  |              *  write x=3   |
  1.0131  |              o------------->*  replace
```

As SVG: a line for each process, a dot and a label for each event, an arrow for each message. Lost messages end in a
cross.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import inf
from typing import Final

from box.testing.simulation.trace import Event, Message, Trace

_COLUMN: Final = 28
"""The characters of a column of the text diagram."""
_LANE: Final = 240
"""Pixels between two processes."""
_ROW: Final = 18
"""Pixels between two moments."""
_MARGIN: Final = 80
"""Pixels left of the first process, for the times."""
_TOP: Final = 40
"""Pixels above the first moment, for the names of processes."""

_STYLE: Final = (
    "text{font:12px sans-serif}.name{font-weight:bold;text-anchor:middle}.time{fill:#777;text-anchor:end}"
    ".lane{stroke:#bbb}.message{stroke:#3573b1;fill:none}.lost{stroke:#c0392b;stroke-dasharray:4 3}"
    ".event{fill:#222}.fault{fill:#c0392b}"
)
FAULTS: Final = frozenset({"crash", "failed", "halt", "kill", "panic", "power"})
"""The kinds of events that are drawn in red. Injected faults, whose kinds begin with a plus, are red as well."""


def _processes(trace: Trace) -> list[str]:
    names = {event.process for event in trace.events}
    names |= {name for message in trace.messages for name in (message.source, message.target)}
    return sorted(names)


def _within(trace: Trace, begin: float, end: float) -> tuple[list[Event], list[Message]]:
    events = [event for event in trace.events if begin <= event.time <= end]
    messages = [message for message in trace.messages if begin <= message.sent <= end]
    return events, messages


def as_text(trace: Trace, begin: float = 0.0, end: float = inf) -> str:
    """Return the diagram of the events from `begin` to `end`, in simulated seconds, with one line for each event.

    Messages are left out: where their arrival matters, it shows as an event.
    """
    processes = _processes(trace)
    events, _ = _within(trace, begin, end)
    lines = [f"{'time':>12}  " + "".join(f"{name:{_COLUMN}}" for name in processes).rstrip()]
    for event in events:
        cells = [_cell(event) if name == event.process else "|" for name in processes]
        lines.append(f"{event.time:12.6f}  " + "".join(f"{cell:{_COLUMN}}" for cell in cells).rstrip())
    return "\n".join(lines) + "\n"


def _cell(event: Event) -> str:
    text = f"*  {event.kind} {event.text}".rstrip()
    return text if len(text) < _COLUMN else text[: _COLUMN - 2] + "…"


def as_svg(trace: Trace, begin: float = 0.0, end: float = inf) -> str:
    """Return the diagram as an SVG document.

    Equal distances stand for equal numbers of moments, not for equal times.
    """
    processes = _processes(trace)
    events, messages = _within(trace, begin, end)
    times = sorted({event.time for event in events} | set(_message_times(messages)))
    row = {time: _TOP + _ROW * (number + 1) for number, time in enumerate(times)}
    lane = {name: _MARGIN + _LANE * number + _LANE // 2 for number, name in enumerate(processes)}
    width, height = _MARGIN + _LANE * len(processes), _TOP + _ROW * (len(times) + 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#3573b1"/></marker></defs>',
        *_lanes(lane, height),
        *(_arrow(message, lane, row) for message in messages),
        *_dots(events, lane, row),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _message_times(messages: Sequence[Message]) -> Iterable[float]:
    for message in messages:
        yield message.sent
        if message.arrived is not None:
            yield message.arrived


def _lanes(lane: dict[str, int], height: int) -> Iterable[str]:
    for name, x in lane.items():
        yield f'<text class="name" x="{x}" y="20">{escape(name)}</text>'
        yield f'<line class="lane" x1="{x}" y1="{_TOP - 10}" x2="{x}" y2="{height - _ROW}"/>'


def _arrow(message: Message, lane: dict[str, int], row: dict[float, int]) -> str:
    x1, y1 = lane[message.source], row[message.sent]
    title = f"<title>{escape(message.text)}</title>"
    if message.arrived is None:
        x2 = (x1 + lane[message.target]) // 2
        return f'<path class="message lost" d="M{x1} {y1}L{x2} {y1 + _ROW}m-4 -4l8 8m0 -8l-8 8">{title}</path>'
    x2, y2 = lane[message.target], row[message.arrived]
    return f'<path class="message" marker-end="url(#head)" d="M{x1} {y1}L{x2} {y2}">{title}</path>'


def _dots(events: Sequence[Event], lane: dict[str, int], row: dict[float, int]) -> Iterable[str]:
    for event in events:
        x, y = lane[event.process], row[event.time]
        kind = "fault" if event.kind in FAULTS or event.kind.startswith("+") else "event"
        yield f'<text class="time" x="{_MARGIN - 10}" y="{y + 4}">{event.time:.4f}</text>'
        yield f'<circle class="{kind}" cx="{x}" cy="{y}" r="3"/>'
        yield f'<text class="{kind}" x="{x + 8}" y="{y + 4}">{escape(f"{event.kind} {event.text}".strip()[:34])}</text>'
