"""Reads suite.ini and suite.cfg, in which a suite directory describes its tests."""

from __future__ import annotations

import configparser
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Params = dict[str, Any]
_TRUE = {"1", "true", "yes", "on"}
CORES = ("tarantool", "app", "tap", "luatest")
FOREIGN_CORES = ("unittest", "stress")
"""Suites of compiled programs and of load: they have no tests that a node could run."""
_COMMENT = re.compile(r"(^|\s);.*$", re.MULTILINE)
_CONFIGURATION_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)


class SuiteError(Exception):
    """Raised for an unusable suite directory: no suite.ini, a wrong option, a broken suite.cfg."""


@dataclass(frozen=True, slots=True)
class Fragile:
    """A test that fails now and then.

    `issues` give the reasons. If there are MD5 `checksums`, only failures with one of these outputs are tried again.
    """

    retries: int
    issues: tuple[str, ...] = ()
    checksums: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Suite:
    """A directory with a suite.ini. `root` is its parent; scripts are named relative to it."""

    path: Path
    core: str
    script: Path | None
    description: str = ""
    disabled: frozenset[str] = frozenset()
    release_disabled: frozenset[str] = frozenset()
    long_run: frozenset[str] = frozenset()
    lua_libs: tuple[Path, ...] = ()
    is_parallel: bool = False
    pretest_clean: bool = False
    unix_sockets: bool = True
    unix_sockets_iproto: bool = True
    configurations: dict[str, dict[str, Params]] = field(default_factory=dict)
    fragile: dict[str, Fragile] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.path.parent

    @property
    def name(self) -> str:
        return self.path.name

    def runs_of(self, test_name: str) -> Iterator[tuple[str | None, Params]]:
        """Yield (configuration name, parameters) for each run of a test; the name is None if there are no
        configurations.
        """
        runs = self.configurations.get(test_name, self.configurations.get("*", {}))
        if not runs:
            yield None, {}
        yield from runs.items()

    def find_script(self, name: str) -> Path:
        """Return a file that is named relative to the suite's parent or to the suite itself."""
        for base in (self.root, self.path):
            if (base / name).is_file():
                return base / name
        raise SuiteError(f"no such script: {name}")

    def find_library(self, name: str) -> Path:
        """Return the place of a module that a script names relative to the suite's parent or to the suite itself."""
        return self.root / name if (self.root / name).exists() else self.path / name


def load_suite(path: Path) -> Suite:
    """Read path/suite.ini. Raises SuiteError."""
    path = path.resolve()
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with (path / "suite.ini").open() as file:
            parser.read_file(file)
        section = parser["default"]
    except OSError as error:
        raise SuiteError(f"{path}: no suite.ini: {error.strerror}") from error
    except (configparser.Error, KeyError) as error:
        raise SuiteError(f"{path}/suite.ini: {error}") from error
    return _suite_of(path, section)


def _suite_of(path: Path, section: configparser.SectionProxy) -> Suite:
    def text(key: str, default: str = "") -> str:
        return _COMMENT.sub("", section.get(key, default)).strip()

    def words(key: str) -> list[str]:
        return text(key).split()

    def flag(key: str, default: bool) -> bool:
        value = text(key)
        return value.lower() in _TRUE if value else default

    core = text("core", "tarantool")
    if core not in CORES + FOREIGN_CORES:
        raise SuiteError(f"{path}/suite.ini: unsupported core: {core}")
    script = text("script")
    return Suite(
        path=path,
        core=core,
        script=path / script if script else None,
        description=text("description"),
        disabled=frozenset(words("disabled")),
        release_disabled=frozenset(words("release_disabled")),
        long_run=frozenset(words("long_run")),
        lua_libs=tuple(path / name for name in words("lua_libs")),
        is_parallel=flag("is_parallel", False),
        pretest_clean=flag("pretest_clean", False),
        unix_sockets=flag("use_unix_sockets", True),
        unix_sockets_iproto=flag("use_unix_sockets_iproto", False),
        configurations=_load_configurations(path / config) if (config := text("config")) else {},
        fragile=_load_fragile(path, section.get("fragile", "")),
    )


_RETRIES = 3
"""How often a fragile test is repeated if the list does not tell."""


def _load_fragile(path: Path, text: str) -> dict[str, Fragile]:
    """Parse the option `fragile`.

    It is a list of names, each followed by `;` and its issues, or JSON: {"retries": N, "tests": {name: {"issues",
    "checksums"}}}.
    """
    if not text.strip().startswith("{"):
        return {name: Fragile(_RETRIES, tuple(issues)) for name, *issues in _fragile_lines(text)}
    try:
        loaded = json.loads(text)
        retries = int(loaded.get("retries", _RETRIES))
        return {
            name: Fragile(retries, tuple(test.get("issues", ())), frozenset(test.get("checksums", ())))
            for name, test in loaded.get("tests", {}).items()
        }
    except (ValueError, AttributeError, TypeError) as error:
        raise SuiteError(f"{path}/suite.ini: fragile: {error}") from error


def _fragile_lines(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        names, _, issues = line.partition(";")
        for name in names.split():
            yield [name, *issues.split()]


def _load_configurations(path: Path) -> dict[str, dict[str, Params]]:
    try:
        loaded: dict[str, dict[str, Params]] = json.loads(_CONFIGURATION_COMMENT.sub("", path.read_text()))
    except OSError:
        return {}
    except ValueError as error:
        raise SuiteError(f"{path}: {error}") from error
    if not _is_nested(loaded):
        raise SuiteError(f"{path}: expected test name -> configuration name -> parameters")
    return loaded


def _is_nested(loaded: Any) -> bool:
    """Return whether the value is nested maps of three levels."""
    if not isinstance(loaded, dict) or not all(isinstance(runs, dict) for runs in loaded.values()):
        return False
    return all(isinstance(parameters, dict) for runs in loaded.values() for parameters in runs.values())
