"""Formats tables in Markdown, and reads the files of facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

FACTS = Path(__file__).parents[1] / "facts"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a table; cells may contain Markdown, and bars in them are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def code(text: object) -> str:
    """Format a text as code; an empty text stays empty."""
    return f"`{text}`" if str(text) else ""


def lines_of(name: str) -> Iterator[str]:
    """Return the lines of a file of facts, without comments and empty lines."""
    for line in (FACTS / name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line


def facts(name: str) -> dict[str, str]:
    """Return the `name: text` lines of a file of facts as a dict.

    Raises:
        ValueError: a name occurs twice.
    """
    found: dict[str, str] = {}
    for line in lines_of(name):
        key, _, text = line.partition(": ")
        if key in found:
            raise ValueError(f"{name}: {key} comes twice")
        found[key] = text
    return found


def sentence(text: str) -> str:
    """Return a text with a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
