"""Runs one test of a suite and compares its output with the result file."""

from __future__ import annotations

import asyncio
import difflib
import shutil
import sys
import tempfile
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import SimpleNamespace

import lua
from console.suite.app import run_app
from console.suite.inspector import Inspector
from console.suite.instance import InstanceProcess, ServerError, StartOptions, Surroundings
from console.suite.python_test import run_python_test
from console.suite.script import Run, ScriptReader, result_version
from console.suite.session import DEFAULT, TestSession
from console.suite.suite_ini import Params, Suite, SuiteError, load_suite
from console.suite.wire import WireError

SUFFIX = ".test.lua"
PYTHON_SUFFIX = ".test.py"
START_TIMEOUT = 60.0  # seconds until a node is ready
DEFAULT_TIMEOUT = 240.0  # seconds without output from a command
TEST_RUN_MODULE = Path(lua.__file__).parent / "modules" / "suite" / "test_run.lua"


class RunOutcome(Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class Report:
    """`text` explains what is not a pass: a diff, a crash, the reason of a skip."""

    outcome: RunOutcome
    text: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """Of a whole run. `debug` executables have error injections."""

    executable: tuple[str, ...] = (sys.executable, "-m", "console")
    timeout: float = DEFAULT_TIMEOUT
    debug: bool = True
    long: bool = False
    keep: bool = False


@dataclass(frozen=True, slots=True)
class TestCase:
    """One run of one script with one configuration."""

    __test__ = False

    suite: Suite
    path: Path
    configuration: str | None
    params: Params

    @property
    def name(self) -> str:
        suffix = f"[{self.configuration}]" if self.configuration else ""
        return f"{self.suite.name}/{self.path.name}{suffix}"

    @property
    def result(self) -> Path:
        return self.path.with_name(self.stem + ".result")

    @property
    def stem(self) -> str:
        """The file's name without its suffix."""
        return self.path.name.removesuffix(SUFFIX).removesuffix(PYTHON_SUFFIX)

    @property
    def is_python(self) -> bool:
        return self.path.name.endswith(PYTHON_SUFFIX)

    @property
    def reject(self) -> Path:
        return self.result.with_suffix(".reject")


def discover(path: Path) -> list[TestCase]:
    """Test cases of a script, of a suite directory, or of all suites below a directory.

    Raises SuiteError for a broken suite, FileNotFoundError where there is no such path.
    """
    if not path.exists():
        raise FileNotFoundError(f"no such file or directory: {path}")
    path = path.resolve()
    if path.is_file():
        return _cases(load_suite(path.parent), [path])
    cases: list[TestCase] = []
    for directory in sorted({ini.parent for ini in path.rglob("suite.ini")}):
        found = [*directory.glob(f"*{SUFFIX}"), *directory.glob(f"*{PYTHON_SUFFIX}")]
        cases += _cases(load_suite(directory), sorted(script for script in found if script.is_file()))
    return cases


def _cases(suite: Suite, paths: list[Path]) -> list[TestCase]:
    return [TestCase(suite, path, name, params) for path in paths for name, params in suite.runs_of(path.name)]


async def run_case(case: TestCase, settings: Settings) -> Report:
    """Run a case in a directory of its own, which is removed afterwards. What keeps it from running is a failure."""
    # Short: the path of a unix socket has at most 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="lb-"))
    try:
        reason = _skip_reason(case, settings)
        if reason:
            return Report(RunOutcome.SKIPPED, reason)
        _install_libraries(case.suite, directory)
        if case.suite.core == "app":
            return await _run_app(case, settings, directory)
        if case.is_python:
            return await _run_python(case, settings, directory)
        return await _run_script(case, settings, directory)
    except (SuiteError, OSError) as error:
        return Report(RunOutcome.FAILED, str(error))
    finally:
        if not settings.keep:
            shutil.rmtree(directory, ignore_errors=True)


def _skip_reason(case: TestCase, settings: Settings) -> str | None:
    """Raises SuiteError for a condition that cannot be evaluated."""
    name, suite = case.path.name, case.suite
    if name in suite.disabled:
        return "disabled"
    if name in suite.release_disabled and not settings.debug:
        return "needs a debug build"
    if name in suite.long_run and not settings.long:
        return "long run"
    condition = case.path.with_name(case.stem + ".skipcond")
    return f"skipped by {condition.name}" if condition.exists() and _is_skipped(case, condition) else None


def _is_skipped(case: TestCase, condition: Path) -> bool:
    """The value that the condition, which is Python, has given `self.skip`."""
    test = SimpleNamespace(skip=False, name=case.path.name, suite=case.suite, conf_name=case.configuration)
    try:
        exec(compile(condition.read_text(), str(condition), "exec"), {"self": test})
    except Exception as error:
        raise SuiteError(f"{condition}: {type(error).__name__}: {error}") from error
    return bool(test.skip)


def _install_libraries(suite: Suite, directory: Path) -> None:
    target = directory / "lua"
    target.mkdir()
    for library in (TEST_RUN_MODULE, *suite.lua_libs):
        try:
            shutil.copy(library, target / library.name)
        except OSError as error:
            raise SuiteError(f"{suite.path}/suite.ini: lua_libs: {library}: {error.strerror}") from error


async def _run_app(case: TestCase, settings: Settings, directory: Path) -> Report:
    """The script is no server that commands could go to, but it may create servers."""
    inspector = Inspector()
    await inspector.start()
    start_timeout = min(START_TIMEOUT, settings.timeout)
    around = Surroundings(case.suite, settings.executable, directory, inspector.address, start_timeout)
    session = TestSession(around, case.params, ScriptReader(result_version(None)))
    inspector.session = session
    try:
        problem = await run_app(InstanceProcess("app", case.path, around), settings.timeout, _read_result(case))
    finally:
        failures = session.failures()
        await inspector.close()
        await session.close()
    notes = [note for note in (problem, *failures) if note]
    return Report(RunOutcome.FAILED, "\n".join(notes)) if notes else Report(RunOutcome.PASSED)


async def _run_python(case: TestCase, settings: Settings, directory: Path) -> Report:
    if case.suite.script is None:
        return Report(RunOutcome.FAILED, f"{case.suite.path}/suite.ini names no script")
    start_timeout = min(START_TIMEOUT, settings.timeout)
    around = Surroundings(case.suite, settings.executable, directory, ("127.0.0.1", 0), start_timeout)
    server = InstanceProcess(DEFAULT, case.suite.script, around)
    expected = _read_result(case)
    output, problem = "", None
    try:
        await server.start(StartOptions())
        output, problem = await run_python_test(case.path, server, settings.timeout)
    except TimeoutError:
        problem = f"not finished within {settings.timeout:g} s"
    except ServerError as error:
        problem = str(error)
    finally:
        crash = server.check_crash()
        await server.stop()
    return _compare(case, output, expected, problem, [crash] if crash else [], server.tail())


def _read_result(case: TestCase) -> str | None:
    return case.result.read_text(errors="surrogateescape") if case.result.exists() else None


async def _run_script(case: TestCase, settings: Settings, directory: Path) -> Report:
    expected = _read_result(case)
    try:
        reader = ScriptReader(result_version(expected))
    except ValueError as error:
        raise SuiteError(f"{case.result}: {error}") from error
    inspector = Inspector()
    await inspector.start()
    start_timeout = min(START_TIMEOUT, settings.timeout)
    around = Surroundings(case.suite, settings.executable, directory, inspector.address, start_timeout)
    session = TestSession(around, case.params, reader)
    inspector.session = session
    output: list[str] = [reader.header()]
    problem: str | None = None
    try:
        if case.suite.script is None:
            raise ServerError(f"{case.suite.path}/suite.ini names no script")
        await session.start_default(InstanceProcess(DEFAULT, case.suite.script, around))
        await _play(case.path, reader, session, inspector, output, settings.timeout)
    except (ServerError, WireError, OSError) as error:
        problem = str(error)
    finally:
        failures = session.failures()
        await inspector.close()
        await session.close()
    return _compare(case, "".join(output), expected, problem, failures, _tails(session))


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
    """The reply. Raises ServerError if there is none in time."""
    try:
        async with asyncio.timeout(timeout):
            reply = await session.execute(command)
            # A command that restarts its own node ends before the inspector does.
            await inspector.idle()
            if not reply:
                await session.settle()
            return reply
    except TimeoutError:
        raise ServerError(f"no answer within {timeout:g} s to: {command.strip()}") from None


def _source_lines(path: Path) -> list[str]:
    text = path.read_text(errors="surrogateescape")
    return text.removesuffix("\n").split("\n") if text else []


def _tails(session: TestSession) -> str:
    parts = [f"--- log of {server.name}\n{server.tail()}\n" for server in session.servers.values()]
    return "".join(parts)


def _compare(
    case: TestCase, output: str, expected: str | None, problem: str | None, failures: list[str], logs: str
) -> Report:
    notes = [note for note in (problem, *failures) if note]
    if expected is None and not notes:
        _write(case.result, output)
        return Report(RunOutcome.NEW, f"new result: {case.result.name}")
    if output == expected and not notes:
        case.reject.unlink(missing_ok=True)
        return Report(RunOutcome.PASSED)
    try:
        _write(case.reject, output)
    except SuiteError as error:
        notes.append(str(error))
    difference = "".join(
        difflib.unified_diff(
            (expected or "").splitlines(keepends=True),
            output.splitlines(keepends=True),
            case.result.name,
            case.reject.name,
        )
    )
    return Report(RunOutcome.FAILED, "\n".join([*notes, difference, logs]))


def _write(path: Path, output: str) -> None:
    """Raises SuiteError."""
    try:
        path.write_text(output, errors="surrogateescape")
    except OSError as error:
        raise SuiteError(f"cannot write {path}: {error.strerror}") from error


async def is_debug(executable: tuple[str, ...]) -> bool:
    """Whether `EXE --version` tells of a debug build. Raises OSError if it cannot be run."""
    process = await asyncio.create_subprocess_exec(*executable, "--version", stdout=asyncio.subprocess.PIPE)
    stdout, _ = await process.communicate()
    return any(line.startswith(b"Target:") and b"Debug" in line for line in stdout.splitlines())
