"""Faults: what happens to a cluster and when, drawn from a seed, so that the list can be shortened and repeated.

```
group     kinds
process   kill, crash (at some `await`), power (a kill unless every write is synced), halt, restart
          away (while the node is down or cut off, the others make snapshots, sometimes after restarts)
          lag (while the node is cut off, the others restart)
          outage (the power fails at some disk operation), relapse (the process ends there, and the power fails soon
          after the next start)
network   isolate, split (in two parts), cut (one direction), only (the node's data reaches only one other node), reset,
          slow, corrupt
disk      write, sync, short, full, read, latency, flush (slow syncs), stuck (a failed write cannot be undone), rot (a
          byte of a log file changes while the node is down: the start has to report it)
clock     jump, drift
files     snapshot
leader    depose (the leader, or the owner of the limbo, is killed, cut off or reaches only one other node), heir (the
          one node that has the waiting transactions becomes leader), doubt (a snapshot while transactions wait, and a
          start from it), stumble (the next leader cannot write for a moment), rivals (with manual elections two terms
          pass while the snapshot of a former leader waits)
people    sources (replication is configured anew), promote (with manual elections)
hazards   lapse (the timeout of a waiting transaction ends about when its leader hears of the next leader), freeze (the
          leader is halted while a transaction waits), stall (a candidate is halted during its election), insist (an
          administrator promotes a node while a transaction waits)
```

`all` excludes the last group, which belongs to runs with short synchronous timeouts (`Scenario.hazards`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Final, NamedTuple

GROUPS: Final = {
    "process": ("kill", "crash", "power", "halt", "restart", "away", "lag", "outage", "relapse"),
    "network": ("isolate", "split", "cut", "only", "reset", "slow", "corrupt"),
    "disk": ("write", "sync", "short", "full", "read", "latency", "flush", "stuck", "rot"),
    "clock": ("jump", "drift"),
    "files": ("snapshot",),
    "leader": ("depose", "heir", "doubt", "stumble", "rivals"),
    "people": ("sources", "promote"),
    "hazards": ("lapse", "freeze", "stall", "insist"),
}
HAZARDS: Final = GROUPS["hazards"]
"""The kinds of faults that need short synchronous timeouts."""
EVERY_KIND: Final = tuple(kind for kinds in GROUPS.values() for kind in kinds)
"""All kinds of faults."""
KINDS: Final = tuple(kind for kind in EVERY_KIND if kind not in HAZARDS)
"""The kinds of faults that `all` stands for."""

_PAUSE: Final = (0.1, 2.0)
"""The range of seconds between the beginnings of two faults."""
_BURST: Final = (0.3, 0.3)
"""The share of faults that come soon after the previous one, and the seconds within which they come.

Faults during the recovery from another one find more defects.
"""
_LENGTHS: Final = ((0.02, 0.3), (0.05, 3.0), (0.05, 3.0), (0.05, 3.0), (0.05, 3.0), (0.05, 3.0), (3.0, 7.0))
"""The ranges of seconds that a fault takes: some end before any timeout, some outlast every one."""


class Fault(NamedTuple):
    """One fault, which begins at the simulated second `at` of the workload and takes `seconds`.

    `amount` is between 0 and 1; each kind of fault derives from it a share, a delay or a choice.
    """

    at: float
    kind: str
    node: str
    other: str
    seconds: float
    amount: float

    def __str__(self) -> str:
        way = f"{self.node} -> {self.other}" if self.kind in ("cut", "only", "slow") else self.node
        return f"{self.at:8.3f}  {self.kind:9} {way}  for {self.seconds:.3f} s, {self.amount:.3f}"


def kinds_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return the kinds for a list of kinds, groups, `all` and `none`.

    Raises:
        ValueError: a name is unknown.
    """
    wanted: set[str] = set()
    for name in names:
        if name == "all":
            wanted.update(KINDS)
        elif name in GROUPS:
            wanted.update(GROUPS[name])
        elif name in EVERY_KIND:
            wanted.add(name)
        elif name != "none":
            known = ", ".join(["all", "none", *GROUPS, *EVERY_KIND])
            raise ValueError(f"unknown fault {name!r}: one of {known} is expected")
    return tuple(kind for kind in EVERY_KIND if kind in wanted)


def draw_faults(random: Random, nodes: Sequence[str], kinds: Sequence[str], seconds: float) -> list[Fault]:
    """Draw the faults of `seconds` simulated seconds."""
    faults: list[Fault] = []
    at = random.uniform(*_PAUSE)
    while kinds and at < seconds:
        node, other = random.choice(nodes), random.choice(nodes)
        faults.append(
            Fault(
                round(at, 6),
                random.choice(kinds),
                node,
                other,
                round(random.uniform(*random.choice(_LENGTHS)), 6),
                round(random.random(), 6),
            )
        )
        share, soon = _BURST
        at += random.uniform(0.0, soon) if random.random() < share else random.uniform(*_PAUSE)
    return faults
