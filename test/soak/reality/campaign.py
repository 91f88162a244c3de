"""The campaign "reality": plays each workload simulated and with real processes, and compares shares of outcomes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from box.testing.simulation.faults import Fault
from box.testing.simulation.run import Scenario, play
from test.soak.reality.injector import KINDS
from test.soak.reality.play import play_really

COMPARED: Final = (
    *((name, "off") for name in ("register", "list", "unique", "bank", "set", "async", "local", "transactions")),
    *((name, "candidate") for name in ("register", "set")),
)
_SECONDS: Final = 10.0
_OPTIONS: Final = {
    "wal_mode": "write",
    "wal_max_size": 50_000,
    "checkpoint_count": 2,
    "memtx_use_mvcc_engine": False,
}
"""Options that a simulated run would draw from its seed. Fixed here, because the speed of fsync differs by machine."""
_FAILING: Final = Fault(2.5, "write", "node1", "node1", 5.0, 0.0)
"""The disk of the first node, which owns the synchronous rows, fails for half of the run."""
_ENDINGS: Final = ("ok", "failed", "unknown")
_HEADS: Final = ("calls a second", *_ENDINGS)


def scenario(seed: int, workload: str, elections: str, *, is_hard: bool) -> Scenario:
    """Return the scenario that is played both simulated and with real processes; `is_hard` adds a disk fault."""
    mild = Scenario(seed, 3, workload, _SECONDS, KINDS, elections=elections, options=dict(_OPTIONS)).with_faults()
    return replace(mild, faults=tuple(sorted((*(mild.faults or ()), _FAILING)))) if is_hard else mild


class _Shares(NamedTuple):
    """The outcomes of one workload, simulated or real: `calls` by ending in `seconds` of clients' time."""

    calls: Counter[str]
    seconds: float

    def of(self, ending: str) -> float:
        """Return the share of calls with this ending, from 0 to 1."""
        return self.calls[ending] / max(self.calls.total(), 1)

    @property
    def columns(self) -> list[str]:
        rate = self.calls.total() / self.seconds
        return [f"{rate:.0f}", *(f"{self.of(ending):.1%}".replace("%", " %") for ending in _ENDINGS)]


def _play(chosen: Scenario, world: str) -> Iterator[str | Counter[str]]:
    """Play a scenario; yield one Counter of calls by ending, and the text of each violation, three at most."""
    if world == "real":
        real = asyncio.run(play_really(chosen))
        yield real.calls
        yield from (f"{violation}; see {real.directory}" for violation in real.violations[:3])
    else:
        simulated = play(chosen)
        yield Counter(simulated.calls)
        yield from simulated.violations[:3]


def run_campaign(seed: int, size: int) -> bool:
    """Play `size` seeds of each workload, simulated and real, mild and hard, and print a table.

    Returns False if a check has found a violation.
    """
    found = 0
    print(f"| workload | world | {' | '.join(_HEADS)} | {', hard | '.join(_HEADS)}, hard |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    distances: dict[bool, list[float]] = {False: [], True: []}
    for workload, elections in COMPARED:
        name = workload if elections == "off" else f"{workload}, {elections}"
        shares: dict[tuple[str, bool], _Shares] = {}
        for world in ("simulated", "real"):
            for is_hard in (False, True):
                total: Counter[str] = Counter()
                for number in range(seed, seed + size):
                    for one in _play(scenario(number, workload, elections, is_hard=is_hard), world):
                        if isinstance(one, str):
                            found += 1
                            hardness = "hard" if is_hard else "mild"
                            print(f"{world} {name}, {hardness}, seed {number}: {one}", flush=True)
                        else:
                            total += one
                shares[world, is_hard] = _Shares(total, size * _SECONDS)
            cells = [name, world, *shares[world, False].columns, *shares[world, True].columns]
            print(f"| {' | '.join(cells)} |", flush=True)
        for is_hard, known in distances.items():
            real, simulated = shares["real", is_hard], shares["simulated", is_hard]
            known.append(max(abs(real.of(ending) - simulated.of(ending)) for ending in _ENDINGS))
    for is_hard, known in distances.items():
        print(
            f"{'hard' if is_hard else 'mild'}: shares differ by {max(known) * 100:.1f} points at most, "
            f"by {sum(known) / len(known) * 100:.1f} on the average"
        )
    print(f"reality, seed {seed}: {size} seeds of each, {found} violations", flush=True)
    return not found
