"""Draws a replica set as an SVG picture: instances on a circle, arrows for the rows between them."""

from __future__ import annotations

import math
from typing import Final
from xml.sax.saxutils import escape

from console.top.overview import size
from console.top.sampling import ClusterSample, InstanceSample, ReplicationEdge

_WIDTH, _HEIGHT = 900, 640
"""The size of the picture in pixels."""
_BOX: Final = (210, 86)
"""Width and height of an instance's box, which has room for four lines."""
_FINE, _BROKEN, _QUIET, _INK = "#2a7d2a", "#c0392b", "#777777", "#222222"

_BOLD, _DASHED = ' font-weight="bold"', ' stroke-dasharray="6 4"'

Point = tuple[float, float]


def picture(sample: ClusterSample) -> str:
    """Return the text of an SVG file."""
    known = [each for each in sample.instances if each.id]
    places = _places(len(sample.instances))
    centres = {each.id: place for each, place in zip(sample.instances, places, strict=True) if each.id}
    drawn = [edge for edge in sample.edges if edge.source in centres and edge.target in centres]
    arrows = [_arrow(edge, centres[edge.source], centres[edge.target]) for edge in drawn]
    boxes = [_box(each, place) for each, place in zip(sample.instances, places, strict=True)]
    title = f"Replica set of {len(known)} instances"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
            f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="13">',
            f"<title>{title}</title>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *(_head(name, colour) for name, colour in (("fine", _FINE), ("broken", _BROKEN))),
            *arrows,
            *boxes,
            "</svg>",
            "",
        ]
    )


def _head(name: str, colour: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L10 5L0 10z" fill="{colour}"/></marker>'
    )


def _places(count: int) -> list[Point]:
    if count == 1:
        return [(_WIDTH / 2, _HEIGHT / 2)]
    radius_x, radius_y = _WIDTH / 2 - _BOX[0] / 2 - 20, _HEIGHT / 2 - _BOX[1] / 2 - 30
    angles = [2 * math.pi * number / count - math.pi / 2 for number in range(count)]
    return [(_WIDTH / 2 + radius_x * math.cos(angle), _HEIGHT / 2 + radius_y * math.sin(angle)) for angle in angles]


def _box(each: InstanceSample, place: Point) -> str:
    width, height = _BOX
    left, top = place[0] - width / 2, place[1] - height / 2
    colour = _BROKEN if each.error or each.state.get("status") != "running" else _FINE
    lines = _lines(each)
    texts = [
        f'<text x="{left + 10:.0f}" y="{top + 20 + 18 * number:.0f}" fill="{_INK if number else colour}"'
        f"{'' if number else _BOLD}>{escape(line)}</text>"
        for number, line in enumerate(lines)
    ]
    frame = (
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{width}" height="{height}" rx="8" fill="#f7f7f7" '
        f'stroke="{colour}" stroke-width="2"/>'
    )
    return "\n".join([frame, *texts])


def _lines(each: InstanceSample) -> list[str]:
    state = each.state
    if each.error:
        return [each.address, each.error[:32]]
    leads = (state.get("election") or {}).get("state") == "leader"
    return [
        f"{each.id} {each.address}",
        f"{state.get('status')} {each.mode}{' leader' if leads else ''}",
        f"lsn {state.get('lsn')}, queue {(state.get('queue') or {}).get('length', 0)}",
        f"{each.requests_per_second:,} req/s, {size((state.get('memory') or {}).get('used') or 0)}",
    ]


def _arrow(edge: ReplicationEdge, source: Point, target: Point) -> str:
    """Draw an edge as a line beside the straight one, so that both directions are visible."""
    length = math.dist(source, target) or 1.0
    across = ((target[1] - source[1]) / length, -(target[0] - source[0]) / length)
    begin, end = _border(source, target, across), _border(target, source, across)
    kind, colour = ("fine", _FINE) if edge.is_healthy else ("broken", _BROKEN)
    third = (begin[0] + (end[0] - begin[0]) * 0.4, begin[1] + (end[1] - begin[1]) * 0.4)
    status = edge.upstream or edge.downstream or ""
    label = f"{status} {edge.lag * 1000:.1f} ms" if edge.lag is not None else status
    if edge.behind:
        label += f", {edge.behind} rows behind"
    return (
        f'<line x1="{begin[0]:.0f}" y1="{begin[1]:.0f}" x2="{end[0]:.0f}" y2="{end[1]:.0f}" stroke="{colour}" '
        f'stroke-width="2" marker-end="url(#{kind})"{"" if edge.is_healthy else _DASHED}/>\n'
        f'<text x="{third[0] + across[0] * 12:.0f}" y="{third[1] + across[1] * 12:.0f}" fill="{_QUIET}" '
        f'text-anchor="middle" font-size="11">{escape(label)}</text>'
    )


def _border(of: Point, towards: Point, across: Point) -> Point:
    """Return the point where a line from the middle of the box `of` to the box `towards` leaves the box, shifted
    sideways by 8.
    """
    x, y = towards[0] - of[0], towards[1] - of[1]
    scale = min(
        (_BOX[0] / 2 + 4) / abs(x) if x else math.inf,
        (_BOX[1] / 2 + 4) / abs(y) if y else math.inf,
    )
    return of[0] + x * scale + across[0] * 8, of[1] + y * scale + across[1] * 8
