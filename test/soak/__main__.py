"""`make soak`: runs campaigns that look for rare failures, and prints the seed of each so that it can be repeated.

Usage: python -m test.soak [--long | --size N] [--seed N] [--part K/N] [--seconds S] [--tarantool PATH] [CAMPAIGN ...]

Without a name all campaigns run. The exit code is 1 if any of them has found a failure.
"""

from __future__ import annotations

import argparse
import math
import random
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

from test.soak import (
    arguments,
    cluster,
    damage,
    damage_tarantool,
    datetimes,
    definitions,
    disk_faults,
    elections,
    index_damage,
    index_kills,
    kills,
    mixed,
    repeats,
    rounds,
    simulated,
    sql,
    sql_damage,
    sql_kills,
    streams,
)
from test.soak.reality import campaign as reality
from test.soak.shares import PROCESSES, WHOLE, Sweep


class Campaign(NamedTuple):
    """A campaign: `run(seed, sweep)` prints each failure and a summary, and returns True if there was no failure.

    `unit` says in the plural what its size counts.
    """

    run: Callable[[int, Sweep], bool]
    unit: str
    short: int
    """The size for `make soak`."""
    long: int
    """The size for `--long`."""


def _replication(seed: int, size: int) -> bool:
    command = [sys.executable, "-m", "test.unit.replication.campaign", "--seeds", str(size), "--first", str(seed)]
    return subprocess.run(command, check=False).returncode == 0


def _packets(seed: int, size: int) -> bool:
    command = [sys.executable, "-m", "test.crash.packets", "--examples", str(size), "--seed", str(seed)]
    return subprocess.run(command, check=False).returncode == 0


def _part(text: str) -> tuple[int, int]:
    number, of = map(int, text.split("/"))
    if not 0 < number <= of:
        raise argparse.ArgumentTypeError(text)
    return number, of


def _by_size(run: Callable[[int, int], bool]) -> Callable[[int, Sweep], bool]:
    """Adapt a campaign that takes its size alone, and cannot be split into parts."""
    return lambda seed, sweep: run(seed, sweep.size)


CAMPAIGNS = {
    "kills": Campaign(_by_size(kills.run_campaign), "kills in each mode", 50, 2000),
    "sql-kills": Campaign(_by_size(sql_kills.run_campaign), "kills during changes of SQL tables", 50, 2000),
    "index-kills": Campaign(
        _by_size(index_kills.run_campaign), "kills during changes of all kinds of indexes", 50, 2000
    ),
    "disk-faults": Campaign(disk_faults.run_campaign, "runs with one or two disk faults", 1000, 8000),
    "damage": Campaign(damage.run_campaign, "files with a changed byte or a cut end", 2000, 10**6),
    "damage-tarantool": Campaign(
        damage_tarantool.run_campaign, "files with a changed byte or a cut end, compared with Tarantool", 200, 10**6
    ),
    "sql-damage": Campaign(sql_damage.run_campaign, "damaged files of SQL tables with constraints", 1000, 10**6),
    "index-damage": Campaign(index_damage.run_campaign, "damaged files of all kinds of indexes", 1000, 10**6),
    "mixed": Campaign(_by_size(mixed.run_campaign), "seconds of work by fifty clients", 60, 600),
    "arguments": Campaign(
        _by_size(arguments.run_campaign), "calls of each public function with random arguments", 5, 100
    ),
    "replication": Campaign(_by_size(_replication), "seeds of random work on three instances", 200, 2000),
    "packets": Campaign(_by_size(_packets), "conversations of hostile packets", 5000, 100_000),
    "streams": Campaign(
        _by_size(streams.run_campaign), "kills of a node, and of a Spark query that follows it", 50, 500
    ),
    "reality": Campaign(
        _by_size(reality.run_campaign), "seeds of each workload, simulated and with real processes", 3, 30
    ),
    "elections": Campaign(elections.run_campaign, "seeds of five processes that elect a leader", 2, 10),
    "simulated": Campaign(
        simulated.run_campaign, "runs of ten simulated minutes, after those that have failed once", 4, 2000
    ),
    "sql": Campaign(_by_size(sql.run_campaign), "SQL statements, compared with Tarantool", 1000, 20_000),
    "definitions": Campaign(
        definitions.run_campaign, "seeds of tasks that change definitions, rows and transactions at once", 5, 100
    ),
    "datetimes": Campaign(
        _by_size(datetimes.run_campaign), "statements of datetimes, compared with Tarantool 2.11", 4000, 20_000
    ),
    "cluster": Campaign(
        _by_size(cluster.run_campaign), "exports on a Spark cluster; in every second one a worker is killed", 4, 20
    ),
    "rounds": Campaign(
        _by_size(rounds.run_campaign), "runs of the replication suite, on an idle and on a busy machine", 20, 100
    ),
    "repeats": Campaign(_by_size(repeats.run_campaign), "runs of each test file on a busy machine", 1, 20),
}


def main() -> int:
    listed = "\n".join(
        f"  {name:12} {about.unit}: {about.short}, long {about.long}" for name, about in CAMPAIGNS.items()
    )
    parser = argparse.ArgumentParser(
        prog="make soak",
        description=f"{__doc__}\nCampaigns, what their size counts, and the sizes:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--long", action="store_true", help="take sizes that fill a night")
    parser.add_argument("--size", type=int, help="take this size for every campaign")
    parser.add_argument("--seed", type=int, default=random.randrange(1, 1_000_000))
    parser.add_argument(
        "--part",
        type=_part,
        default=WHOLE,
        metavar="K/N",
        help="run the K-th of N parts (disk-faults, damage, damage-tarantool, sql-damage, index-damage, simulated)",
    )
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="stop the campaigns that have parts after this time"
    )
    members = parser.add_argument_group("elections")
    members.add_argument("--seconds", type=float, help="how long the work of one seed goes on (also: definitions)")
    members.add_argument(
        "--tarantool", default="", metavar="PATH", help="the executable of Tarantool (also: definitions)"
    )
    members.add_argument("--tarantools", type=int, default=1, metavar="N", help="the number of Tarantool members")
    members.add_argument(
        "--rows", choices=elections.ROWS, default="synchronous", help="the kind of rows that clients insert"
    )
    parser.add_argument("campaigns", nargs="*", metavar="CAMPAIGN", help="the campaigns to run; all if none is named")
    args = parser.parse_args()
    unknown = set(args.campaigns) - CAMPAIGNS.keys()
    if unknown:
        parser.error(f"no such campaign: {', '.join(sorted(unknown))}")
    good = True
    for name in args.campaigns or CAMPAIGNS:
        campaign = CAMPAIGNS[name]
        size = args.size or (campaign.long if args.long else campaign.short)
        sweep = Sweep(
            size, args.part, PROCESSES, args.minutes, args.seconds, args.tarantool, args.tarantools, args.rows
        )
        print(f"{name}: {size} {campaign.unit}, seed {args.seed}", flush=True)
        good = campaign.run(args.seed, sweep) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
