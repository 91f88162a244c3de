"""A strict type checker knows the interface: it passes a program that uses all of it, and finds mistakes."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from box import (
    IndexHandle,
    Node,
    PreparedStatement,
    SchemaRequests,
    SequenceHandle,
    SpaceHandle,
    TransactionBlock,
)

pytest.importorskip("mypy")
ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("typed_program.py")
MISTAKE = re.compile(r"# mistake: ([\w-]+)")


def test_the_program_is_right_but_for_its_mistakes(tmp_path: Path) -> None:
    expected = {
        (number, found[1])
        for number, line in enumerate(PROGRAM.read_text().splitlines(), 1)
        if (found := MISTAKE.search(line))
    }
    assert len(expected) >= 10
    options = ["--strict", "--follow-imports", "silent", "--no-error-summary", "--hide-error-context"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--cache-dir", str(tmp_path), str(PROGRAM.relative_to(ROOT))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    found = re.findall(r"typed_program\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    assert {(int(number), code) for number, code in found} == expected, done.stdout + done.stderr


@pytest.mark.parametrize(
    "kind",
    [Node, PreparedStatement, SpaceHandle, IndexHandle, SchemaRequests, SequenceHandle, TransactionBlock],
)
def test_the_program_uses_every_public_call(kind: type) -> None:
    used = {node.attr for node in ast.walk(ast.parse(PROGRAM.read_text())) if isinstance(node, ast.Attribute)}
    calls = {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}
    assert not calls - used


def test_errors_name_what_was_meant() -> None:
    """The public classes' texts name classes of errors, not codes alone."""
    for kind in (Node, SpaceHandle, SchemaRequests, TransactionBlock):
        assert kind.__doc__ is not None
        assert "Raises:" in kind.__doc__, kind
