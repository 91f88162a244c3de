"""The page of the report: figures and tables in one file that includes plotly's script and needs no network."""

from __future__ import annotations

import datetime
import importlib.util
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from itertools import accumulate
from typing import Any, Final

from box.errors import illegal_params
from box.spark.report.directory_profile import ColumnProfile, DirectoryProfile, SpaceProfile

_BARS: Final = 30
"""The most bars of a histogram."""
_POINTS: Final = 300
"""The most points of the figure of the log's growth."""
_TICKS: Final = 8
"""The most ticks on an axis if every number is to have its own tick."""
_LONG: Final = 1_000_000
"""Ticks of at least this value are written as 1M or 2G, because full figures would overlap."""
_SHORTEST: Final = 10
"""The least length of the time axis in seconds: plotly shows fractions of seconds on a shorter one."""
_SPACES_SHOWN: Final = 40
"""The number of spaces whose columns are shown in a table; the spaces with the most bytes come first."""
_STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1100px; padding: 0 1em; color: #1c2733 }
table { border-collapse: collapse; width: 100%; margin: .6em 0 1.6em } caption { text-align: left; font-weight: 600 }
th, td { border-bottom: 1px solid #dde3ea; padding: .25em .6em; text-align: left; overflow-wrap: break-word }
td:last-child { overflow-wrap: anywhere }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums } .muted { color: #5b6b7b }
"""


def check_plotly() -> None:
    """Raise ILLEGAL_PARAMS where plotly is not installed."""
    if importlib.util.find_spec("plotly") is None:
        raise illegal_params("the report needs plotly: pip install '.[spark,report]' in a clone of Lunabox")


def page(directory: str, profile: DirectoryProfile) -> str:
    """Return the HTML text of the report of a directory, which is a path or a URL."""
    from plotly.offline import get_plotlyjs

    path = directory if "://" in directory else os.path.abspath(directory)
    title = f"Report of {path.rstrip('/').rpartition('/')[2] or path}"
    spaces = sorted(profile.spaces.values(), key=lambda space: (space.is_system, -space.bytes, space.name))
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>{escape(title)}</title><link rel='icon' href='data:,'><style>{_STYLE}</style>",
        f"<script>{get_plotlyjs()}</script></head><body><h1>{escape(title)}</h1>",
        f"<p class='muted'>{escape(path)}<br>{sum(space.rows for space in spaces):,} rows in {len(spaces)} spaces,"
        f" {sum(profile.log.values()):,} rows in the log{_span(profile.log)}.</p>",
        *_skipped(profile.skipped),
        *_overview(spaces),
        *_log(profile),
        "<h2>Columns</h2>",
        *(part for space in spaces[:_SPACES_SHOWN] for part in _columns(space)),
        "<h2>Largest tuples</h2>",
        _table(
            ("bytes", "space", "tuple"),
            [(f"{size:,}", name, text) for size, name, text in sorted(profile.largest.items, reverse=True)],
        ),
        "</body></html>",
    ]
    return "\n".join(parts)


def _span(log: Counter[int]) -> str:
    """Return the time span of the log as text."""
    if not log:
        return ""
    first, last = _time(min(log)), _time(max(log))
    until = "" if first == last else f" to {last:%Y-%m-%d %H:%M:%S}"
    return f" of {first:%Y-%m-%d %H:%M:%S}{until} UTC"


def _time(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def _skipped(texts: Sequence[str]) -> list[str]:
    if not texts:
        return []
    return ["<h2>Not read</h2><ul>", *(f"<li>{escape(text)}</li>" for text in texts), "</ul>"]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """Return an HTML table; columns in which every non-empty value begins with a digit are aligned to the right."""
    body = [list(row) for row in rows]
    columns = [[cell for cell in column if cell] for column in zip(*body, strict=True)] or [[] for _ in head]
    is_number = [bool(cells) and all(cell.lstrip("~-")[:1].isdigit() for cell in cells) for cells in columns]

    def line(cells: Sequence[str], tag: str) -> str:
        marks = [" class='number'" if number else "" for number in is_number]
        return "".join(f"<{tag}{mark}>{escape(cell)}</{tag}>" for cell, mark in zip(cells, marks, strict=True))

    lines = "".join(f"<tr>{line(row, 'td')}</tr>" for row in body)
    return f"<table><caption>{escape(caption)}</caption><tr>{line(head, 'th')}</tr>{lines}</table>"


def _figure(traces: Sequence[Any], title: str, *, height: int = 320, **layout: Any) -> str:
    import plotly.graph_objects as go

    margin = {"l": 60, "r": 20, "t": 45, "b": 40}
    figure = go.Figure(list(traces), {"title": {"text": title}, "height": height, "margin": margin, **layout})
    text: str = figure.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False})
    return text


def _overview(spaces: Sequence[SpaceProfile]) -> list[str]:
    import plotly.graph_objects as go

    shown = [space for space in spaces if space.rows][:_SPACES_SHOWN][::-1]
    names = [space.name for space in shown]
    height = 140 + 22 * len(shown)
    counts, sizes = [space.rows for space in shown], [space.bytes for space in shown]
    axis: dict[str, Any] = {"automargin": True, "type": "category"}
    rows = [(s.name, f"{s.rows:,}", f"{s.bytes:,}", f"{s.bytes / max(1, s.rows):,.0f}") for s in spaces]
    return [
        "<h2>Spaces</h2>",
        _figure([go.Bar(x=counts, y=names, orientation="h")], "Rows", height=height, xaxis=_counts(counts), yaxis=axis),
        _figure(
            [go.Bar(x=sizes, y=names, orientation="h")],
            "Bytes of tuples",
            height=height,
            xaxis=_counts(sizes),
            yaxis=axis,
        ),
        _table(("space", "rows", "bytes", "bytes a row"), rows),
    ]


def _counts(values: Iterable[int], **more: Any) -> dict[str, Any]:
    """Return an axis of whole numbers from 0 on. If there are few numbers, each has a tick: plotly would add fractions
    between them.
    """
    most = max(values, default=0)
    form = "," if most < _LONG else "~s"
    return {"rangemode": "tozero", "tickformat": form, **({"dtick": 1} if most <= _TICKS else {}), **more}


def _log(profile: DirectoryProfile) -> list[str]:
    import plotly.graph_objects as go

    if not profile.log:
        return ["<h2>Log</h2><p>There are no rows in log files.</p>"]
    ends = _steps(profile.log)
    times = [_time(end) for end in ends]
    rows, size = _growth(profile.log, ends), _growth(profile.log_bytes, ends)
    spaces = sorted({space for space, _ in profile.operations})
    kinds = sorted({kind for _, kind in profile.operations})
    in_spaces: Counter[str] = Counter()
    for (space, _), count in profile.operations.items():
        in_spaces[space] += count
    bars = [go.Bar(name=kind, x=spaces, y=[profile.operations[space, kind] for space in spaces]) for kind in kinds]
    axes: dict[str, Any] = {
        "xaxis": {"title": {"text": "time (UTC)"}, "automargin": True, **_time_range(ends)},
        "yaxis": _counts(rows, title={"text": "rows"}),
        # Fixed ticks at round numbers: by default they would stand at the height of the ticks of the rows.
        "yaxis2": _counts(size, title={"text": "bytes"}, overlaying="y", side="right", tickmode="auto", showgrid=False),
        # The legend stands above the figure, because the date stands below.
        "legend": {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom"},
    }
    growth = [
        go.Scatter(x=times, y=rows, name="rows", mode="lines+markers"),
        go.Scatter(x=times, y=size, name="bytes", yaxis="y2", mode="lines+markers"),
    ]
    return [
        "<h2>Log</h2>",
        _figure(growth, "Growth", **axes),
        _figure(
            bars, "Operations by space", barmode="stack", xaxis={"type": "category"}, yaxis=_counts(in_spaces.values())
        ),
    ]


def _steps(log: Counter[int]) -> list[int]:
    """Return the ends of steps from before the first second to the last one, a few hundred at most."""
    first, last = min(log), max(log)
    step = max(1, -(-(last - first) // _POINTS))
    return list(range(first - step, last + step, step))


def _time_range(ends: Sequence[int]) -> dict[str, Any]:
    """Return the range of the time axis, if plotly's own range would be too short."""
    missing = _SHORTEST - (ends[-1] - ends[0])
    if missing <= 0:
        return {}
    low = ends[0] - missing // 2
    return {"range": [f"{_time(end):%Y-%m-%d %H:%M:%S}" for end in (low, low + _SHORTEST)]}


def _growth(counts: Counter[int], ends: Sequence[int]) -> list[int]:
    """Return the sum of all counts up to each end."""
    seconds = sorted(counts)
    sums = [0, *accumulate(counts[second] for second in seconds)]
    return [sums[bisect_right(seconds, end)] for end in ends]


def _columns(space: SpaceProfile) -> list[str]:
    if not space.columns:
        return []
    rows = [
        (
            column.name,
            column.type,
            f"{column.nulls:,}",
            f"{'' if column.distinct.is_exact else '~'}{column.distinct.count:,}",
            _short(column.low),
            _short(column.high),
        )
        for column in space.columns.values()
    ]
    head = ("column", "type", "nulls", "distinct", "smallest", "largest")
    caption = f"{space.name}: {space.rows:,} rows" + (f", {space.misfits:,} not profiled" if space.misfits else "")
    found = [_table(head, rows, caption)]
    drawn = [column for column in space.columns.values() if column.sample.values]
    if drawn and space.rows > 1:
        found.append(_histograms(drawn))
    return found


def _short(value: Any) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _histograms(columns: Sequence[ColumnProfile]) -> str:
    """Return small histograms, four in a row, of the samples of columns."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    titles = [f"{column.name}{' (length)' if column.shows_lengths else ''}" for column in columns]
    lines = -(-len(columns) // 4)
    figure = make_subplots(rows=lines, cols=min(4, len(columns)), subplot_titles=titles)
    for number, column in enumerate(columns):
        trace = go.Histogram(x=column.sample.values, nbinsx=_BARS, marker={"color": "#3d7dca"})
        figure.add_trace(trace, row=number // 4 + 1, col=number % 4 + 1)
    margin = {"l": 40, "r": 20, "t": 40, "b": 30}
    figure.update_layout(height=190 * lines + 40, showlegend=False, margin=margin)
    text: str = figure.to_html(full_html=False, include_plotlyjs=False, config={"displayModeBar": False})
    return text
