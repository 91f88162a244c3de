"""Runs the examples of a documentation page in their order, in a directory of their own.

```
a block with title="NAME"       is written to that file
a block of language `console`   lines after `$ ` are commands; the lines below are the expected output
                                […] stands for any text, times match any time; standard error is not compared
other blocks                    are not run
```
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
_TIME = re.compile(r"\d+(?:\\)?\.\d+(?:\\)? ?s\b")
_RATE = re.compile(r"\d[\d,]*(?:\\)? rows/s")
_SLOWEST = re.compile(r"^slowest:\n(?: +[\d.]+ s  .*\n)+", re.MULTILINE)
"""Lines that the suite runner prints on a busy machine only."""
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Command:
    """A command and its expected output."""

    text: str
    output: str


def walk(page: Path, directory: Path) -> int:
    """Run all commands of a page, and return their number.

    Raises:
        AssertionError: one has other output.
    """
    count = 0
    for language, title, body in _BLOCK.findall(page.read_text()):
        if title:
            (directory / title).parent.mkdir(parents=True, exist_ok=True)
            (directory / title).write_text(body)
        elif language == "console":
            for command in _commands(body):
                _check(command, directory)
                count += 1
    return count


def _commands(body: str) -> Iterator[Command]:
    parts = re.split(r"^\$ ", body, flags=re.MULTILINE)
    assert not parts[0], f"a block of commands begins with one: {parts[0]}"
    for part in parts[1:]:
        text, _, output = part.partition("\n")
        yield Command(text, output)


def _check(command: Command, directory: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", command.text],
        cwd=directory,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    pattern = _TIME.sub(r"[\\d.]+ ?s", re.escape(command.output).replace(re.escape("[…]"), ".*"))
    pattern = _RATE.sub(r"[\\d,]+ rows/s", pattern)
    output = _SLOWEST.sub("", done.stdout)
    assert re.fullmatch(pattern, output), f"$ {command.text}\n{output}{done.stderr}\nexpected:\n{command.output}"
