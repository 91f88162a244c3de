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
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from box.instance.version import VERSION
from console import streams
from console.suite.junit import write_junit
from console.suite.report import Report, RunOutcome
from console.suite.runner import Settings, TestCase, discover, is_debug, make_warm, run_case
from console.suite.suite_ini import SuiteError

INTERRUPTED = 130  # 128 + SIGINT, as shells have it
_SLOW = 1.0  # seconds from which a test counts as slow


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0 all passed, 1 a test failed, 2 nothing could be run, 130 interrupted."""
    options = _parser().parse_args(arguments)
    try:
        cases = _chosen(options)
    except (SuiteError, OSError) as error:
        print(f"lunabox-test: {error}", file=sys.stderr)
        return 2
    if not cases:
        print("lunabox-test: no tests", file=sys.stderr)
        return 2
    try:
        return asyncio.run(SuiteRun(cases, _settings(options), options).run_until_signal())
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("lunabox-test: interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:  # a report that nobody reads any more, or that has no space
        streams.complain(f"lunabox-test: {error.strerror}")
        return streams.finish(2)


def _chosen(options: argparse.Namespace) -> list[TestCase]:
    """Each once. Raises SuiteError, OSError."""
    found = [case for path in options.paths for case in discover(path)]
    cases = {(case.path, case.configuration): case for case in found}.values()
    return [
        case for case in cases if options.filter in case.name and not any(text in case.name for text in options.exclude)
    ]


def _settings(options: argparse.Namespace) -> Settings:
    settings = Settings(
        timeout=options.timeout,
        long=options.long,
        keep=options.keep,
        update=options.update,
        luatest=options.luatest,
    )
    if options.executable:
        settings = replace(settings, executable=tuple(shlex.split(options.executable)))
    return settings


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lunabox-test",
        description="Run suites of .test.lua and .test.py scripts, and of luatest's _test.lua files.",
    )
    add = parser.add_argument
    add("paths", nargs="+", type=Path, metavar="PATH", help="a script, a suite, or suites below")
    add("-k", dest="filter", default="", metavar="TEXT", help="only tests whose name contains TEXT")
    add("--exclude", action="append", default=[], metavar="TEXT", help="no tests whose name contains TEXT (several)")
    add("-j", dest="jobs", type=_count, default=1, metavar="N", help="so many parallel tests at a time")
    add("--repeat", type=_count, default=1, metavar="N", help="run each test N times")
    add("--executable", metavar="COMMAND", help="run this instead of lunabox")
    add("--luatest", type=Path, metavar="PATH", help="a rocks tree or sources of luatest (default: .rocks, $LUATEST)")
    seconds = Settings().timeout
    add("--timeout", type=_seconds, default=seconds, metavar="SECONDS", help="for one command, or one file of luatest")
    add("--long", action="store_true", help="run the tests that a suite marks as long too")
    add("--keep", action="store_true", help="keep the directories of the nodes")
    add("--update", action="store_true", help="write result files anew where the output is another one")
    add("--junit", type=Path, metavar="FILE", help="write a report as JUnit XML")
    add("--slowest", type=_number, default=5, metavar="N", help="name the N slowest at the end, from a second on (5)")
    add("--version", action=_Version, nargs=0, help="print the version and exit")
    return parser


class _Version(argparse.Action):
    """Prints the version."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"lunabox-test {VERSION}")
        parser.exit()


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"not a number: {text}")
    return int(text)


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


class SuiteRun:
    """One run of all chosen tests, and its report."""

    def __init__(self, cases: list[TestCase], settings: Settings, options: argparse.Namespace) -> None:
        self._cases = cases
        self._settings = settings
        self._jobs: int = options.jobs
        self._repeat: int = options.repeat
        self._slowest: int = options.slowest
        self._junit: Path | None = options.junit
        self._results: list[tuple[TestCase, Report]] = []

    async def run_until_signal(self) -> int:
        """SIGTERM and SIGHUP end a run as Ctrl-C does: the nodes of the running tests are stopped first."""
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await self._run_all()

    async def _run_all(self) -> int:
        executable = self._settings.executable
        try:
            self._settings = replace(self._settings, debug=await is_debug(executable), warm=make_warm(executable))
        except OSError as error:
            print(f"lunabox-test: cannot run {executable[0]}: {error.strerror}", file=sys.stderr)
            return 2
        started = time.monotonic()
        parallel = [case for case in self._cases if self._jobs > 1 and case.suite.is_parallel and not case.is_python]
        slots = asyncio.Semaphore(self._jobs)
        try:
            for case in self._cases:
                if case not in parallel:
                    await self._run(case, slots)
            await asyncio.gather(*(self._run(case, slots) for case in parallel))
        finally:
            if self._settings.warm is not None:
                self._settings.warm.close()
        self._print_end(time.monotonic() - started)
        if self._junit is not None:
            write_junit(self._junit, self._results)
        return 1 if any(report.outcome is RunOutcome.FAILED for _, report in self._results) else 0

    async def _run(self, case: TestCase, slots: asyncio.Semaphore) -> None:
        """All repetitions, one after the other: they would write the same files."""
        for number in range(1, self._repeat + 1):
            async with slots:
                report = await run_case(case, self._settings)
            self._results.append((case, report))
            _print_report(case.name if self._repeat == 1 else f"{case.name} {number}/{self._repeat}", report)

    def _print_end(self, seconds: float) -> None:
        slow = sorted(self._results, key=lambda result: result[1].seconds, reverse=True)[: self._slowest]
        slow = [(case, report) for case, report in slow if report.seconds >= _SLOW]
        if slow:
            print("slowest:")
        for case, report in slow:
            print(f"  {report.seconds:6.2f} s  {case.name}")
        print(_summary((report.outcome for _, report in self._results), seconds))


def _print_report(name: str, report: Report) -> None:
    explained = (RunOutcome.SKIPPED, RunOutcome.NEW, RunOutcome.UPDATED)
    texts = [text for text in (report.text if report.outcome in explained else "", report.note) if text]
    text = f": {'; '.join(texts)}" if texts else ""
    print(f"{name}  {report.outcome.value}{text}  ({report.seconds:.2f} s)", flush=True)
    if report.outcome is RunOutcome.FAILED:
        print(report.text, flush=True)


def _summary(outcomes: Iterable[RunOutcome], seconds: float) -> str:
    counts = Counter(outcomes)
    parts = [f"{counts[outcome]} {outcome.value}" for outcome in RunOutcome if counts[outcome]]
    return f"{', '.join(parts)} in {seconds:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
