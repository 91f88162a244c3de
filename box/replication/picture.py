"""`box.ctl.replication_tree`: draws the replication streams of one instance as a tree of text.

```
1  5b0c7a1e  here, running
├─ fetches
│  ├─ 2  0d3f9b42  follow, lag 0.4 ms  rows of 2, 4
│  └─ 3  9c11e08a  disconnected  connect, called on fd 24, aka 127.0.0.1:3303: Connection refused
└─ is fetched by
   └─ 2  0d3f9b42  follow, 12 rows behind
```

The tree shows only what `box.info` knows; no other instance is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from box.wire.vclock import VClock

Info = Mapping[str, Any]


def replication_tree(info: Info) -> str:
    """Return the tree of a `box.info` that has `id`, `uuid`, `status`, `vclock`, `replication`, `replication_anon`."""
    replicas = [*info["replication"].values(), *info["replication_anon"].values()]
    upstreams = [_peer(each) + _upstream(each["upstream"]) for each in replicas if "upstream" in each]
    vclock = VClock(info["vclock"])
    downstreams = [_peer(each) + _downstream(each["downstream"], vclock) for each in replicas if "downstream" in each]
    branches = [("fetches", upstreams), ("is fetched by", downstreams)]
    here = f"{info['id'] or '-'}  {info['uuid'][:8]}  here, {info['status']}"
    return "\n".join([here, *_branches([branch for branch in branches if branch[1]])])


def _branches(branches: Sequence[tuple[str, list[str]]]) -> Iterator[str]:
    for number, (title, leaves) in enumerate(branches, 1):
        is_last = number == len(branches)
        yield ("└─ " if is_last else "├─ ") + title
        trunk = "   " if is_last else "│  "
        yield from (trunk + "├─ " + leaf for leaf in leaves[:-1])
        yield trunk + "└─ " + leaves[-1]


def _peer(replica: Info) -> str:
    """Return the id, "-" for an anonymous replica, and the first 8 digits of the uuid."""
    return f"{replica['id'] or '-'}  {replica['uuid'][:8]}  "


def _error(stream: Info) -> str:
    message, reason = stream.get("message"), stream.get("system_message")
    return f"  {message}" + (f": {reason}" if reason else "") if message else ""


def _upstream(upstream: Info) -> str:
    text: str = upstream["status"]
    if upstream["lag"] != float("inf"):
        text += f", lag {upstream['lag'] * 1000:.1f} ms"
    fetches = upstream.get("fetches")
    if fetches is not None:
        text += "  rows of " + (", ".join(map(str, fetches)) or "nobody")
    elif upstream["status"] in ("sync", "follow"):
        text += "  all rows"
    return text + _error(upstream)


def _downstream(downstream: Info, here: VClock) -> str:
    text: str = downstream["status"]
    if "vclock" in downstream:
        there = downstream["vclock"]
        behind = sum(max(lsn - there.get(replica_id, 0), 0) for replica_id, lsn in here.items() if replica_id)
        text += f", {behind} rows behind" if behind else ", has everything"
    return text + _error(downstream)
