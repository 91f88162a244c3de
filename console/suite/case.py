"""Finds the tests of suites, and those to skip."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from console.suite.defaults import OWN_EXECUTABLE, SYNC_TIMEOUT, TIMEOUT
from console.suite.suite_ini import FOREIGN_CORES, Params, Suite, SuiteError, load_suite
from console.suite.warm import WarmStarter

SUFFIX = ".test.lua"
SQL_SUFFIX = ".test.sql"
PYTHON_SUFFIX = ".test.py"
LUATEST_SUFFIX = "_test.lua"
SUFFIXES = (SUFFIX, SQL_SUFFIX, PYTHON_SUFFIX, LUATEST_SUFFIX)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a whole run.

    `timeout` is for one command of a script, `test_timeout` for one test. `debug` executables have error injections;
    `luatest` is the framework's directory.
    """

    executable: tuple[str, ...] = OWN_EXECUTABLE
    timeout: float = TIMEOUT
    test_timeout: float | None = None
    debug: bool = True
    long: bool = False
    keep: bool = False
    update: bool = False
    luatest: Path | None = None
    sync_timeout: int = SYNC_TIMEOUT
    warm: WarmStarter | None = None
    """The process that forks nodes; None if the tests run another executable."""

    @property
    def program_timeout(self) -> float:
        """The time limit in seconds of a test that is a program of its own."""
        return min(self.timeout, self.test_timeout or self.timeout)


@dataclass(frozen=True, slots=True)
class TestCase:
    """A run of one script with one configuration."""

    __test__ = False

    suite: Suite
    path: Path
    configuration: str | None
    params: Params

    @property
    def name(self) -> str:
        suffix = f"[{self.configuration}]" if self.configuration else ""
        return f"{self.suite.name}/{self.path.relative_to(self.suite.path)}{suffix}"

    @property
    def result(self) -> Path:
        return self.path.with_name(self.stem + ".result")

    @property
    def stem(self) -> str:
        """The file's name without its suffix."""
        name = self.path.name
        for suffix in SUFFIXES:
            name = name.removesuffix(suffix)
        return name

    @property
    def is_python(self) -> bool:
        return self.path.name.endswith(PYTHON_SUFFIX)

    @property
    def language(self) -> str:
        """The language in which a script's connections begin."""
        return "sql" if self.path.name.endswith(SQL_SUFFIX) else "lua"

    @property
    def reject(self) -> Path:
        return self.result.with_suffix(".reject")


def discover(path: Path) -> list[TestCase]:
    """Return the test cases of a script, of a suite directory, or of all suites below a directory.

    Raises SuiteError for a broken suite, FileNotFoundError for a path that does not exist.
    """
    if not path.exists():
        raise FileNotFoundError(f"no such file or directory: {path}")
    path = path.resolve()
    if path.is_file():
        if not path.name.endswith(SUFFIXES):
            raise SuiteError(f"{path} is no test: names of tests end in {' or '.join(SUFFIXES)}")
        return _cases(load_suite(_suite_directory(path)), [path])
    cases: list[TestCase] = []
    for directory in sorted({ini.parent for ini in path.rglob("suite.ini")}):
        suite = load_suite(directory)
        cases += _cases(suite, sorted(script for script in _scripts(suite) if script.is_file()))
    return cases


def _suite_directory(script: Path) -> Path:
    """Return the suite of a script: its directory, or, for luatest, one above it."""
    if script.name.endswith(LUATEST_SUFFIX):
        for directory in script.parents:
            if (directory / "suite.ini").exists():
                return directory
    return script.parent


def _scripts(suite: Suite) -> list[Path]:
    if suite.core in FOREIGN_CORES:
        return []
    if suite.core == "luatest":
        return [*suite.path.rglob(f"*{LUATEST_SUFFIX}")]
    return [path for suffix in (SUFFIX, SQL_SUFFIX, PYTHON_SUFFIX) for path in suite.path.glob(f"*{suffix}")]


def _cases(suite: Suite, paths: list[Path]) -> list[TestCase]:
    return [TestCase(suite, path, name, params) for path in paths for name, params in suite.runs_of(path.name)]


def skip_reason(case: TestCase, settings: Settings) -> str | None:
    """Return the reason why a case is skipped, or None. Raises SuiteError for a condition that cannot be evaluated."""
    names, suite = {case.path.name, f"{case.path.name}:{case.configuration}"}, case.suite
    if names & suite.disabled:
        return "disabled"
    if names & suite.release_disabled and not settings.debug:
        return "needs a debug build"
    if names & suite.long_run and not settings.long:
        return "long run"
    condition = case.path.with_name(case.stem + ".skipcond")
    is_skipped = condition.exists() and _is_skipped(case, condition, settings)
    return f"skipped by {condition.name}" if is_skipped else None


def _is_skipped(case: TestCase, condition: Path, settings: Settings) -> bool:
    """Return the value that the condition, a Python file, assigns to `self.skip`."""
    suite = case.suite
    test = SimpleNamespace(
        skip=False,
        name=str(case.path),
        suite=suite,
        suite_ini={"suite": str(suite.path), "core": suite.core},
        conf_name=case.configuration,
        run_params=case.params,
        args=SimpleNamespace(long=settings.long),
    )
    server = SimpleNamespace(debug=settings.debug, binary=settings.executable[0], builddir=str(suite.root.parent))
    try:
        exec(compile(condition.read_text(), str(condition), "exec"), {"self": test, "server": server})
    except Exception as error:
        raise SuiteError(f"{condition}: {type(error).__name__}: {error}") from error
    return bool(test.skip)
