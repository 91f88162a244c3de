"""Files have a size that a reader can take in, and say what they are in their first words."""

from __future__ import annotations

import re
from pathlib import Path

from test.unit.house.source import PACKAGES, ROOT, modules

MOST_LINES = 600
"""A module that grows past it is two modules."""

RIDDLE = re.compile(r"(How|What|When|Where|Which|Who|Whose|Why)\b")
"""A docstring opens with the noun or the verb that it describes. What answers yes or no may open with `Whether`."""


def test_no_file_is_longer_than_a_reader_can_take_in() -> None:
    files = [
        file for part in (*PACKAGES, "test") for file in (ROOT / part).rglob("*") if file.suffix in (".py", ".lua")
    ]
    lengths = {file.relative_to(ROOT): file.read_bytes().count(b"\n") for file in files}
    assert lengths[Path("test/unit/house/test_files.py")], "the files were not found"
    long = {str(path): lines for path, lines in lengths.items() if lines > MOST_LINES}
    assert not long, f"more than {MOST_LINES} lines: {long}"


def test_docstrings_open_with_what_they_describe() -> None:
    riddles = [
        f"{module.path}:{line}: {text.splitlines()[0]}"
        for module in modules().values()
        for line, text in module.docstrings()
        if RIDDLE.match(text)
    ]
    assert not riddles, "\n".join(riddles)
