"""The error codes: numbers, names and messages from the node, meanings from facts/error_codes.txt."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from box.errors import ErrorCode
from reference_tables.markdown import code, facts, table

_ROOT = Path(__file__).parents[3]
_CONVERSION = re.compile(r"%\.?\d*[scdu]")


def table_of_codes(which: str) -> str:
    """Return the table `raised`, of codes that the node raises with their meanings, or `other`, of
    those it only knows.
    """
    meanings = facts("error_codes.txt")
    head = ["code", "name", "message"] + (["meaning"] if which == "raised" else [])
    chosen = (found for found in ErrorCode if (found.name in raised()) == (which == "raised"))
    return table(head, (_row(found, meanings.get(found.name)) for found in chosen))


def _row(found: ErrorCode, meaning: str | None) -> list[str]:
    row = [str(int(found)), code(found.name), _message(found)]
    return row if meaning is None else [*row, meaning]


@cache
def raised() -> frozenset[str]:
    """Return the names of the codes that the product's sources use outside of the table of codes."""
    used = re.compile(r"(?:ErrorCode|error|errors|codes?)\.([A-Z][A-Z_]+)\b|\bER_([A-Z_]+)\b")
    found: set[str] = set()
    for package in ("box", "lua", "console"):
        for kind in ("py", "lua"):
            for path in (_ROOT / package).rglob(f"*.{kind}"):
                if path.name != "error_codes.py":
                    found.update(first or second for first, second in used.findall(path.read_text(encoding="utf-8")))
    return frozenset(found) & frozenset(ErrorCode.__members__)


def _message(found: ErrorCode) -> str:
    """Return a message's template with an ellipsis for each value."""
    return _CONVERSION.sub("…", found.template).replace("%%", "%")
