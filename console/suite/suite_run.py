"""A run of all chosen tests, and its report."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from console import streams
from console.suite.case import SUFFIXES, Settings, TestCase, discover
from console.suite.report import Report, RunOutcome
from console.suite.runner import is_debug, run_case
from console.suite.suite_ini import SuiteError
from console.suite.warm import WarmStarter

INTERRUPTED = 130  # 128 + SIGINT, the exit code that shells use
_SLOW = 1.0  # seconds above which a test counts as slow


def run(options: argparse.Namespace, warm: WarmStarter | None) -> int:
    """Run the chosen tests. Returns the exit code that `console.suite.cli.main` describes."""
    try:
        cases = _chosen(options)
    except (SuiteError, OSError) as error:
        print(f"lunabox-test: {error}", file=sys.stderr)
        return 2
    settings = Settings(
        executable=options.executable,
        timeout=options.timeout,
        long=options.long,
        keep=options.keep,
        update=options.update,
        luatest=options.luatest,
        warm=warm,
        sync_timeout=options.sync_timeout,
        test_timeout=options.test_timeout,
    )
    try:
        code = asyncio.run(SuiteRun(cases, settings, options).run_until_signal())
        if sys.stdout is not None:  # it may be closed
            sys.stdout.flush()
        return code
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("lunabox-test: interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:  # nobody reads the report any more, or the disk is full
        where = f"{error.filename}: " if error.filename else ""
        streams.complain(f"lunabox-test: {where}{error.strerror}")
        return streams.finish(2)


def _chosen(options: argparse.Namespace) -> list[TestCase]:
    """Return the chosen test cases without duplicates. Raises OSError, and SuiteError if there are none."""
    found = [case for path in options.paths for case in discover(path)]
    if not found:
        raise SuiteError(_nothing_in(options.paths))
    cases = {(case.path, case.configuration): case for case in found}.values()
    chosen = [
        case
        for case in cases
        if options.filter in case.name
        and not any(text in case.name for text in options.exclude)
        and options.conf in (None, case.configuration or options.conf)
    ]
    if not chosen:
        raise SuiteError(f"-k, --exclude and --conf leave none of {len(cases)} tests")
    return chosen


def _nothing_in(paths: list[Path]) -> str:
    """Return a text about paths without tests: what makes a directory a suite, or what its tests are called."""
    suites = [ini.parent for path in paths for ini in path.rglob("suite.ini")]
    if not suites:
        return f"no suite.ini in {' or '.join(map(str, paths))}, nor below: it makes a directory a suite"
    names = " or ".join(f"*{suffix}" for suffix in SUFFIXES)
    return f"no {names} in {', '.join(sorted(map(str, suites)))}"


class SuiteRun:
    """A run of all chosen tests, and its report."""

    def __init__(self, cases: list[TestCase], settings: Settings, options: argparse.Namespace) -> None:
        self._cases = cases
        self._settings = settings
        self._jobs: int = options.jobs
        self._repeat: int = options.repeat
        self._slowest: int = options.slowest
        self._junit: Path | None = options.junit.absolute() if options.junit else None
        self._force: bool = options.force
        self._results: list[tuple[TestCase, Report]] = []

    async def run_until_signal(self) -> int:
        """Run until the end, or until SIGTERM or SIGHUP, which like Ctrl-C first stop the nodes of running tests."""
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await self._run_all()

    async def _run_all(self) -> int:
        executable = self._settings.executable
        try:
            self._settings = replace(self._settings, debug=await is_debug(executable))
        except OSError as error:
            print(f"lunabox-test: cannot run {executable[0]}: {error.strerror}", file=sys.stderr)
            return 2
        started = time.monotonic()
        parallel = [case for case in self._cases if self._jobs > 1 and case.suite.is_parallel and not case.is_python]
        slots = asyncio.Semaphore(self._jobs)
        for case in self._cases:
            if case not in parallel:
                await self._run(case, slots)
        await asyncio.gather(*(self._run(case, slots) for case in parallel))
        return self._finish(started)

    def _finish(self, started: float) -> int:
        self._print_end(time.monotonic() - started)
        if self._junit is not None:
            from console.suite.junit import write_junit

            write_junit(self._junit, self._results)
        return 1 if self._has_failed() else 0

    def _has_failed(self) -> bool:
        return any(report.outcome is RunOutcome.FAILED for _, report in self._results)

    async def _run(self, case: TestCase, slots: asyncio.Semaphore) -> None:
        """Run all repetitions of a case in sequence, because they write the same files."""
        for number in range(1, self._repeat + 1):
            async with slots:
                if not self._force and self._has_failed():
                    return
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
