"""`lunabox-test PATH...`: run suites and print what came of them."""

from __future__ import annotations

import argparse
import asyncio
import math
import shlex
import signal
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from console import streams
from console.suite.runner import Report, RunOutcome, Settings, TestCase, discover, is_debug, run_case
from console.suite.suite_ini import SuiteError

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0 all passed, 1 a test failed, 2 nothing could be run, 130 interrupted."""
    options = _parser().parse_args(arguments)
    try:
        found = [case for path in options.paths for case in discover(path)]
    except (SuiteError, OSError) as error:
        print(f"lunabox-test: {error}", file=sys.stderr)
        return 2
    cases = list({(case.path, case.configuration): case for case in found}.values())
    if options.filter:
        cases = [case for case in cases if options.filter in case.name]
    if not cases:
        print("lunabox-test: no tests", file=sys.stderr)
        return 2
    settings = Settings(timeout=options.timeout, long=options.long, keep=options.keep)
    if options.executable:
        settings = replace(settings, executable=tuple(shlex.split(options.executable)))
    try:
        return asyncio.run(_run_until_signal(cases, settings, options.jobs))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("lunabox-test: interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:  # a report that nobody reads any more, or that has no space
        streams.complain(f"lunabox-test: {error.strerror}")
        return streams.finish(2)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lunabox-test", description="Run suites of .test.lua and .test.py scripts.")
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a script, a suite, or suites below")
    parser.add_argument("-k", dest="filter", default="", metavar="TEXT", help="only tests whose name contains TEXT")
    parser.add_argument("-j", dest="jobs", type=_count, default=1, metavar="N", help="so many parallel tests at a time")
    parser.add_argument("--executable", metavar="COMMAND", help="run this instead of lunabox")
    seconds = Settings().timeout
    parser.add_argument("--timeout", type=_seconds, default=seconds, metavar="SECONDS", help="for one command")
    parser.add_argument("--long", action="store_true", help="run the tests that a suite marks as long too")
    parser.add_argument("--keep", action="store_true", help="keep the directories of the nodes")
    return parser


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"not a positive number: {text}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"not a positive number: {text}")
    return seconds


async def _run_until_signal(cases: list[TestCase], settings: Settings, jobs: int) -> int:
    """SIGTERM and SIGHUP end a run as Ctrl-C does: the nodes of the running tests are stopped first."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await _run_all(cases, settings, jobs)


async def _run_all(cases: list[TestCase], settings: Settings, jobs: int) -> int:
    try:
        settings = replace(settings, debug=await is_debug(settings.executable))
    except OSError as error:
        print(f"lunabox-test: cannot run {settings.executable[0]}: {error.strerror}", file=sys.stderr)
        return 2
    counts: Counter[RunOutcome] = Counter()
    started = time.monotonic()
    slots = asyncio.Semaphore(jobs)

    async def run(case: TestCase) -> None:
        async with slots:
            begun = time.monotonic()
            report = await run_case(case, settings)
        counts[report.outcome] += 1
        _print_report(case, report, time.monotonic() - begun)

    parallel = [case for case in cases if jobs > 1 and case.suite.is_parallel and not case.is_python]
    for case in cases:
        if case not in parallel:
            await run(case)
    await asyncio.gather(*(run(case) for case in parallel))
    print(_summary(counts, time.monotonic() - started))
    return 1 if counts[RunOutcome.FAILED] else 0


def _print_report(case: TestCase, report: Report, seconds: float) -> None:
    text = f": {report.text}" if report.outcome in (RunOutcome.SKIPPED, RunOutcome.NEW) else ""
    print(f"{case.name}  {report.outcome.value}{text}  ({seconds:.2f} s)", flush=True)
    if report.outcome is RunOutcome.FAILED:
        print(report.text, flush=True)


def _summary(counts: Counter[RunOutcome], seconds: float) -> str:
    parts = [f"{counts[outcome]} {outcome.value}" for outcome in RunOutcome if counts[outcome]]
    return f"{', '.join(parts)} in {seconds:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
