"""The typed interface: mypy --strict passes a program that uses all of it, and finds mistakes."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

import box
from box import (
    BoxError,
    Change,
    ChangeStream,
    Datetime,
    GrantedPrivilege,
    IndexHandle,
    Interval,
    Node,
    PreparedStatement,
    RowPage,
    SchemaRequests,
    SequenceHandle,
    SessionInfo,
    SpaceHandle,
    SqlColumn,
    SqlResult,
    TransactionBlock,
    dbapi,
)
from box import sync as blocking
from box.testing import Cluster, KillableNode

pytest.importorskip("mypy")
ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("typed_program.py")
EXAMPLE = ROOT / "examples" / "job_queue"
MISTAKE = re.compile(r"# mistake: ([\w-]+)")


@pytest.fixture(scope="module")
def complaints() -> list[str]:
    """What mypy says of the program and of the sample application, in one run, because both need the types of all.

    The run shares the cache of `make check`, so its options are those, and what it says of the product is left out.
    """
    files = [PROGRAM.relative_to(ROOT), *(EXAMPLE / name for name in ("job_queue", "test_job_queue.py"))]
    options = ["--strict", "--no-error-summary", "--hide-error-context", "--cache-dir", str(ROOT / ".mypy_cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *map(str, files)],
        cwd=ROOT,
        env=os.environ | {"MYPYPATH": str(EXAMPLE)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith(("test/", "examples/"))]


def test_the_sample_application_is_typed_strictly(complaints: list[str]) -> None:
    pytest.importorskip("aiohttp")
    assert [line for line in complaints if PROGRAM.name not in line] == []


def test_the_program_is_right_but_for_its_mistakes(complaints: list[str]) -> None:
    expected = {
        (number, found[1])
        for number, line in enumerate(PROGRAM.read_text().splitlines(), 1)
        if (found := MISTAKE.search(line))
    }
    assert len(expected) >= 10
    text = "\n".join(complaints)
    found = re.findall(r"typed_program\.py:(\d+): error: .*\[([\w-]+)\]$", text, re.MULTILINE)
    assert {(int(number), code) for number, code in found} == expected, text


HANDLES = (Node, SpaceHandle, IndexHandle, SchemaRequests, SequenceHandle, TransactionBlock, PreparedStatement)
VALUES = (Change, ChangeStream, Datetime, GrantedPrivilege, Interval, RowPage, SessionInfo, SqlColumn, SqlResult)
OTHERS = (BoxError, dbapi.DatabaseConnection, dbapi.DatabaseCursor, Cluster, KillableNode)
BLOCKING = tuple(getattr(blocking, name) for name in blocking.__all__)
INNER = {"sort_key", "unchecked"}
"""Names of `Datetime` that only the node uses."""


@pytest.mark.parametrize("kind", [*HANDLES, *VALUES, *OTHERS, *BLOCKING], ids=lambda kind: kind.__name__)
def test_the_program_uses_every_public_name(kind: type) -> None:
    """The program uses every public name, except those that tuples, lists, mappings and exceptions have anyway."""
    inherited = {name for base in (tuple, list, Exception, Mapping) if issubclass(kind, base) for name in dir(base)}
    names = {name for name, _ in inspect.getmembers(kind) if not name.startswith("_")} - inherited - INNER
    assert not names - _attributes()


@pytest.mark.parametrize("module", [box, dbapi], ids=lambda module: module.__name__)
def test_the_program_uses_every_name_of_a_module(module: ModuleType) -> None:
    used = _attributes() | {
        alias.name
        for node in ast.walk(ast.parse(PROGRAM.read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert not set(module.__all__) - used


def _attributes() -> set[str]:
    return {node.attr for node in ast.walk(ast.parse(PROGRAM.read_text())) if isinstance(node, ast.Attribute)}


def test_errors_name_what_was_meant() -> None:
    """Error texts of public classes name exception classes, not codes alone."""
    for kind in (Node, SpaceHandle, SchemaRequests, TransactionBlock):
        assert kind.__doc__ is not None
        assert "Raises:" in kind.__doc__, kind
