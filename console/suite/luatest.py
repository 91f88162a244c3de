"""`core = luatest`: a file of tests that the luatest framework runs, unmodified, on the node.

```
.rocks                      a rocks tree: share/tarantool/luatest, share/tarantool/checks.lua, ...
PROJECT/.rocks              a rocks tree, found from the suite's directory upwards
CHECKOUT                    sources: luatest/init.lua, and what it needs beside it or on LUA_PATH
```

The framework starts servers with the command `tarantool`. The first directory on PATH has one, which is the node under
test.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import lua
from console.suite.case import Settings, TestCase
from console.suite.defaults import ENVIRONMENT
from console.suite.process import spawn
from console.suite.report import Report, RunOutcome, TestPart
from console.suite.suite_ini import SuiteError

STARTER = Path(lua.__file__).parent / "modules" / "suite" / "luatest.lua"
_VARIABLE = "LUATEST"
_SHARE = Path("share/tarantool")
_RESULT = re.compile(r"^(ok|not ok)\s+(\d+)\b\s*(?:-\s+)?(.*?)(?:\s*#\s*(skip|todo|xfail)\b\s*(.*))?$", re.IGNORECASE)
_PLAN = re.compile(r"^1\.\.(\d+)")
_LOG_LINES = 60
"""The last lines of an instance's log that a report shows."""
_PROJECT_MARKS = (".rocks", ".git")


def find_luatest(case: TestCase, settings: Settings) -> list[Path]:
    """Return directories for LUA_PATH that have the framework; the first one configured wins. Raises SuiteError."""
    named = settings.luatest or (Path(os.environ[_VARIABLE]) if os.environ.get(_VARIABLE) else None)
    if named is not None:
        roots = [root.resolve() for root in _roots(named) if (root / "luatest" / "init.lua").is_file()]
        if not roots:
            raise SuiteError(f"{named}: no luatest there")
        return roots
    for directory in case.suite.path.parents:
        root = directory / ".rocks" / _SHARE
        if (root / "luatest" / "init.lua").is_file():
            return [root]
    for entry in os.environ.get("LUA_PATH", "").split(";"):
        root = Path(entry.partition("?")[0])
        if entry and (root / "luatest" / "init.lua").is_file():
            return []
    remedy = f"install it there, or name it with --luatest PATH or ${_VARIABLE}"
    raise SuiteError(f"no luatest in a directory .rocks above {case.suite.path}: {remedy}")


def _roots(path: Path) -> Iterator[Path]:
    yield from (path, path / _SHARE, path / ".rocks" / _SHARE, path.parent)


def project_of(case: TestCase) -> Path:
    """Return the directory to start the framework in: the nearest one above the suite that looks like a project's."""
    for directory in case.suite.path.parents:
        if any((directory / mark).exists() for mark in _PROJECT_MARKS) or any(directory.glob("*.rockspec")):
            return directory
    return case.suite.root


async def run_luatest(case: TestCase, settings: Settings, directory: Path) -> Report:
    """Run one file. The report has its tests as parts."""
    roots = find_luatest(case, settings)
    _make_commands(directory, settings.executable)
    log = directory / "luatest.log"
    output = directory / "output.tap"
    # The framework derives the name of a module from the path, which has to be relative to its working directory.
    file = case.path.relative_to(project_of(case))
    command = (*settings.executable, str(STARTER), "-c", "-v", "-o", "tap", f"./{file}")
    with output.open("wb") as stdout, log.open("wb") as stderr:
        process = await spawn(
            command, cwd=project_of(case), env=_environment(case, directory, roots), stdout=stdout, stderr=stderr
        )
        problem = None
        try:
            async with asyncio.timeout(settings.program_timeout):
                await process.wait()
        except TimeoutError:
            problem = f"not finished within {settings.program_timeout:g} s"
        finally:
            await _kill_group(process)
    return _report(output.read_text(errors="replace"), problem, process.returncode, _end_of(log))


def _make_commands(directory: Path, executable: tuple[str, ...]) -> None:
    command = directory / "bin" / "tarantool"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.join(executable)} "$@"\n')
    command.chmod(0o755)


def _environment(case: TestCase, directory: Path, roots: list[Path]) -> dict[str, str]:
    suite = case.suite
    paths = [*roots, project_of(case), suite.path, suite.root, directory]
    lua_path = ";".join(f"{path}/?.lua;{path}/?/init.lua" for path in paths)
    vardir = directory / "t"
    return {
        **ENVIRONMENT,
        **os.environ,
        "PATH": f"{directory / 'bin'}:{os.environ.get('PATH', '')}",
        "LUA_PATH": f"{lua_path};{os.environ.get('LUA_PATH', '')};;",
        "VARDIR": str(vardir),
        "TEST_SUITE_CONFIGURATION": case.configuration or "",
        "SOURCEDIR": str(suite.root.parent),
        "BUILDDIR": str(suite.root.parent),
    }


async def _kill_group(process: asyncio.subprocess.Process) -> None:
    """Kill the framework and the servers that it has left."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _end_of(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:])


def _report(output: str, problem: str | None, code: int | None, log: str) -> Report:
    parts = tuple(parse_tap(output))
    failed = [part for part in parts if part.outcome is RunOutcome.FAILED]
    if problem is None and not failed:
        problem = _what_is_wrong(output, parts, code)
    note = _counts(parts)
    if problem is None and not failed:
        skipped = bool(parts) and all(part.outcome is RunOutcome.SKIPPED for part in parts)
        return Report(RunOutcome.SKIPPED if skipped else RunOutcome.PASSED, "all of it" if skipped else "", note, parts)
    lines = [problem] if problem else []
    lines += [f"not ok {part.name}\n{part.text}" for part in failed]
    if problem:
        lines.append(output)
    return Report(RunOutcome.FAILED, "\n".join([*lines, f"--- log\n{log}"]), note, parts)


def _what_is_wrong(output: str, parts: tuple[TestPart, ...], code: int | None) -> str | None:
    """Return the problem with a run in which no test failed, or None."""
    plan = next((match for line in output.splitlines() if (match := _PLAN.match(line))), None)
    if plan is None:
        return f"no plan, exit code {code}"
    if int(plan[1]) != len(parts):
        return f"planned {plan[1]} tests, ran {len(parts)}, exit code {code}"
    return f"exit code {code}" if code else None


def _counts(parts: tuple[TestPart, ...]) -> str:
    counts = ((outcome, sum(part.outcome is outcome for part in parts)) for outcome in RunOutcome)
    return ", ".join(f"{count} {outcome.value}" for outcome, count in counts if count)


def parse_tap(output: str) -> Iterator[TestPart]:
    """Yield the tests of a TAP stream; lines between two results explain the first of them."""
    current: re.Match[str] | None = None
    lines: list[str] = []
    for line in output.splitlines():
        match = _RESULT.match(line)
        if match is None:
            lines.append(line.removeprefix("#").strip())
            continue
        if current is not None:
            yield _part(current, lines)
        current, lines = match, []
    if current is not None:
        yield _part(current, lines)


def _part(match: re.Match[str], lines: list[str]) -> TestPart:
    result, number, name, directive, reason = match.groups()
    name = name or f"test {number}"
    if directive and directive.lower() != "xfail":
        return TestPart(name, RunOutcome.SKIPPED, reason or directive)
    if result == "ok":
        return TestPart(name, RunOutcome.PASSED)
    return TestPart(name, RunOutcome.FAILED, "\n".join(line for line in lines if line and not _PLAN.match(line)))
