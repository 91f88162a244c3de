"""Elections over real processes: five members, clients that follow the leader, faults that depose it all the time.

`--seconds` is the time of one seed, `--tarantool` an executable that one of the members runs, `--tarantools` how many
run it. `--rows` says what clients insert: synchronous rows, asynchronous ones, or both.
"""

from __future__ import annotations

import asyncio
from typing import Final

from test.soak.reality.election_run import RunChoice, run
from test.soak.shares import Sweep

SECONDS: Final = 60.0
ROWS: Final = {"synchronous": ("orders",), "asynchronous": ("notes",), "both": ("orders", "notes")}


def run_campaign(seed: int, sweep: Sweep) -> bool:
    """Play `sweep.size` seeds from `seed` on, print what each has found. False if one has found something."""
    failed = 0
    for number in range(seed, seed + sweep.size):
        chosen = RunChoice(
            number,
            sweep.seconds or SECONDS,
            tarantool=sweep.tarantool,
            tarantools=sweep.tarantools,
            spaces=ROWS[sweep.rows],
        )
        outcome = asyncio.run(run(chosen))
        calls = ", ".join(f"{count} {ending}" for ending, count in sorted(outcome.calls.items()))
        print(
            f"  seed {number}: {outcome.faults} faults, {outcome.terms} terms, calls: {calls or 'none'}; "
            f"equal vclocks {outcome.equal_after:.2f} s after the last leader",
            flush=True,
        )
        for name, error in outcome.diverged.items():
            print(f"    {name} (Tarantool) has diverged, as all others say: {error}", flush=True)
        for text in (*outcome.crashes, *outcome.violations):
            print(f"    {text}", flush=True)
        if outcome.violations:
            failed += 1
            print(f"    see {outcome.directory}", flush=True)
    print(f"elections, seed {seed}: {sweep.size} seeds, {failed} failed", flush=True)
    return not failed
