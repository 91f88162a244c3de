"""The campaign "elections": five processes elect leaders, clients follow the leader, and faults depose it.

`--seconds` is the time of one seed. `--tarantools` members run the executable `--tarantool`, the others Lunabox.
`--rows` says what clients insert: synchronous rows, asynchronous ones, or both.
"""

from __future__ import annotations

import asyncio
from typing import Final

from test.soak.reality.election_run import RunChoice, run
from test.soak.shares import Sweep

SECONDS: Final = 60.0
"""The time of one seed without `--seconds`."""
ROWS: Final = {"synchronous": ("orders",), "asynchronous": ("notes",), "both": ("orders", "notes")}


def run_campaign(seed: int, sweep: Sweep) -> bool:
    """Play `sweep.size` seeds from `seed` on, print the result of each, and return True if there was no violation."""
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
            print(f"    files are in {outcome.directory}", flush=True)
    print(f"elections, seed {seed}: {sweep.size} seeds, {failed} failed", flush=True)
    return not failed
