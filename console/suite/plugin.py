"""pytest plugin that collects `.test.lua`, `.test.sql`, `.test.py` and luatest `_test.lua` files of suites.

Enable it with `-p console.suite.plugin`, with `pytest_plugins` in the top conftest.py, or for one directory by
importing `pytest_collect_file` into its conftest.py. Options: `--executable`, `--long-suites`, `--update-results`,
`--luatest`.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.suite.runner import SUFFIXES, RunOutcome, Settings, TestCase, discover, is_debug, run_case
from console.suite.suite_ini import SuiteError
from console.suite.warm import make_warm


class SuiteFailure(Exception):
    """Raised for a failed test; it carries the report."""


class SuiteFile(pytest.File):
    """A script, with an item for each of its configurations."""

    def collect(self) -> Iterable[pytest.Item]:
        try:
            cases = discover(self.path)
        except SuiteError as error:
            raise self.CollectError(str(error)) from error
        for case in cases:
            name = f"{self.path.name}[{case.configuration}]" if case.configuration else self.path.name
            yield SuiteItem.from_parent(self, name=name, case=case)


class SuiteItem(pytest.Item):
    """A run of a script against its result file."""

    def __init__(self, *, case: TestCase, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._case = case

    def runtest(self) -> None:
        report = asyncio.run(run_case(self._case, _settings(self.config)))
        if report.outcome is RunOutcome.SKIPPED:
            pytest.skip(report.text)
        if report.outcome is RunOutcome.FAILED:
            raise SuiteFailure(report.text)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, SuiteFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self._case.name


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("suites", "original-style suites")
    group.addoption("--executable", help="run this command instead of lunabox")
    group.addoption("--long-suites", action="store_true", help="run the tests that a suite marks as long too")
    group.addoption("--update-results", action="store_true", help="write result files anew where the output differs")
    group.addoption("--luatest", type=Path, help="a rocks tree or sources of luatest")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.name.endswith(SUFFIXES) and (file_path.parent / "suite.ini").exists():
        collector: pytest.Collector = SuiteFile.from_parent(parent, path=file_path)
        return collector
    return None


_SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()


def _settings(config: pytest.Config) -> Settings:
    """Return the settings, made once in a run, because the executable is asked whether it is a debug build."""
    settings = config.stash.get(_SETTINGS, None)
    if settings is None:
        settings = Settings(
            long=config.getoption("--long-suites", False),
            update=config.getoption("--update-results", False),
            luatest=config.getoption("--luatest", None),
        )
        executable = config.getoption("--executable", None)
        if executable:
            settings = replace(settings, executable=tuple(shlex.split(executable)))
        warm = make_warm(settings.executable)
        if warm is not None:
            config.add_cleanup(warm.close)
        settings = replace(settings, debug=asyncio.run(is_debug(settings.executable)), warm=warm)
        config.stash[_SETTINGS] = settings
    return settings
