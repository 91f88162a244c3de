"""Simulated clusters for ten minutes each. The number of a run says everything about it: nodes, workload, elections,
how much clients do, options. Faults of all kinds. Scenarios that fail are kept, for `lunabox-sim --replay FILE`.

The runs that failed once come first, whatever the size: what they had found is mended.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from box.testing.simulation.run import Scenario, play
from box.testing.simulation.workloads import WORKLOADS
from test.soak.shares import Sweep

SECONDS: Final = 600.0
ONCE_FAILED: Final = (
    *(60074, 60095, 60123, 60207, 60307, 60422, 60493, 60762, 60789, 60831, 60840, 60900, 60916, 60981),
    *(61112, 61332, 61404, 61534, 61702, 61708, 61738, 61789, 61814),
)
_FIRST: Final = 60_000
"""Of the two thousand that found those."""
_DEADLINE: Final = 400.0
"""Processor seconds of one run."""
_ELECTIONS: Final = ("off", "candidate", "off", "candidate", "manual")


class Verdict(NamedTuple):
    """How a run ended. `file` is the scenario's, empty if no check has found something."""

    seed: int
    nodes: int
    violations: tuple[str, ...]
    cut_off: tuple[str, ...]
    processor: float
    file: str


def scenario(seed: int) -> Scenario:
    """The run of this number: of five nodes if it is odd."""
    number = seed - _FIRST
    names = sorted(WORKLOADS)
    workload = names[number // 2 % len(names)]
    elections = _ELECTIONS[number // 2 // len(names) % len(_ELECTIONS)] if WORKLOADS[workload].may_elect else "off"
    options: dict[str, Any] = {"replication_timeout": (0.25, 1.0, 1.0)[number // 3 % 3]}
    if number % 7 in (2, 5):
        options["replication_fetch_once"] = True
    rate = (5.0, 2.0, 1.0)[number % 3]
    return Scenario(seed, 5 if number % 2 else 3, workload, SECONDS, elections=elections, rate=rate, options=options)


def outcome(kept: Path, seed: int) -> Verdict:
    """Play the run of this number."""
    chosen = scenario(seed)
    played = play(chosen, deadline=_DEADLINE, keeps_messages=False)
    path = kept / f"{seed}.json"
    if played.violations:
        path.write_text(played.scenario.to_json())
    return Verdict(
        seed,
        chosen.nodes,
        tuple(played.violations),
        tuple(played.cut_off),
        played.processor,
        str(path) if played.violations else "",
    )


def run_campaign(seed: int, sweep: Sweep) -> bool:
    """Play what failed once and `sweep.size` runs from `seed` on, print what fails, and a summary. False for one."""
    kept = Path(tempfile.mkdtemp(prefix="simulated"))
    numbers = (*ONCE_FAILED, *range(seed, seed + sweep.size))
    begin, runs, failed, restless, processor = time.monotonic(), 0, 0, 0, 0.0
    for verdict in sweep.outcomes(partial(outcome, kept), numbers):
        runs += 1
        processor += verdict.processor
        failed += bool(verdict.violations)
        restless += bool(verdict.cut_off)
        if verdict.violations:
            first = verdict.violations[0].splitlines()[0][:200]
            print(f"  {verdict.seed}, {verdict.nodes} nodes: {first}\n    see {verdict.file}", flush=True)
    print(
        f"simulated, seed {seed}: {runs} runs of {SECONDS:.0f} simulated seconds in {time.monotonic() - begin:.0f} s, "
        f"{processor:.0f} of processors; {failed} failed, {restless} without rest behind a full disk"
    )
    if not failed:
        kept.rmdir()
    return not failed
