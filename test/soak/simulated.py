"""The campaign "simulated": runs simulated clusters for ten simulated minutes each, with all kinds of faults.

The seed of a run determines its number of nodes, workload, elections, clients' rate, options and faults. Runs that have
failed once are repeated first. Scenarios that fail are kept as files for `lunabox-sim --replay FILE`.
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
"""The simulated time of one run."""
ONCE_FAILED: Final = (  # seeds whose runs have found defects, all mended since
    *(60074, 60095, 60123, 60207, 60307, 60422, 60493, 60762, 60789, 60831, 60840, 60900, 60916, 60981),
    *(61112, 61332, 61404, 61534, 61702, 61708, 61738, 61789, 61814),
)
_FIRST: Final = 60_000
"""The first seed of the campaign that found `ONCE_FAILED`: `scenario` counts from here, so that they stay the same."""
_DEADLINE: Final = 400.0
"""Processor seconds of one run."""
_ELECTIONS: Final = ("off", "candidate", "off", "candidate", "manual")


class Verdict(NamedTuple):
    """The result of a run. `file` is the kept scenario, empty if there are no violations.

    `cut_off` names nodes that a full disk kept from coming to rest; `processor` is the run's processor time in seconds.
    """

    seed: int
    nodes: int
    violations: tuple[str, ...]
    cut_off: tuple[str, ...]
    processor: float
    file: str


def scenario(seed: int) -> Scenario:
    """Return the scenario of a seed: the remainders of its number choose nodes, workload and options."""
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
    """Play the run of a seed; if it has violations, its scenario is kept in the directory `kept`."""
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
    """Play the runs that have failed once and `sweep.size` more from `seed` on; print violations and a summary.

    Returns True if there was no violation.
    """
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
            print(f"  seed {verdict.seed}, {verdict.nodes} nodes: {first}\n    see {verdict.file}", flush=True)
    print(
        f"simulated, seed {seed}: {runs} runs of {SECONDS:.0f} simulated seconds in {time.monotonic() - begin:.0f} s, "
        f"{processor:.0f} s of processor time; {failed} failed, {restless} did not come to rest because of a full disk"
    )
    if not failed:
        kept.rmdir()
    return not failed
