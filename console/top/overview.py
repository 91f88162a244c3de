"""A replica set as text: tables of instances, replication, spaces and fibers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from console.top.sampling import ClusterSample, InstanceSample
from lua.text_console.text_table import UNICODE, Lines, RowGroup, render

SPACE_ORDERS: Final = ("rows", "bytes", "rate", "name")
FIBER_ORDERS: Final = ("time", "switches", "name")


@dataclass(slots=True)
class Choice:
    """The choice and order of rows: `text` has to be in the name of a space or fiber, `most` limits the rows of each
    table.
    """

    spaces: str = "rows"
    fibers: str = "time"
    text: str = ""
    most: int = 10


def overview(
    sample: ClusterSample, before: ClusterSample | None, choice: Choice, width: int = 0, lines: Lines = UNICODE
) -> str:
    """Return the text of the whole screen; rates of spaces are calculated from the previous sample."""
    parts = [
        ("instances", _instances(sample.instances)),
        ("replication", _replication(sample)),
        ("spaces", _spaces(sample, before, choice)),
        ("fibers", _fibers(sample, choice)),
    ]
    texts = [f"{title}\n{_without_count(render([group], width, lines))}" for title, group in parts if group.rows]
    return "\n".join(texts)


def _without_count(text: str) -> str:
    return "\n".join(text.rstrip("\n").split("\n")[:-1]) + "\n"


def _group(columns: Sequence[str], numbers: str, rows: Sequence[Sequence[str]]) -> RowGroup:
    """Make a group of rows; `numbers` has `>` for columns that are aligned to the right."""
    return RowGroup(tuple(columns), tuple(mark == ">" for mark in numbers), tuple(map(tuple, rows)), len(rows))


def _instances(instances: Sequence[InstanceSample]) -> RowGroup:
    columns = (
        "instance", "id", "state", "mode", "role", "lsn", "vclock", "queue", "req/s", "memory", "log", "snapshot", "up",
    )  # fmt: skip
    return _group(columns, "<><<<><>>><<>", [_instance(each) for each in instances])


def _instance(each: InstanceSample) -> list[str]:
    if each.error:
        return [each.address, "", each.error, *[""] * 10]
    state = each.state
    election, queue, snapshot = (state.get(name) or {} for name in ("election", "queue", "snapshot"))
    role = f"{election.get('state', '')} {election.get('term', '')}".strip()
    owner = f" of {queue['owner']}" if queue.get("owner") else ""
    last = snapshot.get("last")
    return [
        each.address,
        str(each.id or ""),
        str(state.get("status", "")),
        each.mode,
        role,
        str(state.get("lsn", "")),
        ", ".join(f"{part}: {lsn}" for part, lsn in sorted(state.get("vclock", {}).items())),
        f"{queue.get('length', 0)}{owner}",
        f"{each.requests_per_second:,}",
        size((state.get("memory") or {}).get("used") or 0),
        str((state.get("wal") or {}).get("mode", "")),
        "writing" if snapshot.get("is_writing") else "" if last is None else f"at {last}",
        duration(state.get("uptime") or 0),
    ]


def _replication(sample: ClusterSample) -> RowGroup:
    names = {each.id: each.address for each in sample.instances if each.id}
    rows = []
    for edge in sample.edges:
        rows.append(
            [
                f"{edge.source} {names.get(edge.source, '')}".strip(),
                f"{edge.target} {names.get(edge.target, '')}".strip(),
                edge.upstream or "",
                edge.downstream or "",
                "" if edge.lag is None else f"{edge.lag:.3f} s",
                "" if edge.idle is None else f"{edge.idle:.1f} s",
                "" if edge.behind is None else str(edge.behind),
                edge.message,
            ]
        )
    return _group(("from", "to", "upstream", "downstream", "lag", "idle", "rows behind", "problem"), "<<<<>>><", rows)


def _spaces(sample: ClusterSample, before: ClusterSample | None, choice: Choice) -> RowGroup:
    found = []
    for each in sample.instances:
        earlier = _earlier(before, each.address)
        known = {space["name"]: space["rows"] for space in earlier.state.get("spaces", ())} if earlier else {}
        seconds = each.taken - earlier.taken if earlier else 0.0
        for space in each.state.get("spaces", ()):
            if choice.text in space["name"]:
                change = space["rows"] - known.get(space["name"], space["rows"])
                found.append((each.address, space, change / seconds if seconds > 0 else None))
    keys: dict[str, Callable[[Any], Any]] = {
        "rows": lambda entry: -entry[1]["rows"],
        "bytes": lambda entry: -entry[1]["bytes"],
        "rate": lambda entry: -abs(entry[2] or 0),
        "name": lambda entry: entry[1]["name"],
    }
    found.sort(key=keys[choice.spaces])
    rows = [
        [
            address,
            space["name"],
            f"{space['rows']:,}",
            size(space["bytes"]),
            "" if rate is None else f"{rate:+,.1f}",
        ]
        for address, space, rate in found[: choice.most]
    ]
    return _group(("instance", "space", "rows", "bytes", "rows/s"), "<<>>>", rows)


def _earlier(before: ClusterSample | None, address: str) -> InstanceSample | None:
    return next((each for each in before.instances if each.address == address), None) if before else None


def _fibers(sample: ClusterSample, choice: Choice) -> RowGroup:
    found = [
        (each.address, fiber)
        for each in sample.instances
        for fiber in each.state.get("fibers", ())
        if choice.text in fiber["name"]
    ]
    keys: dict[str, Callable[[Any], Any]] = {
        "time": lambda entry: (-entry[1]["time"], -entry[1]["switches"]),
        "switches": lambda entry: -entry[1]["switches"],
        "name": lambda entry: entry[1]["name"],
    }
    found.sort(key=keys[choice.fibers])
    rows = [
        [address, str(fiber["id"]), fiber["name"], f"{fiber['switches']:,}", f"{fiber['time']:.3f} s", _share(fiber)]
        for address, fiber in found[: choice.most]
    ]
    columns, numbers = ("instance", "fiber", "name", "switches", "time", "share"), "<><>>>"
    if not any(fiber["time"] for _, fiber in found):  # the instances do not measure the time of fibers
        return _group(columns[:-2], numbers[:-2], [row[:-2] for row in rows])
    return _group(columns, numbers, rows)


def _share(fiber: Mapping[str, Any]) -> str:
    """Return a fiber's share of its instance's processor time, or nothing if it is not measured now."""
    return "" if fiber.get("share") is None else f"{fiber['share']:.1f} %"


def size(count: float) -> str:
    """Format a number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration(seconds: float) -> str:
    """Format a duration: `12 s`, `3 min`, `5 h`, `12 d`."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def heading(sample: ClusterSample, note: str = "") -> str:
    """Return the first line of the view."""
    reached = sum(not each.error for each in sample.instances)
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(sample.taken))
    return f"{reached} of {len(sample.instances)} instances  {clock}{'  ' + note if note else ''}"
