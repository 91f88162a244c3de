"""Runs one test of a suite and compares its output with the result file."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from console.suite.case import (
    LUATEST_SUFFIX,
    PYTHON_SUFFIX,
    SUFFIX,
    SUFFIXES,
    Settings,
    TestCase,
    discover,
    skip_reason,
)
from console.suite.defaults import OWN_EXECUTABLE
from console.suite.dump import dump
from console.suite.inspector import Inspector
from console.suite.instance import InstanceProcess, ServerError, Surroundings
from console.suite.place import CLEAN_MODULE, prepare_place
from console.suite.report import Report, RunOutcome
from console.suite.result_comparison import compare_result, read_result
from console.suite.script import Run, ScriptReader, result_version
from console.suite.session import DEFAULT, TestSession
from console.suite.suite_ini import Fragile, SuiteError
from console.suite.wire import WireError

__all__ = [
    "LUATEST_SUFFIX",
    "PYTHON_SUFFIX",
    "SUFFIX",
    "SUFFIXES",
    "Report",
    "RunOutcome",
    "Settings",
    "TestCase",
    "discover",
    "is_debug",
    "run_case",
]

START_TIMEOUT = 60.0  # seconds until a node is ready


class TimeLimit(ServerError):
    """Raised if a command is not answered in time."""


async def run_case(case: TestCase, settings: Settings) -> Report:
    """Run a case; a fragile one is run again after a failure that may be its known one."""
    begun = time.monotonic()
    report = await _run_once(case, settings)
    fragile = case.suite.fragile.get(case.path.name)
    tries = 0
    while fragile and report.outcome is RunOutcome.FAILED and tries < fragile.retries and _is_usual(fragile, report):
        tries += 1
        report = await _run_once(case, settings)
    if tries and fragile:
        issues = f" ({', '.join(fragile.issues)})" if fragile.issues else ""
        report = report.with_note(f"fragile, {tries} more {'try' if tries == 1 else 'tries'}{issues}")
    return replace(report, seconds=time.monotonic() - begun)


def _is_usual(fragile: Fragile, report: Report) -> bool:
    """Return whether a failure's output is one that the suite knows, or the suite accepts any."""
    if not fragile.checksums:
        return True
    output = report.output.encode(errors="surrogateescape")
    return hashlib.md5(output, usedforsecurity=False).hexdigest() in fragile.checksums


async def _run_once(case: TestCase, settings: Settings) -> Report:
    """Run a case in a new directory, which is removed afterwards. A case that cannot run has failed."""
    # The name is short because the path of a unix socket has at most 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="lb-"))
    try:
        reason = skip_reason(case, settings)
        if reason:
            return Report(RunOutcome.SKIPPED, reason)
        own = (CLEAN_MODULE,) if case.suite.pretest_clean else ()
        prepare_place(directory, settings.executable, (*own, *case.suite.lua_libs))
        if case.suite.core == "luatest":
            from console.suite.luatest import run_luatest

            return await run_luatest(case, settings, directory)
        if case.suite.core in ("app", "tap"):
            return await _run_app(case, settings, directory)
        if case.is_python:
            return await _run_python(case, settings, directory)
        return await _run_script(case, settings, directory)
    except (SuiteError, OSError) as error:
        return Report(RunOutcome.FAILED, str(error))
    finally:
        if not settings.keep:
            shutil.rmtree(directory, ignore_errors=True)


def _surroundings(case: TestCase, settings: Settings, directory: Path, inspector: tuple[str, int]) -> Surroundings:
    return Surroundings(
        suite=case.suite,
        executable=settings.executable,
        directory=directory,
        inspector=inspector,
        start_timeout=min(START_TIMEOUT, settings.timeout),
        sync_timeout=settings.sync_timeout,
        warm=settings.warm,
    )


async def _run_app(case: TestCase, settings: Settings, directory: Path) -> Report:
    """Run a case whose script is not a server for commands, although it may create servers."""
    from console.suite.app import NO_TAP, check_output, run_app

    inspector = Inspector()
    await inspector.start()
    around = _surroundings(case, settings, directory, inspector.address)
    session = TestSession(around, case.params, ScriptReader(result_version(None)))
    inspector.session = session
    servers = ""
    try:
        run = await run_app(InstanceProcess("app", case.path, around), settings.program_timeout)
        if run.is_late:
            servers = await dump(session.servers.values())
    finally:
        failures = session.failures()
        await inspector.close()
        await session.close()
    expected = read_result(case)
    problem = run.problem
    if expected is None or problem:
        wrong = check_output(run.output, expected)
        if wrong == NO_TAP and settings.update and not problem and not failures:
            return compare_result(case, settings, run.output, None, None, failures, run.errors)
        notes = [note for note in (problem, wrong, *failures) if note]
        text = "\n".join([*notes, run.output + run.errors, servers])
        return Report(RunOutcome.FAILED, text, output=run.output) if notes else Report(RunOutcome.PASSED)
    return compare_result(case, settings, run.output, expected, None, failures, run.errors)


