"""`lunabox top URI...`: a live view of an instance or a replica set."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Final

from box.net.uri import address_of
from console import streams
from console.interactive.settings import load
from console.remote.nodes import address_problem
from console.remote.remote_console import CONNECTION, FINE, USAGE
from console.top.sampling import ClusterSample, ClusterWatch

_EPILOG: Final = """\
Each URI is an instance: [user[:password]@]host:port or unix/:path.

keys: q leaves, space holds still, s and f sort spaces and fibers, / filters by name, + and - change the speed

exit codes: 0 fine, 1 the file cannot be written, 2 wrong command line, 3 no instance answered

examples:
  lunabox top admin:secret@db1:3301 admin:secret@db2:3301
  lunabox top --once db1:3301
  lunabox top --fiber-times db1:3301
  lunabox top --json db1:3301 | jq .edges
  lunabox top --svg cluster.svg db1:3301 db2:3301 db3:3301
"""


def parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    options = argparse.ArgumentParser(
        prog="lunabox top",
        description="Show instances: replication with its lag, vclocks, requests, spaces, fibers, memory.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    options.add_argument("uris", metavar="URI", nargs="+", help="where an instance listens")
    options.add_argument("--once", action="store_true", help="print it as text, and end")
    options.add_argument("--json", action="store_true", help="print it as JSON, and end")
    options.add_argument("--svg", metavar="FILE", help="draw the replica set, and end")
    options.add_argument("--fiber-times", action="store_true", help="let the instances measure fibers meanwhile")
    options.add_argument("--interval", metavar="SECONDS", type=_seconds, default=2.0, help="between two looks (2)")
    return options


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.1 <= number <= 3600:  # asking more often would be a load on the instances
        raise argparse.ArgumentTypeError(f"{text}: from 0.1 to 3600 seconds")
    return number


def main(arguments: list[str]) -> int:
    """Run the command and return its exit code."""
    try:
        options = parser().parse_args(arguments)
    except SystemExit as end:
        return USAGE if end.code else FINE
    for address in options.uris:
        problem = address_problem(address)
        if problem is not None:
            streams.complain(f"lunabox top: {problem}")
            return USAGE
    is_live = not (options.once or options.json or options.svg)
    if is_live and not (sys.stdin.isatty() and sys.stdout.isatty()):
        streams.complain("lunabox top: this is no terminal: use --once, --json or --svg FILE")
        return USAGE
    try:
        return asyncio.run(_run(options, is_live))
    except KeyboardInterrupt:
        return 130  # what a shell reports after SIGINT: 128 and the signal's number


async def _run(options: argparse.Namespace, is_live: bool) -> int:
    watch = ClusterWatch(options.uris, is_timed=options.fiber_times)
    try:
        if is_live:
            from console.top.live_view import LiveView

            await LiveView(watch, options.interval, load()[0].style).run()
            return FINE
        sample = await watch.sample()
        if options.fiber_times and any(each.state for each in sample.instances):
            await asyncio.sleep(options.interval)
            sample = await watch.sample()
        return _report(sample, options)
    finally:
        await watch.close()


def _report(sample: ClusterSample, options: argparse.Namespace) -> int:
    from console.top.drawing import picture
    from console.top.overview import Choice, heading, overview

    for each in sample.instances:
        if each.error:
            streams.complain(f"lunabox top: {address_of(each.address)}: {each.error}")
    if all(each.error for each in sample.instances):
        return CONNECTION
    if options.svg:
        try:
            Path(options.svg).write_text(picture(sample), encoding="utf-8")
        except OSError as error:
            streams.complain(f"lunabox top: {options.svg}: {error.strerror}")
            return 1
    if options.json:
        streams.write(json.dumps(sample.as_json(), indent=2, default=str) + "\n")
    elif options.once or not options.svg:
        streams.write(f"{heading(sample)}\n\n{overview(sample, None, Choice())}")
    return FINE
