"""The command line of the runner."""

from __future__ import annotations

import argparse
import math
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from console.suite.defaults import OWN_EXECUTABLE, SYNC_TIMEOUT, TIMEOUT

_Value = TypeVar("_Value")


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line; ends the program if it is wrong or asks for help or the version.

    `executable` is a tuple of words.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.test_timeout is None:
        options.test_timeout = _environment(parser, "TEST_TIMEOUT", _seconds, None)
    if options.sync_timeout is None:
        options.sync_timeout = _environment(parser, "REPLICATION_SYNC_TIMEOUT", _number, SYNC_TIMEOUT)
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lunabox-test",
        description="Run suites of .test.lua, .test.sql and .test.py scripts, and of luatest's _test.lua files.",
    )
    add = parser.add_argument
    add("paths", nargs="+", type=Path, metavar="PATH", help="a script, a suite, or suites below")
    add("-k", dest="filter", default="", metavar="TEXT", help="only tests whose name contains TEXT")
    add("--exclude", action="append", default=[], metavar="TEXT", help="no tests whose name contains TEXT (several)")
    add("--conf", metavar="NAME", help="only this configuration of tests that have several")
    add("--force", action=argparse.BooleanOptionalAction, default=True, help="go on after a test that failed (default)")
    add("-j", "--jobs", type=_jobs, default=1, metavar="N", help="so many parallel tests at a time; 0: two a processor")
    add("--repeat", type=_count, default=1, metavar="N", help="run each test N times")
    add("--executable", type=_command, default=OWN_EXECUTABLE, metavar="COMMAND", help="run this instead of lunabox")
    add("--luatest", type=Path, metavar="PATH", help="a rocks tree or sources of luatest (default: .rocks, $LUATEST)")
    add("--no-fork", dest="fork", action="store_false", help="start each node as a program of its own")
    add(
        "--timeout",
        type=_seconds,
        default=TIMEOUT,
        metavar="SECONDS",
        help="for one command, or one file of luatest",
    )
    add(
        "--test-timeout",
        type=_seconds,
        metavar="SECONDS",
        help="for one test (default: no limit, $TEST_TIMEOUT)",
    )
    add(
        "--replication-sync-timeout",
        dest="sync_timeout",
        type=_number,
        metavar="SECONDS",
        help=f"replication_sync_timeout of nodes ({SYNC_TIMEOUT}, $REPLICATION_SYNC_TIMEOUT)",
    )
    add("--long", action="store_true", help="run the tests that a suite marks as long too")
    add("--keep", action="store_true", help="keep the directories of the nodes")
    add(
        "--update",
        "--update-result",
        action="store_true",
        help="write result files anew where the output is another one",
    )
    add("--junit", type=_new_file, metavar="FILE", help="write a report as JUnit XML")
    add("--slowest", type=_number, default=5, metavar="N", help="name the N slowest at the end, from a second on (5)")
    add("--version", action=_Version, nargs=0, help="print the version and exit")
    return parser


class _Version(argparse.Action):
    """The action of an option that prints the version."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from box.version import VERSION

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


def _jobs(text: str) -> int:
    if text == "-1":
        return 1
    return _number(text) or 2 * (os.cpu_count() or 1)


def _new_file(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"not a file in a directory that exists: {text}")
    return path


def _command(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}: {text}") from error
    if not words:
        raise argparse.ArgumentTypeError("no command")
    return words


def _environment(
    parser: argparse.ArgumentParser, name: str, read: Callable[[str], _Value], default: _Value | None
) -> _Value | None:
    """Return the value of an option that a variable sets, or the default. A wrong one ends the program."""
    text = os.environ.get(name)
    if not text:
        return default
    try:
        return read(text)
    except argparse.ArgumentTypeError as error:
        parser.error(f"variable {name}: {error}")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"not a positive number: {text}")
    return seconds
