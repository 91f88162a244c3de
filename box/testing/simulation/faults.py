"""Faults: what happens to a cluster and when, planned from a seed, so that a plan can be shortened and played again.

```
group     kinds
process   kill, crash (at some `await`), power (a kill unless every write is synced), halt, restart
          away (while the node is down or cut off, the others make snapshots, some after a restart of each)
          lag (while the node is cut off, the others are started again)
          outage (the power goes at some operation of the disk), relapse (the process ends there, and the power goes
          soon after the next start)
network   isolate, split (in two parts), cut (one direction), only (what the node sends reaches one other only), reset,
          slow, corrupt
disk      write, sync, short, full, read, latency, flush (slow syncs), stuck (a failed write cannot be taken back), rot
          (a byte of a log file changes while the node is down: the start has to say so)
clock     jump, drift
files     snapshot
leader    depose (whoever leads, or owns the queue, is killed, is cut off, or reaches one other only), heir (who alone
          has what waits comes to lead), doubt (a snapshot of what waits, and a start from it), stumble (who comes to
          lead cannot write for a moment), rivals (with manual elections two terms pass while the snapshot of a former
          leader waits)
people    sources (replication is configured anew), promote (with manual elections)
hazards   lapse (the time of what waits at the leader runs out about when it hears of the next one), freeze (the leader
          stands still while something waits), stall (a candidate stands still in the middle of its election), insist
          (an administrator makes somebody the leader while something waits)
```

`all` does not stand for the last group, which belongs to runs with short synchronous timeouts (`Scenario.hazards`).
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
EVERY_KIND: Final = tuple(kind for kinds in GROUPS.values() for kind in kinds)
KINDS: Final = tuple(kind for kind in EVERY_KIND if kind not in HAZARDS)
"""Kinds of faults that `all` stands for."""

_PAUSE: Final = (0.1, 2.0)
"""Seconds between the beginnings of two faults."""
_BURST: Final = (0.3, 0.3)
"""The share of faults that come soon after the one before, and within how many seconds: what happens while a cluster
gets over something else is worth more."""
_LENGTHS: Final = ((0.02, 0.3), (0.05, 3.0), (0.05, 3.0), (0.05, 3.0), (0.05, 3.0), (0.05, 3.0), (3.0, 7.0))
"""Seconds that a fault takes: some are over before anybody has noticed, some outlast every timeout."""


class Fault(NamedTuple):
    """One fault: it begins `at` a simulated second of the workload and takes `seconds`. `amount` is seconds of a slow
    way or of a clock, or a share."""

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
    """The kinds that names of kinds and groups, `all` and `none` stand for. ValueError for an unknown name."""
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


def plan(random: Random, nodes: Sequence[str], kinds: Sequence[str], seconds: float) -> list[Fault]:
    """Faults for so many seconds."""
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