async def _run_python(case: TestCase, settings: Settings, directory: Path) -> Report:
    from console.suite.python_test import run_python_test

    if case.suite.script is None:
        return Report(RunOutcome.FAILED, f"{case.suite.path}/suite.ini names no script")
    around = _surroundings(case, settings, directory, ("127.0.0.1", 0))
    expected = read_result(case)
    name = case.configuration or ""
    outcome = await run_python_test(case.path, case.suite.script, around, settings.program_timeout, name, case.params)
    return compare_result(case, settings, outcome.output, expected, outcome.problem, outcome.crashes, outcome.logs)


async def _run_script(case: TestCase, settings: Settings, directory: Path) -> Report:
    expected = read_result(case)
    try:
        reader = ScriptReader(result_version(expected))
    except ValueError as error:
        raise SuiteError(f"{case.result}: {error}") from error
    inspector = Inspector()
    await inspector.start()
    around = _surroundings(case, settings, directory, inspector.address)
    session = TestSession(around, case.params, reader, case.language)
    inspector.session = session
    output: list[str] = [reader.header()]
    problem: str | None = None
    try:
        if case.suite.script is None:
            raise ServerError(f"{case.suite.path}/suite.ini names no script")
        async with asyncio.timeout(settings.test_timeout):
            await session.start_default(InstanceProcess(DEFAULT, case.suite.script, around))
            await _play(case.path, reader, session, inspector, output, settings.timeout)
    except TimeoutError:
        problem = f"not finished within {settings.test_timeout:g} s\n{await dump(session.servers.values())}"
    except (ServerError, WireError, OSError) as error:
        problem = str(error)
        if isinstance(error, TimeLimit):
            problem += "\n" + await dump(session.servers.values())
    finally:
        failures = session.failures()
        await inspector.close()
        await session.close()
    logs = _tails(session, [problem or "", *failures])
    return compare_result(case, settings, "".join(output), expected, problem, failures, logs)


async def _play(
    path: Path, reader: ScriptReader, session: TestSession, inspector: Inspector, output: list[str], timeout: float
) -> None:
    for line in _source_lines(path):
        for action in reader.feed(line):
            if isinstance(action, Run):
                reply = await _carry_out(action.command, session, inspector, timeout)
                output.append(session.filters.apply(reader.reply(reply)))
            else:
                output.append(session.filters.apply(action.text))
            if session.failures():
                return
    output.extend(session.filters.apply(action.text) for action in reader.finish() if not isinstance(action, Run))


async def _carry_out(command: str, session: TestSession, inspector: Inspector, timeout: float) -> str:
    """Run a command and return its reply. Raises ServerError if there is none in time."""
    try:
        async with asyncio.timeout(timeout):
            reply = await session.execute(command)
            # A command that restarts its own node may end while the inspector is still working.
            await inspector.idle()
            if not reply:
                await session.settle()
            return reply
    except TimeoutError:
        raise TimeLimit(f"no answer within {timeout:g} s to: {command.strip()}") from None


def _source_lines(path: Path) -> list[str]:
    text = path.read_text(errors="surrogateescape")
    return text.removesuffix("\n").split("\n") if text else []


def _tails(session: TestSession, shown: list[str]) -> str:
    """Return the last lines of each server's log, without those that are in a text shown already."""
    tails = ((server.name, server.tail()) for server in session.servers.values())
    return "".join(
        f"--- log of {name}\n{tail}\n" for name, tail in tails if not any(tail and tail in text for text in shown)
    )


async def is_debug(executable: tuple[str, ...]) -> bool:
    """Return whether `EXE --version` reports a debug build. Raises OSError if it cannot be run."""
    if executable == OWN_EXECUTABLE:
        return True
    process = await asyncio.create_subprocess_exec(*executable, "--version", stdout=asyncio.subprocess.PIPE)
    stdout, _ = await process.communicate()
    return any(line.startswith(b"Target:") and b"Debug" in line for line in stdout.splitlines())
