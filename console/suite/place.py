"""Prepares the directory in which the nodes of one test run: the modules of its suite, and the command `tarantool`."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import lua
from console.suite.suite_ini import SuiteError

TEST_RUN_MODULE: Final = Path(lua.__file__).parent / "modules" / "suite" / "test_run.lua"
PROGRAMS: Final = ".bin"
"""The directory, inside that of a test, which is the first in which its nodes look for programs."""

CLEAN_MODULE: Final = TEST_RUN_MODULE.with_name("pretest_clean.lua")
"""The module that suites with `pretest_clean` find."""


def prepare_place(directory: Path, executable: tuple[str, ...], libraries: Iterable[Path]) -> None:
    """Copy the modules, and make the executable known as `tarantool`. Raises SuiteError."""
    copy_libraries((TEST_RUN_MODULE, *libraries), directory)
    program = program_of(directory)
    program.parent.mkdir(exist_ok=True)
    with program.open("w") as file:
        file.write(f'#!/bin/sh\nexec {shlex.join(executable)} "$@"\n')
    program.chmod(0o755)


def program_of(directory: Path) -> Path:
    """Return the command `tarantool` of a test's directory."""
    return directory / PROGRAMS / "tarantool"


def copy_libraries(libraries: Iterable[Path], directory: Path) -> None:
    """Copy files and directories; one that does not exist is left out. Raises SuiteError."""
    for library in libraries:
        target = directory / library.name
        try:
            if library.is_dir():
                shutil.copytree(library, target, dirs_exist_ok=True)
            else:
                shutil.copy(library, target)
        except FileNotFoundError:
            continue  # a suite that names a module too many works as long as nobody requires it
        except (OSError, shutil.Error) as error:
            raise SuiteError(f"lua_libs: {library}: {getattr(error, 'strerror', None) or error}") from error
