"""Files are short enough for a reader."""

from __future__ import annotations

from pathlib import Path

from test.unit.house.source import PACKAGES, ROOT

MOST_LINES = 600
"""The greatest number of lines of a module."""


def test_no_file_is_longer_than_a_reader_can_take_in() -> None:
    files = [
        file for part in (*PACKAGES, "test") for file in (ROOT / part).rglob("*") if file.suffix in (".py", ".lua")
    ]
    lengths = {file.relative_to(ROOT): file.read_bytes().count(b"\n") for file in files}
    assert lengths[Path("test/unit/house/test_files.py")], "the files were not found"
    long = {str(path): lines for path, lines in lengths.items() if lines > MOST_LINES}
    assert not long, f"more than {MOST_LINES} lines: {long}"
